//! Memory of the container: what its cgroup says (version 1 or 2), and which run goes first when it comes near the limit.
//! The kernel's own kill would take the whole container on cgroup v2; ending the largest run alone comes before it.

use std::fs;
use std::path::{Path, PathBuf};

/// Share of the limit, in percent, from which the largest run is ended.
const NEAR_PERCENT: u64 = 97;

/// Kills by the kernel in this container's cgroup so far; `None` where it can't be known.
#[must_use]
pub fn oom_kills() -> Option<u64> {
    Cgroup::find()?.oom_kills()
}

/// The container's memory cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    folder: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Cgroup {
    /// This process's memory cgroup, as it is mounted here.
    #[must_use]
    pub fn find() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::find_in(Path::new("/sys/fs/cgroup"), &own)
    }

    /// Inside a container the mount usually is the container's own folder, so the path of `/proc/self/cgroup` is tried
    /// first and the mount itself after it.
    fn find_in(mount: &Path, own: &str) -> Option<Self> {
        let line = |wanted: fn(&str) -> bool| {
            own.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let first_with = |folders: [PathBuf; 2], file: &str, version| {
            folders
                .into_iter()
                .find(|folder| folder.join(file).exists())
                .map(|folder| Self { folder, version })
        };
        let one = line(|controllers| controllers.split(',').any(|each| each == "memory"));
        if let Some(path) = one {
            let mount = mount.join("memory");
            return first_with([mount.join(path), mount], "memory.oom_control", Version::One);
        }
        let path = line(str::is_empty)?;
        first_with([mount.join(path), mount.to_owned()], "memory.events", Version::Two)
    }

    /// Kills by the kernel so far.
    #[must_use]
    pub fn oom_kills(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        self.keyed(file, "oom_kill")
    }

    /// Whether the container is so near its limit that a run must go. Memory that the kernel can take back at once
    /// (inactive files) doesn't count.
    #[must_use]
    pub fn is_near_limit(&self) -> bool {
        let (usage, limit, inactive) = match self.version {
            Version::One => ("memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"),
            Version::Two => ("memory.current", "memory.max", "inactive_file"),
        };
        let (Some(usage), Some(limit)) = (self.number(usage), self.number(limit)) else {
            return false;
        };
        let used = usage.saturating_sub(self.keyed("memory.stat", inactive).unwrap_or(0));
        used >= limit / 100 * NEAR_PERCENT
    }

    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }

    fn keyed(&self, file: &str, key: &str) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(of: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in of {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn version_2_as_a_container_sees_it() {
        let dir = files(&[
            ("memory.events", "low 0\nhigh 0\nmax 5\noom 2\noom_kill 3\noom_group_kill 0\n"),
            ("memory.current", "990\n"),
            ("memory.max", "1000\n"),
            ("memory.stat", "anon 5\ninactive_file 5\nactive_file 9\n"),
        ]);
        let cgroup = Cgroup::find_in(dir.path(), "0::/\n").unwrap();
        assert_eq!((cgroup.oom_kills(), cgroup.is_near_limit()), (Some(3), true));
        fs::write(dir.path().join("memory.stat"), "inactive_file 500\n").unwrap();
        assert!(!cgroup.is_near_limit());
        fs::write(dir.path().join("memory.max"), "max\n").unwrap();
        assert!(!cgroup.is_near_limit());
    }

    #[test]
    fn version_1_by_path_or_by_mount() {
        let dir =
            files(&[("memory/kube/x/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")]);
        let own = "9:name=systemd:/\n4:cpu,memory:/kube/x\n0::/\n";
        assert_eq!(Cgroup::find_in(dir.path(), own).unwrap().oom_kills(), Some(1));
        let dir = files(&[("memory/memory.oom_control", "oom_kill 7\n")]);
        assert_eq!(Cgroup::find_in(dir.path(), own).unwrap().oom_kills(), Some(7));
        assert_eq!(Cgroup::find_in(Path::new("/nowhere"), own), None);
    }
}

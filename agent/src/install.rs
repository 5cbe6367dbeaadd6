//! What the init container of a pod does: puts this binary into a folder, and makes folders with an owner and a mode.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A folder to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// User id of its owner.
    pub uid: u32,
    /// Group id of its owner.
    pub gid: u32,
    /// Permission bits, `2775` for instance.
    pub mode: u32,
    /// Absolute.
    pub path: PathBuf,
}

impl FromStr for Folder {
    type Err = String;

    /// `uid:gid:mode:path`, mode in octal.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not uid:gid:mode:path, as in 1000:1000:2775:/claim/tree");
        let mut parts = text.splitn(4, ':');
        let mut next = || parts.next().ok_or_else(wrong);
        let (uid, gid, mode, path) = (next()?, next()?, next()?, PathBuf::from(next()?));
        let mode = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777).ok_or_else(wrong)?;
        let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
        if !path.is_absolute() || !plain {
            return Err(wrong());
        }
        Ok(Self {
            uid: uid.parse().map_err(|_| wrong())?,
            gid: gid.parse().map_err(|_| wrong())?,
            mode,
            path,
        })
    }
}

/// Copies this binary to `<folder>/drydock-agent`, executable by everybody.
///
/// # Errors
/// Of the file system.
pub fn install_binary(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let target = folder.join("drydock-agent");
    let temporary = folder.join(".drydock-agent.tmp");
    fs::copy("/proc/self/exe", &temporary)?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o755))?;
    fs::rename(temporary, target)
}

/// Makes a folder, and gives it its owner and mode if it isn't there or is another's. A link in its place is refused.
///
/// # Errors
/// Of the file system, or what is there is no folder.
pub fn make_folder(folder: &Folder) -> io::Result<()> {
    fs::create_dir_all(&folder.path)?;
    if !fs::symlink_metadata(&folder.path)?.is_dir() {
        return Err(io::Error::other("it is a link, not a folder"));
    }
    chown(&folder.path, Some(folder.uid), Some(folder.gid))?;
    fs::set_permissions(&folder.path, fs::Permissions::from_mode(folder.mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_and_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let folder: Folder = format!("1234:5678:2775:{}", path.display()).parse().unwrap();
        make_folder(&folder).unwrap();
        make_folder(&folder).unwrap();
        let meta = fs::metadata(&path).unwrap();
        use std::os::unix::fs::MetadataExt;
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (1234, 5678, 0o2775));
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("x")).unwrap();
        let folder = Folder { uid: 0, gid: 0, mode: 0o777, path: dir.path().join("x") };
        assert!(make_folder(&folder).is_err());
    }

    #[test]
    fn what_is_no_folder_says_how_one_is_written() {
        for text in ["", "1:2:3", "1:2:8:/x", "a:2:755:/x", "1:2:755:x", "1:2:755:/x/../y", "1:2:10000:/x"] {
            assert!(text.parse::<Folder>().unwrap_err().contains("uid:gid:mode:path"), "{text}");
        }
    }
}

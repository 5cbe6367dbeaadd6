//! The control groups of a cluster's nodes: one below the root of every hierarchy that the machine has, v1 or v2.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::process::Identity;
use crate::{Error, Result};

/// Makes the group `name` everywhere. On v1, `cpuset` groups start without processors and are filled from the root.
pub(crate) fn create(name: &str) -> Result<()> {
    for root in hierarchies() {
        let group = root.join(name);
        fs::create_dir_all(&group).map_err(Error::file("make", &group))?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(value) = fs::read_to_string(root.join(file)) {
                let path = group.join(file);
                fs::write(&path, value.trim()).map_err(Error::file("write", &path))?;
            }
        }
        let control = root.join("cgroup.subtree_control");
        if let (true, Ok(controllers)) =
            (control.exists(), fs::read_to_string(root.join("cgroup.controllers")))
        {
            for controller in controllers.split_whitespace() {
                // A controller that v1 has taken, or that the machine forbids, is missing there and not here.
                let _ = fs::write(&control, format!("+{controller}"));
            }
        }
    }
    Ok(())
}

/// The processes in the groups of these names, and below.
pub(crate) fn processes(names: &[String]) -> Vec<Identity> {
    let mut pids = Vec::new();
    for group in groups(names) {
        walk(&group, &mut |folder| {
            let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            pids.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
        });
    }
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().filter_map(Identity::of).collect()
}

/// Kills what [`processes`] finds.
pub(crate) fn kill(names: &[String]) {
    for process in processes(names) {
        process.signal(Signal::KILL);
    }
}

/// Removes the groups of these names. They must be empty of processes.
pub(crate) fn remove(names: &[String]) -> Result<()> {
    for group in groups(names) {
        let mut folders = Vec::new();
        walk(&group, &mut |folder| folders.push(folder.to_owned()));
        for folder in folders.iter().rev() {
            fs::remove_dir(folder).map_err(Error::file("remove", folder))?;
        }
    }
    Ok(())
}

fn groups(names: &[String]) -> Vec<PathBuf> {
    let candidates = hierarchies().into_iter().flat_map(|root| names.iter().map(move |name| root.join(name)));
    candidates.filter(|path| path.is_dir()).collect()
}

/// Parents before children.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) {
    visit(folder);
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(std::result::Result::ok) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), visit);
        }
    }
}

fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (target, kind) = (fields.next()?, fields.next()?);
            matches!(kind, "cgroup" | "cgroup2").then(|| PathBuf::from(target))
        })
        .collect()
}

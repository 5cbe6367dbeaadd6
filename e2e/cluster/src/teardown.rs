//! Takes a cluster down, whatever state it is in: processes, link, mounts, control groups, files.
//!
//! Ends only processes that carry the cluster's mark or sit in its control groups. Needs no record of the cluster: a
//! run that was killed half way left enough.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;
use rustix::process::Signal;

use crate::layout::{self, Layout};
use crate::network;
use crate::process::{self, Process};
use crate::record::Record;
use crate::{Error, Result, cgroup};

const DEADLINE: Duration = Duration::from_secs(30);

/// What of a cluster stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Nothing,
    /// Logs and configuration, to find out why a start failed. The next start or `down` removes them.
    Files,
}

/// Ends everything of the cluster and removes what it left.
pub(crate) fn take_down(layout: &Layout, keep: Keep) -> Result<()> {
    let groups = [layout.cgroup(1), layout.cgroup(2)];
    end_processes(layout, &groups)?;
    if let Some(slot) = Record::load(layout).and_then(|record| record.slot) {
        delete_link(&network::host_interface(slot))?;
    }
    unmount_below(layout.root())?;
    remove_groups(&groups)?;
    if keep == Keep::Files {
        return Ok(());
    }
    match fs::remove_dir_all(layout.root()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::file("remove", layout.root())(error));
        }
        _ => {}
    }
    remove_mount_points();
    Ok(())
}

/// Takes down every cluster whose owner is gone, but for those that somebody else is at.
pub(crate) fn sweep() -> Result<()> {
    for name in layout::cluster_names()? {
        let layout = Layout::new(&name)?;
        let abandoned = || Record::load(&layout).is_some_and(|record| record.is_abandoned());
        if !abandoned() {
            continue;
        }
        let path = layout.lock();
        let lock = fs::File::create(&path).map_err(Error::file("make", &path))?;
        // Another run may have swept it, and made a new one, in between.
        if lock.try_lock().is_ok() && abandoned() {
            take_down(&layout, Keep::Nothing)?;
            fs::remove_file(&path).map_err(Error::file("remove", &path))?;
        }
    }
    Ok(())
}

/// Repeats until nothing is left: what is being killed may be starting something.
fn end_processes(layout: &Layout, groups: &[String]) -> Result<()> {
    let started = Instant::now();
    for process in Process::load_all(layout) {
        process.signal(Signal::KILL);
    }
    loop {
        let marked = process::marked(layout.root());
        for process in &marked {
            process.signal(Signal::KILL);
        }
        cgroup::kill(groups);
        process::wait_gone(&marked, DEADLINE)?;
        if marked.is_empty() && cgroup::processes(groups).is_empty() {
            return Ok(());
        }
        if started.elapsed() > DEADLINE {
            let detail = format!("processes {:?} are left", cgroup::processes(groups));
            return Err(Error::Deadline { what: "the cluster's end".to_owned(), after: DEADLINE, detail });
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The other end goes with it. A link that is gone already went with its namespace.
fn delete_link(interface: &str) -> Result<()> {
    if !Path::new("/sys/class/net").join(interface).exists() {
        return Ok(());
    }
    let deleted = Command::new("ip").args(["link", "delete", interface]).output();
    deleted.map(drop).map_err(|source| Error::Spawn { program: "ip".to_owned(), source })
}

fn unmount_below(folder: &Path) -> Result<()> {
    let mounts =
        fs::read_to_string("/proc/self/mountinfo").map_err(Error::file("read", "/proc/self/mountinfo"))?;
    let mut targets: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|target| PathBuf::from(target.replace("\\040", " ")))
        .filter(|target| target.starts_with(folder))
        .collect();
    targets.reverse();
    for target in targets {
        rustix::mount::unmount(&target, UnmountFlags::DETACH)
            .map_err(|error| Error::file("unmount", &target)(error.into()))?;
    }
    Ok(())
}

/// The kernel empties a group some moments after its last process is gone.
fn remove_groups(groups: &[String]) -> Result<()> {
    let started = Instant::now();
    loop {
        match cgroup::remove(groups) {
            Err(_) if started.elapsed() < DEADLINE => thread::sleep(Duration::from_millis(20)),
            result => return result,
        }
    }
}

/// The machine's folders that nodes mount theirs over go with the last node; one that is in use is not empty.
fn remove_mount_points() {
    let has_nodes = |name: &String| {
        let record = Layout::new(name).ok().and_then(|layout| Record::load(&layout));
        record.is_none_or(|record| record.slot.is_some())
    };
    if layout::cluster_names().is_ok_and(|names| !names.iter().any(has_nodes)) {
        for (_, target) in crate::node::MOUNTS {
            let _ = fs::remove_dir(target);
        }
    }
}

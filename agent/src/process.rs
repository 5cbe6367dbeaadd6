//! Processes as the kernel shows them in `/proc`: who descends from whom, and signals to them. Never decides when.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::runs::record::End;

/// A process, told apart from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessId {
    /// Process id.
    pub pid: i32,
    /// Clock ticks after the machine's start at which it was made.
    pub start_time: u64,
}

impl ProcessId {
    /// The process that has this number now; `None` when there is none.
    #[must_use]
    pub fn of(pid: Pid) -> Option<Self> {
        Some(Self { pid: pid.as_raw(), start_time: read_stat(pid.as_raw())?.start_time })
    }

    /// Whether it is still there (a zombie is).
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::of(Pid::from_raw(self.pid)) == Some(self)
    }
}

struct Stat {
    state: u8,
    parent: i32,
    start_time: u64,
}

fn read_stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may have any character: the last `)` ends it.
    let after_name = text.iter().rposition(|byte| *byte == b')')? + 2;
    let fields = std::str::from_utf8(text.get(after_name..)?).ok()?;
    let mut fields = fields.split(' ');
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let start_time = fields.nth(17)?.parse().ok()?;
    Some(Stat { state, parent, start_time })
}

/// The living descendants of a process, zombies left out, parents before children.
#[must_use]
pub fn descendants(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<(i32, u8)>> = HashMap::new();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(stat) = read_stat(pid) {
            children.entry(stat.parent).or_default().push((pid, stat.state));
        }
    }
    let mut found = Vec::new();
    let mut open = vec![root.as_raw()];
    while let Some(parent) = open.pop() {
        for (pid, state) in children.remove(&parent).unwrap_or_default() {
            open.push(pid);
            if state != b'Z' {
                found.push(Pid::from_raw(pid));
            }
        }
    }
    found
}

/// Sends a signal to all living descendants; how many there were.
pub fn signal_descendants(root: Pid, signal: Signal) -> usize {
    let found = descendants(root);
    for pid in &found {
        // One that ended meanwhile is what was wanted.
        let _ = kill(*pid, signal);
    }
    found.len()
}

/// Resident memory in bytes of a process and its descendants.
#[must_use]
pub fn resident_bytes(root: Pid) -> u64 {
    let page = 4096;
    let resident = |pid: Pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        text.split(' ').nth(1)?.parse::<u64>().ok()
    };
    descendants(root).into_iter().chain([root]).filter_map(resident).sum::<u64>() * page
}

/// A descriptor that becomes readable when the process ends.
///
/// # Errors
/// `ESRCH` when it has been reaped, `ENOSYS` where the kernel (or sandbox) has no such thing.
#[allow(unsafe_code, reason = "no safe wrapper exists")]
pub fn open_pidfd(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: a system call with two integers; no memory is passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let fd = i32::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel just made this descriptor for us (close-on-exec), and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes one child that has ended, of whatever kind: its number and how it ended. `None` when none has.
///
/// # Errors
/// `ECHILD` when there is no child at all. `waitpid` of the `nix` crate is not used: it knows no real-time signals.
#[allow(unsafe_code, reason = "no safe wrapper knows real-time signals")]
pub fn wait_any() -> nix::Result<Option<(Pid, End)>> {
    let mut status = 0;
    // SAFETY: the kernel writes one integer to a place that is ours.
    let pid = Errno::result(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) })?;
    let end = if libc::WIFSIGNALED(status) {
        End::Signal(libc::WTERMSIG(status))
    } else {
        End::Code(libc::WEXITSTATUS(status))
    };
    Ok((pid != 0).then_some((Pid::from_raw(pid), end)))
}

/// Sends a signal, real-time ones too, to a process group.
///
/// # Errors
/// Those of `kill(2)`.
#[allow(unsafe_code, reason = "no safe wrapper knows real-time signals")]
pub fn signal_group(group: Pid, number: i32) -> nix::Result<()> {
    // SAFETY: a system call with two integers.
    Errno::result(unsafe { libc::kill(-group.as_raw(), number) }).map(drop)
}

/// Sends a signal with a number attached, which the receiver reads from its `signalfd`.
///
/// # Errors
/// Those of `sigqueue(3)`.
#[allow(unsafe_code, reason = "no safe wrapper exists")]
pub fn queue_signal(pid: Pid, signal: Signal, value: i32) -> nix::Result<()> {
    let value = libc::sigval { sival_ptr: std::ptr::without_provenance_mut(value.unsigned_abs() as usize) };
    // SAFETY: the value is a number that is never used as a pointer.
    Errno::result(unsafe { libc::sigqueue(pid.as_raw(), signal as i32, value) }).map(drop)
}

/// Milliseconds since 1970, the machine's clock.
#[must_use]
pub fn unix_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds of the monotonic clock, which all processes of one machine share.
#[must_use]
pub fn monotonic_ms() -> u64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .map(|at| at.tv_sec().unsigned_abs() * 1000 + at.tv_nsec().unsigned_abs() / 1_000_000)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_apart_by_its_start_time() {
        let me = ProcessId::of(nix::unistd::getpid()).unwrap();
        assert!(me.is_alive());
        assert!(!ProcessId { start_time: me.start_time + 1, ..me }.is_alive());
    }

    #[test]
    fn children_are_descendants() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        assert!(descendants(nix::unistd::getpid()).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(nix::unistd::getpid()).contains(&pid));
    }
}

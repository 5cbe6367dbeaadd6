//! Which process is meant: an id alone may be given to another one later.

use std::fs;

use rustix::process::{Pid, Signal, WaitOptions};
use serde::{Deserialize, Serialize};

/// A process, told from a later one of the same id by its start time, which no `exec` changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pid: i32,
    start_time: String,
}

impl Identity {
    /// The process that has the id now; none when there is none, or it has ended and only waits to be reaped.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        reap(pid);
        Some(Self { pid, start_time: start_time(pid)? })
    }

    /// A process that has ended already: never alive.
    pub(crate) fn ended(pid: i32) -> Self {
        Self { pid, start_time: String::new() }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Signals the process if it is still the same.
    pub(crate) fn signal(&self, signal: Signal) {
        if let (true, Some(pid)) = (self.is_alive(), Pid::from_raw(self.pid)) {
            // It may end between the check and the call, which is as good as having been signalled.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Signals the process group that it leads, if it is still the same.
    pub(crate) fn signal_group(&self, signal: Signal) {
        if let (true, Some(pid)) = (self.is_alive(), Pid::from_raw(self.pid)) {
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }
}

/// Takes the exit status of a child of ours; of any other process there is none to take.
fn reap(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Field 22 of `/proc/PID/stat`, in clock ticks since boot. The command's name before it may hold spaces.
fn start_time(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut after_name = stat.rsplit_once(") ")?.1.split(' ');
    if matches!(after_name.next()?, "Z" | "X") {
        return None;
    }
    after_name.nth(18).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_child_is_not_alive_though_nobody_waited_for_it() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let identity = Identity::of(child.id().cast_signed()).unwrap();
        assert!(identity.is_alive());
        drop(child.stdin.take());
        while identity.is_alive() {
            std::thread::yield_now();
        }
        assert_eq!(Identity::of(identity.pid()), None);
        assert!(child.wait().is_err(), "it was reaped");
    }

    #[test]
    fn another_process_of_the_same_id_is_not_the_same() {
        let own = Identity::of(std::process::id().cast_signed()).unwrap();
        let other = Identity { start_time: "1".to_owned(), ..own.clone() };
        assert!(own.is_alive());
        assert!(!other.is_alive());
    }
}

//! How a run comes to its end: the outcome, given what happened (pure), and the ending of everything it started.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid};

use crate::process::{descendants, signal_descendants, wait_any};
use crate::runs::record::{End, Outcome};

/// How long killed processes may take to go (they may be stuck in the kernel).
pub const KILL_BOUND: Duration = Duration::from_secs(5);

/// Why a run is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its time is over.
    Timeout,
    /// It was asked for.
    Cancel,
    /// The container is near its memory limit, and this run is the largest.
    Memory,
}

/// The outcome. What ended the run counts, not how the main process took it: a process that answers TERM with `exit 0`
/// has timed out all the same. A kernel's kill for want of memory is told apart by the cgroup's counter having grown.
#[must_use]
pub fn decide(cause: Option<Cause>, end: Option<End>, timeout_ms: u64, oom_kills_grew: bool) -> Outcome {
    let killed = matches!(end, Some(End::Signal(9) | End::Code(137)));
    match (cause, end) {
        (Some(Cause::Timeout), end) => Outcome::TimedOut { timeout_ms, end },
        (Some(Cause::Cancel), end) => Outcome::Cancelled { end },
        (Some(Cause::Memory), _) => Outcome::OutOfMemory { killed_by_agent: true },
        (None, _) if killed && oom_kills_grew => Outcome::OutOfMemory { killed_by_agent: false },
        (None, Some(End::Code(code))) => Outcome::Exited { code },
        (None, Some(End::Signal(signal))) => Outcome::Signalled { signal },
        (None, None) => Outcome::Lost {
            reason: "RunnerGone".to_owned(),
            message: "the main process could not be waited for".to_owned(),
        },
    }
}

/// Reaps what has ended. Gives the main process's end if it was among them, and whether there is no child any more.
pub fn reap(main: Pid) -> (Option<End>, bool) {
    let mut main_end = None;
    loop {
        match wait_any() {
            Ok(Some((pid, end))) if pid == main => main_end = Some(end),
            Ok(Some(_)) | Err(Errno::EINTR) => {}
            Ok(None) => return (main_end, false),
            Err(_) => return (main_end, true),
        }
    }
}

/// Kills every descendant until none is left; how many are after [`KILL_BOUND`]. Orphans come to this process, which is
/// their subreaper, so nothing escapes by a new session or a double fork.
pub fn kill_descendants(main: Pid, main_end: &mut Option<End>) -> usize {
    let until = Instant::now() + KILL_BOUND;
    loop {
        let (end, none_left) = reap(main);
        *main_end = main_end.or(end);
        if none_left {
            return 0;
        }
        signal_descendants(getpid(), Signal::SIGKILL);
        if Instant::now() > until {
            return descendants(getpid()).len();
        }
        wait_for_child();
    }
}

/// Until a child ends, 20 ms at most.
fn wait_for_child() {
    // The signal is blocked and read here; one that came before is still pending, so nothing is missed.
    let fd = nix::sys::signalfd::SignalFd::with_flags(
        &[Signal::SIGCHLD].into_iter().collect(),
        nix::sys::signalfd::SfdFlags::SFD_CLOEXEC | nix::sys::signalfd::SfdFlags::SFD_NONBLOCK,
    );
    if let Ok(fd) = fd {
        let mut fds = [nix::poll::PollFd::new(std::os::fd::AsFd::as_fd(&fd), nix::poll::PollFlags::POLLIN)];
        let _ = nix::poll::poll(&mut fds, 20_u8);
        let _ = fd.read_signal();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b094_a_process_that_answers_term_with_success_has_timed_out() {
        let end = Some(End::Code(0));
        assert_eq!(decide(Some(Cause::Timeout), end, 5, false), Outcome::TimedOut { timeout_ms: 5, end });
    }

    #[test]
    fn a_kill_is_out_of_memory_only_when_the_counter_grew() {
        let killed = Some(End::Signal(9));
        assert_eq!(decide(None, killed, 0, true), Outcome::OutOfMemory { killed_by_agent: false });
        assert_eq!(decide(None, killed, 0, false), Outcome::Signalled { signal: 9 });
        assert_eq!(
            decide(None, Some(End::Code(137)), 0, true),
            Outcome::OutOfMemory { killed_by_agent: false }
        );
        assert_eq!(decide(None, Some(End::Code(1)), 0, true), Outcome::Exited { code: 1 });
        assert_eq!(decide(Some(Cause::Cancel), killed, 0, true), Outcome::Cancelled { end: killed });
    }
}

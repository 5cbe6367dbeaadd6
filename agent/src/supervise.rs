//! PID 1 of the tool container: starts `serve`, starts it again when it dies, reaps whatever comes to it, and when told by
//! TERM ends everything and itself. Nothing else: it must not be able to fail.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpid};

use crate::paths::{AgentDir, write_whole};
use crate::process::{signal_descendants, wait_any};
use crate::serve::BOOT_ID_ENV;

/// Before the next start of a `serve` that keeps dying: doubled each time, up to the second.
const RESTART: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// A `serve` that lived this long died by chance.
const STEADY: Duration = Duration::from_secs(10);
/// For the last processes after KILL.
const END_BOUND: Duration = Duration::from_secs(5);

/// Runs `serve` with these arguments until TERM, INT or HUP.
///
/// # Errors
/// What happens before there is a `serve`: the folder can't be written, for instance.
pub fn supervise(dir: &AgentDir, serve_args: &[std::ffi::OsString]) -> io::Result<ExitCode> {
    let watched = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    let watched: SigSet = watched.into_iter().collect();
    let mut before = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&watched), Some(&mut before))?;
    let signals = SignalFd::with_flags(&watched, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    nix::sys::prctl::set_child_subreaper(true)?;
    std::fs::create_dir_all(dir.path())?;
    let boot_id = new_boot_id()?;
    write_whole(&dir.boot_id(), boot_id.as_bytes())?;
    let pace = Pace { next: Instant::now(), pause: RESTART.0 };
    let mut supervisor = Supervisor { serve_args, boot_id, before, serve: None, pace, stopping: false };
    supervisor.start_serve();
    loop {
        supervisor.wait(&signals);
        while let Ok(Some(info)) = signals.read_signal() {
            if !matches!(Signal::try_from(info.ssi_signo.cast_signed()), Ok(Signal::SIGCHLD)) {
                supervisor.stop();
            }
        }
        supervisor.reap();
        if supervisor.stopping && supervisor.serve.is_none() {
            end_everything();
            return Ok(ExitCode::SUCCESS);
        }
        supervisor.start_serve();
    }
}

/// When the next `serve` may be started, and how long the one after it has to wait.
#[derive(Clone, Copy)]
struct Pace {
    next: Instant,
    pause: Duration,
}

impl Pace {
    fn after_death(self, lived: Duration, now: Instant) -> Self {
        if lived >= STEADY {
            return Self { next: now, pause: RESTART.0 };
        }
        Self { next: now + self.pause, pause: (self.pause * 2).min(RESTART.1) }
    }
}

struct Supervisor<'a> {
    serve_args: &'a [std::ffi::OsString],
    boot_id: String,
    before: SigSet,
    serve: Option<(Pid, Instant)>,
    pace: Pace,
    stopping: bool,
}

impl Supervisor<'_> {
    fn start_serve(&mut self) {
        if self.serve.is_some() || self.stopping || Instant::now() < self.pace.next {
            return;
        }
        match spawn_serve(self.serve_args, &self.boot_id, self.before) {
            Ok(pid) => self.serve = Some((pid, Instant::now())),
            Err(error) => {
                tracing::error!(%error, "cannot start serve");
                self.pace = self.pace.after_death(Duration::ZERO, Instant::now());
            }
        }
    }

    /// Until a signal; without a `serve` only until the next one may be started.
    fn wait(&self, signals: &SignalFd) {
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let timeout = match self.serve {
            Some(_) => PollTimeout::NONE,
            None => {
                let left =
                    self.pace.next.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            }
        };
        let _ = poll(&mut fds, timeout);
    }

    /// `serve` ends the runs, answers meanwhile, then goes.
    fn stop(&mut self) {
        self.stopping = true;
        if let Some((serve, _)) = self.serve {
            // Gone meanwhile is reaped next.
            let _ = kill(serve, Signal::SIGTERM);
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, end))) = wait_any() {
            let Some((_, started)) = self.serve.filter(|(serve, _)| *serve == pid) else {
                continue;
            };
            self.serve = None;
            self.pace = self.pace.after_death(started.elapsed(), Instant::now());
            if !self.stopping {
                tracing::warn!(?end, "serve ended: starting it again");
            }
        }
    }
}

fn spawn_serve(args: &[std::ffi::OsString], boot_id: &str, mask: SigSet) -> io::Result<Pid> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("drydock-agent").arg("serve").args(args).env(BOOT_ID_ENV, boot_id);
    let unblock = move || sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None).map_err(io::Error::from);
    // SAFETY: one system call between fork and exec, on a copied value.
    #[allow(unsafe_code, reason = "the signal mask is inherited otherwise")]
    unsafe {
        command.pre_exec(unblock)
    };
    let child = command.spawn()?;
    i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
}

/// Kills whatever is left below this process, bounded.
fn end_everything() {
    let until = Instant::now() + END_BOUND;
    while Instant::now() < until {
        signal_descendants(getpid(), Signal::SIGKILL);
        loop {
            match wait_any() {
                Err(Errno::ECHILD) => return,
                Ok(Some(_)) | Err(Errno::EINTR) => {}
                Ok(None) | Err(_) => break,
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// 128 random bits, as a UUID is written.
fn new_boot_id() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open(Path::new("/dev/urandom"))?.read_exact(&mut bytes)?;
    let hex = crate::shim::capture::to_hex(&bytes);
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serve_that_keeps_dying_is_started_ever_later() {
        let now = Instant::now();
        let mut pace = Pace { next: now, pause: RESTART.0 };
        let mut waits = Vec::new();
        for _ in 0..9 {
            pace = pace.after_death(Duration::ZERO, now);
            waits.push((pace.next - now).as_millis());
        }
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(pace.after_death(STEADY, now).next, now);
    }
}

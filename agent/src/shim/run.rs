//! The life of one run: spawn, drain, wait, end. One loop over descriptors; every wait in it has an end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use drydock_protocol::agent::Streams;
use drydock_protocol::limits;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpid};

use super::capture::Capture;
use super::ending::{Cause, KILL_BOUND, decide, kill_descendants, reap};
use super::job::Job;
use super::spawn::{ChildEnds, Plan, input_pipe, output_pipe};
use crate::memory::oom_kills;
use crate::paths::{RunDir, Stream, write_whole};
use crate::process::{ProcessId, monotonic_ms, signal_descendants, signal_group, unix_ms};
use crate::runs::journal::ShimProcesses;
use crate::runs::record::{End, Outcome, RunRecord, Stage, StreamRecord};

/// Bytes read at once.
const BUFFER: usize = 64 * 1024;
/// Bytes still taken from a pipe that others hold open after the end: no pipe holds more by default.
const LAST_DRAIN: usize = 1024 * 1024;

/// Pipes that background processes still write to.
pub struct Leftover(Vec<File>);

impl Leftover {
    /// Leaves a process behind that reads the pipes until their end, so that nobody who was meant to live on dies of a
    /// broken pipe. `lock` is given up in it: the run is over.
    #[allow(unsafe_code, reason = "fork")]
    pub fn drain_in_background(self, lock: OwnedFd) {
        if self.0.is_empty() {
            return;
        }
        // SAFETY: this process has one thread.
        if let Ok(nix::unistd::ForkResult::Child) = unsafe { nix::unistd::fork() } {
            drop(lock);
            let mut open = self.0;
            let mut buffer = vec![0; BUFFER];
            while !open.is_empty() {
                let mut fds: Vec<_> =
                    open.iter().map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN)).collect();
                let _ = poll(&mut fds, PollTimeout::NONE);
                open.retain_mut(|file| match file.read(&mut buffer) {
                    Ok(0) => false,
                    Ok(_) => true,
                    Err(error) => error.kind() == io::ErrorKind::WouldBlock,
                });
            }
            std::process::exit(0);
        }
    }
}

/// Runs a job to its end.
#[must_use]
pub fn run(job: &Job) -> (RunRecord, Leftover) {
    let tried_at = unix_ms();
    let not_run = |outcome| (RunRecord::without_output(outcome, tried_at, unix_ms()), Leftover(Vec::new()));
    if RunDir::new(&job.header.dir).cancel().exists() {
        return not_run(Outcome::Cancelled { end: None });
    }
    match Plan::make(job).and_then(|plan| Running::begin(job, plan).map_err(no_process)) {
        Ok(running) => running.finish(),
        Err(outcome) => not_run(outcome),
    }
}

fn no_process(error: io::Error) -> Outcome {
    let errno = error.raw_os_error().unwrap_or(0);
    Outcome::CannotExecute { stage: Stage::System, errno, message: format!("making the process: {error}") }
}

struct Running<'a> {
    job: &'a Job,
    dir: RunDir,
    plan: Plan,
    main: Pid,
    signals: SignalFd,
    exec_report: Option<File>,
    failure: Option<Outcome>,
    stdin: Option<(File, usize)>,
    streams: Vec<(Option<File>, Capture)>,
    started_at_ms: i64,
    started: Instant,
    oom_before: Option<u64>,
    main_end: Option<End>,
    main_ended: Option<Instant>,
    no_children: bool,
    cause: Option<Cause>,
    kill_at: Option<Instant>,
    killed_at: Option<Instant>,
}

impl<'a> Running<'a> {
    fn begin(job: &'a Job, plan: Plan) -> io::Result<Self> {
        let dir = RunDir::new(&job.header.dir);
        let signals =
            SignalFd::with_flags(&super::watched_signals(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let combined = job.request.streams() == Streams::Combined;
        let preview = if combined { limits::PREVIEW } else { limits::PREVIEW / 2 };
        let (stdin, child_stdin) = input_pipe(job.request.stdin.is_empty())?;
        let (stdout, child_stdout) = output_pipe()?;
        let capture = |stream| Capture::create(&dir, stream, job.header.kept, preview);
        let mut streams = vec![(Some(stdout), capture(Stream::Stdout))];
        let child_stderr = if combined {
            child_stdout.try_clone()?
        } else {
            let (stderr, child_stderr) = output_pipe()?;
            streams.push((Some(stderr), capture(Stream::Stderr)));
            child_stderr
        };
        let oom_before = oom_kills();
        let (started_at_ms, started) = (unix_ms(), Instant::now());
        let ends = ChildEnds { stdin: child_stdin, stdout: child_stdout, stderr: child_stderr };
        let (main, exec_report) = plan.spawn(ends)?;
        let running = Self {
            job,
            dir,
            plan,
            main,
            signals,
            exec_report: Some(exec_report),
            failure: None,
            stdin: stdin.map(|file| (file, 0)),
            streams,
            started_at_ms,
            started,
            oom_before,
            main_end: None,
            main_ended: None,
            no_children: false,
            cause: None,
            kill_at: None,
            killed_at: None,
        };
        running.write_processes();
        Ok(running)
    }

    /// Tells `serve` whom to signal. A cancel that came before is found by its file.
    fn write_processes(&self) {
        let of = |pid| ProcessId::of(pid).unwrap_or(ProcessId { pid: pid.as_raw(), start_time: 0 });
        let processes =
            ShimProcesses { shim: of(getpid()), main: of(self.main), started_at_ms: self.started_at_ms };
        if let Ok(json) = serde_json::to_vec(&processes) {
            // Without it the run goes on to its end by itself.
            let _ = write_whole(&self.dir.shim(), &json);
        }
    }

    fn finish(mut self) -> (RunRecord, Leftover) {
        if self.dir.cancel().exists() {
            self.begin_ending(Cause::Cancel);
        }
        let mut buffer = vec![0; BUFFER];
        while !self.is_over() {
            self.wait();
            self.take_signals();
            self.take_exec_report();
            self.feed_stdin();
            for (file, capture) in &mut self.streams {
                drain_once(file, capture, &mut buffer);
            }
            self.keep_deadlines();
        }
        self.stdin = None;
        let keep = self.job.request.keep_background && self.cause.is_none() && self.main_end.is_some();
        let survivors =
            if keep || self.no_children { 0 } else { kill_descendants(self.main, &mut self.main_end) };
        if let Some(mut report) = self.exec_report.take() {
            self.failure = self.plan.read_failure(&mut report);
        }
        for (file, capture) in &mut self.streams {
            drain_rest(file, capture, &mut buffer);
        }
        self.into_record(survivors, keep)
    }

    fn is_over(&self) -> bool {
        let ended =
            self.main_end.is_some() && (self.cause.is_none() || self.no_children || self.killed_at.is_some());
        ended || self.killed_at.is_some_and(|at| at.elapsed() > KILL_BOUND)
    }

    fn wait(&self) {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.exec_report.iter().map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN)));
        fds.extend(self.stdin.iter().map(|(file, _)| PollFd::new(file.as_fd(), PollFlags::POLLOUT)));
        let open = self.streams.iter().filter_map(|(file, _)| file.as_ref());
        fds.extend(open.map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN)));
        let deadline = [self.timeout_at(), self.kill_at, self.killed_at.map(|at| at + KILL_BOUND)];
        let timeout = deadline.into_iter().flatten().min().map_or(PollTimeout::NONE, |at| {
            // Rounded up, or the last millisecond would be spent spinning.
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        // EINTR or not: the loop looks at everything.
        let _ = poll(&mut fds, timeout);
    }

    fn take_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            match Signal::try_from(i32::try_from(info.ssi_signo).unwrap_or(0)) {
                Ok(Signal::SIGCHLD) => self.reap(),
                // Only with the file: a tool that signals everybody must not end runs by chance.
                Ok(Signal::SIGTERM) if self.dir.cancel().exists() => self.begin_ending(Cause::Cancel),
                Ok(Signal::SIGUSR1) => self.pass_on(info.ssi_int),
                Ok(Signal::SIGUSR2) => self.begin_ending(Cause::Memory),
                _ => {}
            }
        }
    }

    fn reap(&mut self) {
        let (end, none_left) = reap(self.main);
        self.no_children = none_left;
        if end.is_some() {
            self.main_end = end;
            self.main_ended = Some(Instant::now());
        }
    }

    fn pass_on(&self, number: i32) {
        if self.main_end.is_none() {
            // A group that has ended needs no signal.
            let _ = signal_group(self.main, number);
        }
    }

    fn take_exec_report(&mut self) {
        let Some(report) = &self.exec_report else { return };
        let mut fds = [PollFd::new(report.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
            && let Some(mut report) = self.exec_report.take()
        {
            self.failure = self.plan.read_failure(&mut report);
        }
    }

    fn feed_stdin(&mut self) {
        let Some((file, written)) = &mut self.stdin else {
            return;
        };
        let rest = &self.job.request.stdin[*written..];
        match file.write(rest) {
            Ok(count) if count < rest.len() => *written += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // All of it is in the pipe, or nobody reads it: end of file for the tool.
            _ => self.stdin = None,
        }
    }

    fn timeout_at(&self) -> Option<Instant> {
        let timeout = self.job.request.timeout_ms;
        (timeout > 0 && self.cause.is_none())
            .then(|| self.started.checked_add(Duration::from_millis(timeout)))
            .flatten()
    }

    fn keep_deadlines(&mut self) {
        let now = Instant::now();
        if self.main_end.is_none() && self.timeout_at().is_some_and(|at| now >= at) {
            self.begin_ending(Cause::Timeout);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_at = None;
            self.killed_at = Some(now);
            signal_descendants(getpid(), Signal::SIGKILL);
        }
    }

    fn begin_ending(&mut self, cause: Cause) {
        if self.cause.is_some() || self.main_end.is_some() {
            return;
        }
        self.cause = Some(cause);
        let grace = match (cause, self.job.request.grace_ms) {
            (Cause::Memory, _) => 0,
            (_, 0) => limits::GRACE_MS,
            (_, asked) => asked,
        };
        self.kill_at = Some(Instant::now() + Duration::from_millis(grace));
        if cause != Cause::Memory {
            // The group first, in one go; then who left it.
            let _ = killpg(self.main, Signal::SIGTERM);
            for pid in crate::process::descendants(getpid()) {
                if nix::unistd::getpgid(Some(pid)).is_ok_and(|group| group != self.main) {
                    let _ = kill(pid, Signal::SIGTERM);
                }
            }
        }
    }

    fn into_record(self, survivors: usize, keep: bool) -> (RunRecord, Leftover) {
        let oom_grew = matches!((self.oom_before, oom_kills()), (Some(before), Some(now)) if now > before);
        let decided = decide(self.cause, self.main_end, self.job.request.timeout_ms, oom_grew);
        let ended = self.main_ended.unwrap_or_else(Instant::now);
        let exec_time = ended.saturating_duration_since(self.started);
        let mut records = Vec::new();
        let mut open = Vec::new();
        for (file, capture) in self.streams {
            open.extend(file.filter(|_| keep));
            records.push(capture.finish());
        }
        let mut records = records.into_iter();
        let record = RunRecord {
            outcome: self.failure.unwrap_or(decided),
            started_at_ms: self.started_at_ms,
            finished_at_ms: unix_ms(),
            exec_time_ms: u64::try_from(exec_time.as_millis()).unwrap_or(u64::MAX),
            duration_ms: monotonic_ms().saturating_sub(self.job.header.accepted_ms),
            stdout: records.next().unwrap_or_else(StreamRecord::empty),
            stderr: records.next().unwrap_or_else(StreamRecord::empty),
            survivors: u32::try_from(survivors).unwrap_or(u32::MAX),
        };
        (record, Leftover(open))
    }
}

/// Reads once; at the end of the stream the file is closed. True when something was read.
fn drain_once(file: &mut Option<File>, capture: &mut Capture, buffer: &mut [u8]) -> bool {
    let Some(open) = file else { return false };
    match open.read(buffer) {
        Ok(0) => *file = None,
        Ok(count) => {
            capture.take(&buffer[..count]);
            return true;
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
        Err(_) => *file = None,
    }
    false
}

/// Takes what is in the pipe when everybody of this run has ended; a writer from outside doesn't hold it up.
fn drain_rest(file: &mut Option<File>, capture: &mut Capture, buffer: &mut [u8]) {
    let mut taken = 0;
    while taken < LAST_DRAIN && drain_once(file, capture, buffer) {
        taken += buffer.len();
    }
}

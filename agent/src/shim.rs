//! The parent of one run: own session, subreaper, owner of the pipes and of the record. It goes on when `serve` dies.
//!
//! Its job comes on descriptor 0 (a memory file: variables and standard input never touch a disk or an argument list),
//! the lock of the run's folder on descriptor 1; descriptor 2 is the pod's log. It writes `shim.json` after the fork and
//! `status.json` at the end. No runtime, no threads: it forks.

pub mod capture;
pub mod ending;
pub mod job;
pub mod run;
pub mod spawn;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};

use crate::paths::{RunDir, Stream, write_whole};
use crate::runs::record::RunRecord;

/// First argument that makes the binary a shim.
pub const SUBCOMMAND: &str = "shim";

/// Entry of the subcommand.
#[must_use]
pub fn main() -> ExitCode {
    match run_job() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{{\"level\":\"ERROR\",\"message\":\"shim: {error}\"}}");
            ExitCode::FAILURE
        }
    }
}

fn run_job() -> io::Result<()> {
    // First of all: from here on a request is kept until it is looked at.
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&watched_signals()), None)?;
    nix::unistd::setsid().ok();
    nix::sys::prctl::set_child_subreaper(true)?;
    let mut bytes = Vec::new();
    File::from(io::stdin().as_fd().try_clone_to_owned()?).read_to_end(&mut bytes)?;
    let lock = io::stdout().as_fd().try_clone_to_owned()?;
    let null: OwnedFd = File::options().read(true).write(true).open("/dev/null")?.into();
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    let job = job::Job::decode(&bytes)?;
    drop(bytes);
    let dir = RunDir::new(&job.header.dir);
    let (mut record, leftover) = run::run(&job);
    // Before the record: whoever sees the end of this process finds the pipes already in other hands.
    leftover.drain_in_background(lock);
    write_record(&dir, &record).or_else(|_| {
        // A full disk: the record is worth more than the output.
        for (stream, kept) in
            [(Stream::Stdout, &mut record.stdout.kept), (Stream::Stderr, &mut record.stderr.kept)]
        {
            kept.lost_from = Some(0);
            let _ = std::fs::remove_file(dir.stream(stream));
        }
        write_record(&dir, &record)
    })
}

fn write_record(dir: &RunDir, record: &RunRecord) -> io::Result<()> {
    write_whole(&dir.status(), &serde_json::to_vec(record)?)
}

/// What the shim reads from its `signalfd`.
fn watched_signals() -> SigSet {
    [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGINT, Signal::SIGHUP]
        .into_iter()
        .collect()
}

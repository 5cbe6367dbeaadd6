//! What can go wrong while a cluster is made, used or taken down.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The result of every operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a cluster failed. Each message names what to look at next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read, written, made or removed.
    #[error("cannot {action} {path}")]
    File {
        /// The verb: `read`, `write`, …
        action: &'static str,
        /// The path it was about.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A program could not be started at all.
    #[error("cannot run {program}")]
    Spawn {
        /// The program's name or path.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A program ran and failed.
    #[error("{command} failed ({status}): {output}")]
    Command {
        /// The command line.
        command: String,
        /// Exit status, or `timed out`.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// A component of the cluster ended although it should run.
    #[error("{component} ended; the last lines of {log}:\n{lines}")]
    Ended {
        /// The component's name.
        component: String,
        /// Its log file.
        log: PathBuf,
        /// The log's last lines.
        lines: String,
    },
    /// Something was not ready within its deadline.
    #[error("{what} was not ready after {seconds} s: {detail}", seconds = .after.as_secs())]
    Deadline {
        /// What was waited for.
        what: String,
        /// The deadline.
        after: Duration,
        /// The last answer, and a component's last log lines where one is concerned.
        detail: String,
    },
    /// The machine lacks something that this crate cannot add.
    #[error("{what}; {remedy}")]
    Machine {
        /// What is missing.
        what: String,
        /// How to add it.
        remedy: String,
    },
    /// There is no cluster of that name.
    #[error("no cluster {name} runs; start one with `drydock-cluster up --name {name}`")]
    NotRunning {
        /// The name asked for.
        name: String,
    },
    /// The request does not fit the cluster or is malformed.
    #[error("{reason}")]
    Invalid {
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A certificate could not be made.
    #[error("cannot make the certificate of {subject}")]
    Certificate {
        /// Whose certificate.
        subject: String,
        /// The library's answer.
        source: rcgen::Error,
    },
    /// The image registry refused or did not answer.
    #[error("registry {registry}: {reason}")]
    Registry {
        /// The registry's address.
        registry: String,
        /// Its answer.
        reason: String,
    },
}

impl Error {
    /// A failed file operation, ready for `map_err`.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// A request that cannot be served as it stands.
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }
}

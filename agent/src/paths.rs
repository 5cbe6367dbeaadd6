//! Where things lie in the agent's own folder. Decides names only; the folder is on an emptyDir and its own user's alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The agent's folder.
#[derive(Clone, Debug)]
pub struct AgentDir(PathBuf);

impl AgentDir {
    /// The folder at `path`; nothing is made.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The unix socket that `serve` listens on.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.0.join("agent.sock")
    }

    /// The boot id, written by `supervise`.
    #[must_use]
    pub fn boot_id(&self) -> PathBuf {
        self.0.join("boot-id")
    }

    /// The key and certificate of one boot: they outlive a restart of `serve`, so a client's pinned fingerprint stays right.
    #[must_use]
    pub fn tls(&self) -> PathBuf {
        self.0.join("tls.pem")
    }

    /// Epoch and seal.
    #[must_use]
    pub fn fence(&self) -> PathBuf {
        self.0.join("fence.json")
    }

    /// What `identity` prints, written when `serve` is ready.
    #[must_use]
    pub fn identity(&self) -> PathBuf {
        self.0.join("identity.json")
    }

    /// The folder of all runs.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    /// The folder of one attempt.
    #[must_use]
    pub fn run(&self, run_uid: &str, attempt: u32) -> RunDir {
        RunDir(self.runs().join(run_uid).join(attempt.to_string()))
    }
}

/// The folder of one attempt: the journal of what happened to it.
#[derive(Clone, Debug)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// The folder at `path`; nothing is made.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The journal, written before the fork.
    #[must_use]
    pub fn meta(&self) -> PathBuf {
        self.0.join("meta.json")
    }

    /// Locked as long as a `serve` that is about to start the shim, or the shim, lives.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Process ids, written by the shim after the fork.
    #[must_use]
    pub fn shim(&self) -> PathBuf {
        self.0.join("shim.json")
    }

    /// Present once a cancel was asked for.
    #[must_use]
    pub fn cancel(&self) -> PathBuf {
        self.0.join("cancel")
    }

    /// Present when this attempt was refused for good.
    #[must_use]
    pub fn refused(&self) -> PathBuf {
        self.0.join("refused.json")
    }

    /// The result, renamed into place by the shim.
    #[must_use]
    pub fn status(&self) -> PathBuf {
        self.0.join("status.json")
    }

    /// Counters of both streams.
    #[must_use]
    pub fn progress(&self) -> PathBuf {
        self.0.join("progress")
    }

    /// The kept bytes of a stream.
    #[must_use]
    pub fn stream(&self, stream: Stream) -> PathBuf {
        self.0.join(match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        })
    }
}

/// A stream of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output; of combined streams both.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Writes a file whole or not at all, readable by its owner alone. Not flushed to the disk: a machine that crashes starts
/// another boot, in which nothing of this one counts.
///
/// # Errors
/// Of the file system; the old content is still there then.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = create_private(&temporary)?;
    file.write_all(bytes)?;
    drop(file);
    fs::rename(&temporary, path)
}

/// Creates or empties a file that its owner alone may read.
///
/// # Errors
/// Of the file system.
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Reads a JSON file; `None` when it isn't there or isn't what was expected.
#[must_use]
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

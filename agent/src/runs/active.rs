//! A run that hasn't ended: its folder, and who waits for its end.

use std::sync::Arc;
use std::time::Duration;

use drydock_protocol::agent::Running;
use nix::unistd::Pid;
use tokio::sync::watch;

use super::journal::{Meta, ShimProcesses};
use super::output::Progress;
use super::record::RunRecord;
use crate::paths::{RunDir, Stream, read_json};

/// How long a shim may take from its start to `shim.json`.
pub(super) const SHIM_START: Duration = Duration::from_secs(5);

/// An unfinished run.
pub struct ActiveRun {
    pub(super) dir: RunDir,
    pub(super) meta: Meta,
    pub(super) done: watch::Sender<Option<Arc<RunRecord>>>,
}

impl ActiveRun {
    /// Changes once, from `None` to the record.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<RunRecord>>> {
        self.done.subscribe()
    }

    /// As the contract says it.
    #[must_use]
    pub fn to_wire(&self) -> Running {
        let committed = |stream| Progress::read(&self.dir.progress(), stream).committed;
        let processes: Option<ShimProcesses> = read_json(&self.dir.shim());
        Running {
            started_at_ms: processes.map_or(self.meta.accepted_at_ms, |found| found.started_at_ms),
            stdout_bytes: committed(Stream::Stdout),
            stderr_bytes: committed(Stream::Stderr),
        }
    }

    /// The shim's processes, once it has told.
    pub(super) async fn processes(&self) -> Option<ShimProcesses> {
        let until = tokio::time::Instant::now() + SHIM_START;
        loop {
            let found: Option<ShimProcesses> = read_json(&self.dir.shim());
            if found.is_some() || self.done.borrow().is_some() || tokio::time::Instant::now() > until {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The shim, if it is there and alive.
    #[must_use]
    pub fn shim(&self) -> Option<Pid> {
        let found: ShimProcesses = read_json(&self.dir.shim())?;
        found.shim.is_alive().then(|| Pid::from_raw(found.shim.pid))
    }
}

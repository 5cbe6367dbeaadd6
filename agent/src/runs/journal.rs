//! What is written about an attempt before and beside its run. No values of variables, no standard input, no script: what
//! may be secret never reaches the disk.

use drydock_protocol::agent as wire;
use serde::{Deserialize, Serialize};

use super::kept::Kept;
use crate::process::ProcessId;

/// `meta.json`, written before the fork: from then on this attempt counts as begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// Uid of the run.
    pub run_uid: String,
    /// Attempt, from 1.
    pub attempt: u32,
    /// The boot it belongs to.
    pub boot_id: String,
    /// Unix milliseconds.
    pub accepted_at_ms: i64,
    /// As asked for; empty: the default.
    pub user: String,
    /// As asked for; empty: the default.
    pub working_directory: String,
    /// 0: none.
    pub timeout_ms: u64,
    /// What is kept of each stream.
    pub kept: Kept,
    /// Both streams are one.
    pub combined: bool,
}

/// `shim.json`, written by the shim after the fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShimProcesses {
    /// The shim itself.
    pub shim: ProcessId,
    /// The main process of the run.
    pub main: ProcessId,
    /// Unix milliseconds.
    pub started_at_ms: i64,
}

/// `refused.json`: this attempt never runs here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refused {
    /// It came while the agent was sealed.
    Sealed,
    /// It was cancelled before it came.
    Cancelled,
}

impl Refused {
    /// As the contract says it.
    #[must_use]
    pub fn to_wire(self) -> wire::Refusal {
        match self {
            Self::Sealed => refusal(
                wire::refusal::Reason::Sealed,
                "the environment is being stopped: this attempt never runs here",
            ),
            Self::Cancelled => refusal(
                wire::refusal::Reason::CancelledBeforeStart,
                "cancelled before it was started: this attempt never runs here",
            ),
        }
    }
}

/// A refusal with its message.
#[must_use]
pub fn refusal(reason: wire::refusal::Reason, message: impl Into<String>) -> wire::Refusal {
    wire::Refusal { reason: reason.into(), message: message.into() }
}

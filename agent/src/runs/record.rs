//! The result of a run as it stands in `status.json`, and as the contract says it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use drydock_protocol::agent as wire;
use serde::{Deserialize, Serialize};

use super::kept::Kept;

/// `status.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// How it ended.
    pub outcome: Outcome,
    /// Unix milliseconds.
    pub started_at_ms: i64,
    /// Unix milliseconds.
    pub finished_at_ms: i64,
    /// From exec to the end of the main process.
    pub exec_time_ms: u64,
    /// From the acceptance to the end.
    pub duration_ms: u64,
    /// Standard output, or both.
    pub stdout: StreamRecord,
    /// Standard error.
    pub stderr: StreamRecord,
    /// Descendants that could not be ended.
    #[serde(default)]
    pub survivors: u32,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are those of the contract's messages, documented there")]
pub enum Outcome {
    Exited { code: i32 },
    Signalled { signal: i32 },
    TimedOut { timeout_ms: u64, end: Option<End> },
    Cancelled { end: Option<End> },
    CannotExecute { stage: Stage, errno: i32, message: String },
    OutOfMemory { killed_by_agent: bool },
    Lost { reason: String, message: String },
}

/// How the main process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// By `exit`.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// What couldn't be done on the way to `exec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the variants are those of the contract, documented there")]
pub enum Stage {
    Exec,
    Chdir,
    User,
    Shell,
    System,
}

/// A stream of a finished run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamRecord {
    /// Everything written.
    pub bytes: u64,
    /// Newlines, plus one for an unterminated last line.
    pub lines: u64,
    /// Lower-case hex.
    pub sha256: String,
    /// What of it is in the file.
    pub kept: Kept,
    /// First bytes, base64.
    #[serde(with = "as_base64", default)]
    pub head: Vec<u8>,
    /// Last bytes, base64.
    #[serde(with = "as_base64", default)]
    pub tail: Vec<u8>,
}

impl StreamRecord {
    /// Nothing was written.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            bytes: 0,
            lines: 0,
            sha256: super::super::shim::capture::EMPTY_SHA256.to_owned(),
            kept: Kept::with_limit(0),
            head: Vec::new(),
            tail: Vec::new(),
        }
    }

    fn to_wire(&self) -> wire::StreamSummary {
        wire::StreamSummary {
            bytes: self.bytes,
            lines: self.lines,
            sha256: self.sha256.clone(),
            truncated: self.kept.is_truncated(self.bytes),
            head: self.head.clone(),
            tail: self.tail.clone(),
        }
    }
}

impl RunRecord {
    /// A record without output.
    #[must_use]
    pub fn without_output(outcome: Outcome, started_at_ms: i64, finished_at_ms: i64) -> Self {
        Self {
            outcome,
            started_at_ms,
            finished_at_ms,
            exec_time_ms: 0,
            duration_ms: 0,
            stdout: StreamRecord::empty(),
            stderr: StreamRecord::empty(),
            survivors: 0,
        }
    }

    /// As the contract says it.
    #[must_use]
    pub fn to_wire(&self) -> wire::RunResult {
        wire::RunResult {
            outcome: Some(self.outcome.to_wire()),
            started_at_ms: self.started_at_ms,
            finished_at_ms: self.finished_at_ms,
            exec_time_ms: self.exec_time_ms,
            duration_ms: self.duration_ms,
            stdout: Some(self.stdout.to_wire()),
            stderr: Some(self.stderr.to_wire()),
            survivors: self.survivors,
        }
    }
}

impl Outcome {
    fn to_wire(&self) -> wire::run_result::Outcome {
        use wire::run_result::Outcome as Wire;
        match self {
            Self::Exited { code } => Wire::Exited(wire::Exited { code: *code }),
            Self::Signalled { signal } => Wire::Signalled(wire::Signalled { signal: *signal }),
            Self::TimedOut { timeout_ms, end } => Wire::TimedOut(wire::TimedOut {
                timeout_ms: *timeout_ms,
                end: end.map(|end| match end {
                    End::Code(code) => wire::timed_out::End::Code(code),
                    End::Signal(signal) => wire::timed_out::End::Signal(signal),
                }),
            }),
            Self::Cancelled { end } => Wire::Cancelled(wire::Cancelled {
                end: end.map(|end| match end {
                    End::Code(code) => wire::cancelled::End::Code(code),
                    End::Signal(signal) => wire::cancelled::End::Signal(signal),
                }),
            }),
            Self::CannotExecute { stage, errno, message } => Wire::CannotExecute(wire::CannotExecute {
                stage: stage.to_wire().into(),
                errno: *errno,
                message: message.clone(),
                conventional_code: stage.conventional_code(*errno),
            }),
            Self::OutOfMemory { killed_by_agent } => {
                Wire::OutOfMemory(wire::OutOfMemory { killed_by_agent: *killed_by_agent })
            }
            Self::Lost { reason, message } => {
                Wire::Lost(wire::Lost { reason: reason.clone(), message: message.clone() })
            }
        }
    }
}

impl Stage {
    fn to_wire(self) -> wire::cannot_execute::Stage {
        match self {
            Self::Exec => wire::cannot_execute::Stage::Exec,
            Self::Chdir => wire::cannot_execute::Stage::Chdir,
            Self::User => wire::cannot_execute::Stage::User,
            Self::Shell => wire::cannot_execute::Stage::Shell,
            Self::System => wire::cannot_execute::Stage::System,
        }
    }

    fn conventional_code(self, errno: i32) -> i32 {
        match self {
            Self::Exec if errno == nix::libc::ENOENT => 127,
            Self::Exec => 126,
            Self::Shell => 127,
            Self::Chdir | Self::User | Self::System => 125,
        }
    }
}

mod as_base64 {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Engine, STANDARD};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

//! The contract between controller, plugin and agent: the gRPC messages, the JSON documents that go through a pod's log,
//! the bounds both sides keep, and the syntax of git URLs and revisions that both sides accept.
//!
//! Messages alone by default; tonic's stubs by feature: `client` gives `agent::agent_client`, `server` gives
//! `agent::agent_server`. Nothing here does I/O but the feature `exec`: the channel to an agent through `pods/exec`.

pub mod checkout;
#[cfg(feature = "exec")]
pub mod exec;
pub mod git;
pub mod identity;
pub mod limits;

/// The messages of `proto/agent.proto`, and with a feature the stubs of its service.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::too_many_lines,
    clippy::semicolon_if_nothing_returned,
    clippy::uninlined_format_args,
    clippy::large_enum_variant,
    reason = "generated; the documentation is in the proto file"
)]
pub mod agent {
    include!(concat!(env!("OUT_DIR"), "/drydock.agent.v1.rs"));
}

/// Version of the contract, in `HelloResponse.protocol_version` and in the JSON documents. Rises with every addition that
/// the other side has to know of; meanings never change.
pub const PROTOCOL_VERSION: u32 = 1;

/// Names that stand in `HelloResponse.capabilities`: what an agent can do beyond answering UNIMPLEMENTED.
pub mod capability {
    /// `Start`, `Wait`, `Cancel`, `Signal`, `ReadOutput`, `Attach`.
    pub const RUNS: &str = "Runs";
    /// `Seal`, `Unseal`.
    pub const SEAL: &str = "Seal";
    /// Runs may be made under another user than the agent's (`setuid` is allowed here).
    pub const USER_SWITCH: &str = "UserSwitch";
    /// Sessions: `Input`, `Resize`.
    pub const SESSIONS: &str = "Sessions";
    /// `RunHooks`.
    pub const HOOKS: &str = "Hooks";
    /// `Save`, `Restore`.
    pub const STATE: &str = "State";
    /// `Files`.
    pub const FILES: &str = "Files";
}

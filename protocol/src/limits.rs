//! Bounds of the contract. A client that stays within them is never refused for a size; the agent enforces each.

/// Grace between TERM and KILL where `StartRequest.grace_ms` is 0, in milliseconds.
pub const GRACE_MS: u64 = 10_000;
/// Longest accepted grace, in milliseconds.
pub const GRACE_MAX_MS: u64 = 600_000;
/// Bytes kept per stream where `StartRequest.output_limit` is 0.
pub const OUTPUT_DEFAULT: u64 = 50 * 1024 * 1024;
/// Largest accepted `StartRequest.output_limit`, in bytes.
pub const OUTPUT_MAX: u64 = 1024 * 1024 * 1024;
/// Smallest amount kept per stream, in bytes: a lower limit is raised to it, so that previews are always whole.
pub const OUTPUT_MIN: u64 = 16 * 1024;
/// Standard input of a run, in bytes.
pub const STDIN: usize = 1024 * 1024;
/// Arguments, script and environment of a run together, in bytes.
pub const COMMAND: usize = 1024 * 1024;
/// Environment variables of a run.
pub const ENV_COUNT: usize = 1024;
/// Arguments of a run.
pub const ARG_COUNT: usize = 4096;
/// Longest wait of one `Wait`, in milliseconds.
pub const WAIT_MS: u64 = 60_000;
/// Longest `AttachRequest.wait_ms`.
pub const ATTACH_WAIT_MS: u64 = 600_000;
/// Bytes of one `Chunk`.
pub const CHUNK: usize = 64 * 1024;
/// Bytes of one `ReadOutputResponse.data`.
pub const READ: usize = 1024 * 1024;
/// `head` and `tail` of all streams of a run together, in bytes.
pub const PREVIEW: usize = 8 * 1024;
/// Finished and refused attempts in one `HelloResponse`.
pub const HELLO_ATTEMPTS: usize = 1000;
/// Size of any gRPC message, in bytes.
pub const MESSAGE: usize = 4 * 1024 * 1024;
/// The JSON document of a checkout pod, in bytes.
pub const CHECKOUT_REPORT: usize = 1024 * 1024;
/// A configuration that is larger is given by its digest, in bytes.
pub const CONFIG_INLINE: usize = 256 * 1024;
/// A configuration that is larger isn't read, in bytes.
pub const CONFIG_MAX: usize = 1024 * 1024;
/// Configurations of one workspace.
pub const CONFIGURATIONS: usize = 500;

//! The agent of an environment pod, as a library of its subcommands.
//!
//! - [`supervise`] is PID 1: it starts [`serve`], restarts it, reaps, and ends everything when told to.
//! - [`serve`] answers gRPC on a unix socket and on a TLS port, and keeps the [`runs`].
//! - [`shim`] is the parent of one run: it owns the pipes and the record, and outlives a crash of `serve`.
//! - [`session`], [`identity`] and [`install`] are the small ends that `pods/exec` and the init container call.
//! - [`checkout`] is the git side: it runs in a checkout pod, not beside tools.

pub mod checkout;
pub mod cli;
pub mod environment;
pub mod identity;
pub mod install;
pub mod memory;
pub mod paths;
pub mod process;
pub mod runs;
pub mod serve;
pub mod session;
pub mod shim;
pub mod supervise;
pub mod user;

//! The agent as real processes on this machine: the binary, its socket, real tools. Needs Linux and uid 0 (it switches
//! users), a shell and python3.

#![allow(clippy::unwrap_used, clippy::panic, clippy::too_many_lines, reason = "a test that fails says where")]

mod at_most_once;
mod ending;
mod harness;
mod output;
mod restart;
mod secrets;
mod transports;
mod what_runs;

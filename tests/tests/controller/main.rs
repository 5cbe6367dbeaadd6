//! The controller's machinery against a real API server: informers, the loop, the interpreter of effects, the election, the agents' hub.
//! The kinds here are made for it, so that each behaviour is seen by itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail them")]

mod agents;
mod chain;
mod harness;
mod informer;
mod kinds;
mod process;
mod reconcile;

//! Every decision of Drydock.
//!
//! A decision is a pure, total, synchronous function of what was observed: no I/O, no clock, no environment, no randomness (the
//! crate's `clippy.toml` and manifest hold it). Each kind has one file with an `Observed` value and `decide(&Observed) -> Decision`;
//! what several kinds share has a file of its own.
//!
//! - [`decision`]: what a decision is made of
//! - [`condition`], [`lifecycle`]: how conditions and the state of an instance may change
//! - [`agent`]: what is known of the agent in an environment
//! - [`settings`]: the operator's configuration
//! - [`routing`], [`path`], [`name`]: where a tool run executes, what its paths mean, what things are called
//! - [`blueprint`]: what an environment is made from
//! - [`pod`]: what a Pod says
//! - [`render`]: the children that Drydock makes

pub mod agent;
pub mod blueprint;
pub mod condition;
pub mod container_instance;
pub mod decision;
pub mod devcontainer_instance;
pub mod execution_environment;
pub mod instance;
pub mod lifecycle;
pub mod name;
pub mod path;
pub mod plan;
pub mod pod;
pub mod project;
pub mod reference;
pub mod render;
pub mod retained_claim;
pub mod routing;
pub mod settings;
pub mod snapshot;
pub mod tool;
pub mod tool_run;
pub mod workspace;

pub use decision::{Decision, Effect, Notice, Wake};

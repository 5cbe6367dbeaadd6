//! The Drydock controller: observe, decide, act.
//!
//! - [`store`] and its informers hear of the cluster; [`agent`] hears of the agents
//! - [`observe`] reads both for one kind, `drydock-domain` decides, [`act`] carries it out; [`reconcile`] is the loop around them
//! - [`run`] puts everything together and lets one of several controllers work ([`leader`])
//! - [`retention`], [`capabilities`] and [`configuration`] are the few things that belong to no object
//! - [`health`], [`metrics`], [`events`] and [`telemetry`] tell of it; [`release`] takes it away

pub mod act;
pub mod agent;
pub mod capabilities;
pub mod client;
pub mod configuration;
pub mod conflict;
pub mod context;
pub mod error;
pub mod events;
pub mod health;
pub mod leader;
pub mod metrics;
pub mod observe;
pub mod reconcile;
pub mod refusal;
pub mod release;
pub mod retention;
pub mod run;
pub mod store;
pub mod telemetry;

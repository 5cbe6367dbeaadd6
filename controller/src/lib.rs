//! The Drydock controller: observe, decide, act.
//!
//! - [`store`] and its informers hear of the cluster; [`agent`] hears of the agents
//! - [`observe`] reads both for one kind, `drydock-domain` decides, [`act`] carries it out; [`reconcile`] is the loop around them
//! - [`leader`] lets one of several controllers work; [`health`], [`metrics`], [`events`] and [`telemetry`] tell of it

pub mod act;
pub mod agent;
pub mod conflict;
pub mod context;
pub mod error;
pub mod events;
pub mod metrics;
pub mod observe;
pub mod reconcile;
pub mod store;

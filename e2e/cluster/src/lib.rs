//! A real Kubernetes cluster from pinned sources, for tests and demonstrations on a bare machine.
//!
//! [`Cluster::start`] brings one up: an API server alone ([`Profile::Api`]) or everything with one node or two
//! ([`Profile::Node`]). [`Cluster::from_environment`] gives the cluster that `DRYDOCK_CLUSTER` asks for, which may be a kind
//! cluster or any other. What a cluster is made of is built from source by [`tools`] and cached outside the work tree.
//!
//! The crate knows nothing of Drydock: no type and no image of it.

#![allow(dead_code, reason = "nodes come with the next step")]

mod cgroup;
mod cluster;
mod command;
mod control_plane;
mod error;
mod kubectl;
mod layout;
mod network;
mod node;
mod options;
mod pki;
mod process;
mod record;
mod teardown;
pub mod tools;
mod wait;

pub use cluster::{Cluster, down, names};
pub use error::{Error, Result};
pub use options::{Options, Profile};

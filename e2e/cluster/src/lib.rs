//! A real Kubernetes cluster from pinned sources, for tests and demonstrations on a bare machine.
//!
//! [`Cluster::start`] brings one up: an API server alone ([`Profile::Api`]) or everything with one node or two
//! ([`Profile::Node`]). [`Cluster::from_environment`] gives the cluster that `DRYDOCK_CLUSTER` asks for, which may be a kind
//! cluster or any other. What a cluster is made of is built from source by [`tools`] and cached outside the work tree.
//!
//! The crate knows nothing of Drydock: no type and no image of it.

mod addons;
mod cgroup;
mod cluster;
mod command;
mod component;
mod control_plane;
mod error;
mod git_server;
mod image;
mod kubectl;
mod layout;
mod network;
mod node;
mod options;
mod packages;
mod pki;
mod process;
mod record;
mod registry;
mod teardown;
pub mod tools;
mod wait;

pub use cluster::{Cluster, down, names, standard_images};
pub use component::Component;
pub use error::{Error, Result};
pub use git_server::GitServer;
pub use image::{ImageBuild, ImageFile};
pub use options::{Options, Profile};
pub use registry::{ImageReference, Registry};

//! What a cluster is asked to be.

use crate::{Error, Result};

/// How much of a cluster runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Profile {
    /// etcd and an API server on loopback: no nodes, no controllers, no root. As with envtest, a namespace that is
    /// deleted stays `Terminating`, owner references collect nothing, and the `ServiceAccount` admission is off.
    Api,
    /// Everything: control plane, one node or two, registry, DNS, storage. Needs root.
    Node,
}

/// What [`Cluster::start`](crate::Cluster::start) makes.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name, unique on the machine: 1 to 20 of a-z, 0-9 and `-`.
    pub name: String,
    /// How much runs.
    pub profile: Profile,
    /// One or two; the `Api` profile has none and ignores it.
    pub nodes: u8,
    /// Feature gates of every Kubernetes component, `Name=true`.
    pub feature_gates: Vec<String>,
    /// Further arguments of the API server, such as `--audit-log-path=…`.
    pub api_server_arguments: Vec<String>,
}

impl Options {
    /// An API server alone.
    pub fn api(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            profile: Profile::Api,
            nodes: 1,
            feature_gates: Vec::new(),
            api_server_arguments: Vec::new(),
        }
    }

    /// A whole cluster of one node.
    pub fn node(name: impl Into<String>) -> Self {
        Self { profile: Profile::Node, ..Self::api(name) }
    }

    /// The same with `nodes` nodes.
    #[must_use]
    pub fn with_nodes(mut self, nodes: u8) -> Self {
        self.nodes = nodes;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if (1..=2).contains(&self.nodes) {
            return Ok(());
        }
        Err(Error::invalid(format!("{} nodes: a cluster has one node or two", self.nodes)))
    }
}

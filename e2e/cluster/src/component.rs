//! The components of a cluster that a test may kill, pause and start again.

use std::fmt;

/// A component of a cluster of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Component {
    /// The database.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controller manager; `node` profile only, as are all that follow.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// The image registry.
    Registry,
    /// The container runtime of a node; its pods outlive it.
    Containerd(u8),
    /// The kubelet of a node.
    Kubelet(u8),
    /// The service proxy of a node.
    KubeProxy(u8),
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etcd => f.write_str("etcd"),
            Self::ApiServer => f.write_str("kube-apiserver"),
            Self::ControllerManager => f.write_str("kube-controller-manager"),
            Self::Scheduler => f.write_str("kube-scheduler"),
            Self::Registry => f.write_str("registry"),
            Self::Containerd(node) => write!(f, "containerd-{node}"),
            Self::Kubelet(node) => write!(f, "kubelet-{node}"),
            Self::KubeProxy(node) => write!(f, "kube-proxy-{node}"),
        }
    }
}

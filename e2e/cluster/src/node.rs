//! One node: its namespaces, container runtime, kubelet and service proxy.
//!
//! A node has a network and a mount namespace of its own, held by a process that sleeps. In the mount namespace it sees
//! folders of its own where Kubernetes programs keep their state, so two nodes, and the host, never meet; every mount
//! that is made there is gone with the last process of the node.

mod containerd;
mod kubelet;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::control_plane::wrap;
use crate::kubectl::Kubectl;
use crate::layout::Layout;
use crate::options::Options;
use crate::pki::Pki;
use crate::process::{Process, Start};
use crate::record::{Record, node_address};
use crate::{Error, Result, cgroup, network, wait};

/// The folders that a node has for itself: their name in the node's folder, and where the node sees them.
pub(crate) const MOUNTS: &[(&str, &str)] = &[
    ("kubelet", "/var/lib/kubelet"),
    ("containerd", "/var/lib/containerd"),
    ("containerd-run", "/run/containerd"),
    ("cni", "/var/lib/cni"),
    ("pod-logs", "/var/log/pods"),
    ("container-logs", "/var/log/containers"),
    ("../volumes", "/tmp/hostpath_pv"),
];
/// The port of the image registry, on node 1.
pub(crate) const REGISTRY_PORT: u16 = 5000;
const READY_DEADLINE: Duration = Duration::from_secs(90);

/// A node whose namespaces exist.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) number: u8,
    pub(crate) name: String,
    pub(crate) address: String,
    folder: PathBuf,
    cgroup: String,
    holder: i32,
    /// The command that runs another one in the node.
    pub(crate) inside: Vec<String>,
}

impl Node {
    /// Makes the namespaces and control groups of node 1 or 2; links come later.
    pub(crate) async fn create(layout: &Layout, record: &Record, number: u8) -> Result<Self> {
        cgroup::create(&layout.cgroup(number))?;
        let folder = layout.node(number);
        let ready = folder.join("ready");
        let mut script = "set -e\nmount --make-rshared /\nip link set lo up\n".to_owned();
        for (name, target) in MOUNTS {
            let source = folder.join(name);
            fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
            fs::create_dir_all(&source).map_err(Error::file("make", &source))?;
            fs::create_dir_all(target).map_err(Error::file("make", *target))?;
            script.push_str(&format!("mount --bind '{}' {target}\n", source.display()));
        }
        let tmp = folder.join("tmp");
        fs::create_dir_all(&tmp).map_err(Error::file("make", &tmp))?;
        script.push_str(&format!("touch '{}'\nexec sleep infinity\n", ready.display()));
        let argv = ["unshare", "--mount", "--net", "--propagation", "private", "--", "sh", "-c", &script];
        let argv = argv.map(str::to_owned).into();
        let holder = Start::new(&format!("namespaces-{number}"), argv).spawn(layout)?;
        wait::until("a node's namespaces", Duration::from_secs(10), Some(&holder), || async {
            if ready.exists() { Ok(()) } else { Err("its mounts are not made".to_owned()) }
        })
        .await?;
        Self::of(layout, record, number, &holder)
    }

    /// The node that another run created.
    pub(crate) fn load(layout: &Layout, record: &Record, number: u8) -> Result<Self> {
        if number == 0 || number > record.nodes {
            return Err(Error::invalid(format!(
                "there is no node {number}; the cluster has {}",
                record.nodes
            )));
        }
        Self::of(layout, record, number, &Process::load(layout, &format!("namespaces-{number}"))?)
    }

    fn of(layout: &Layout, record: &Record, number: u8, holder: &Process) -> Result<Self> {
        let pid = holder.pid();
        Ok(Self {
            number,
            name: layout.node_name(number),
            address: node_address(record.slot()?, number).to_string(),
            folder: layout.node(number),
            cgroup: layout.cgroup(number),
            holder: pid,
            inside: vec![
                "nsenter".to_owned(),
                format!("--mount=/proc/{pid}/ns/mnt"),
                format!("--net=/proc/{pid}/ns/net"),
                "--".to_owned(),
            ],
        })
    }

    /// Starts the container runtime and waits until it serves.
    pub(crate) async fn start_runtime(&self, layout: &Layout, registry: &str) -> Result<()> {
        let start = containerd::configure(self, registry).await?;
        let process = start.spawn(layout)?;
        let socket = self.folder.join("containerd-run/containerd.sock");
        wait::until("containerd", READY_DEADLINE, Some(&process), || async {
            let dial = tokio::net::UnixStream::connect(&socket).await;
            dial.map(drop).map_err(|error| error.to_string())
        })
        .await
    }

    /// Starts the kubelet and the service proxy. The runtime serves already: a kubelet gives up without it.
    pub(crate) fn start_agents(
        &self,
        layout: &Layout,
        record: &Record,
        options: &Options,
        pki: &Pki,
    ) -> Result<()> {
        kubelet::configure(self, &record.server, options, pki)?.spawn(layout)?;
        kubelet::configure_proxy(self, &record.server, options, pki)?.spawn(layout)?;
        Ok(())
    }

    /// Waits until the API server says that the node is ready.
    pub(crate) async fn wait_ready(&self, layout: &Layout, kubectl: &Kubectl) -> Result<()> {
        let process = Process::load(layout, &format!("kubelet-{}", self.number))?;
        let path = r#"jsonpath={.status.conditions[?(@.type=="Ready")]['status','message']}"#;
        wait::until(&format!("node {}", self.name), READY_DEADLINE, Some(&process), || async {
            let asked = kubectl.run(&["get", "node", &self.name, "-o", path], Duration::from_secs(10)).await;
            let answer = asked.map_err(|error| error.to_string())?;
            if answer.starts_with("True") { Ok(()) } else { Err(answer) }
        })
        .await
    }

    /// How a component of this node is started.
    fn component(&self, name: &str, argv: Vec<String>) -> Start {
        let mut start = Start::new(&format!("{name}-{}", self.number), wrap(&self.inside, argv));
        start.environment.insert("TMPDIR".to_owned(), self.folder.join("tmp").display().to_string());
        start
    }

    /// Links the node with what it is reached by: the host, or node 1.
    pub(crate) fn link(&self, slot: u8, first: &Node) -> Result<()> {
        if self.number == 1 {
            network::link_host(slot, self.holder, &self.inside)
        } else {
            network::link_nodes(slot, self.holder, &first.inside, &self.inside)
        }
    }
}

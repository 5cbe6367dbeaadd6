//! Breaking a cluster of this machine on purpose: components killed, paused and started again, a node cut off.

use rustix::process::Signal;

use crate::component::Component;
use crate::kubectl::Kubectl;
use crate::node::Node;
use crate::process::Process;
use crate::{Error, Result, control_plane, network};

use super::{Cluster, Local, blocking};

impl Cluster {
    /// Kills a component (SIGKILL) and returns when it is gone. Nothing starts it again but [`restart`](Self::restart).
    pub async fn kill(&self, component: Component) -> Result<()> {
        let process = self.process(component)?;
        blocking(move || process.kill()).await
    }

    /// Stops a component in its tracks (SIGSTOP): its connections stay and nobody answers.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.process(component)?.signal(Signal::STOP);
        Ok(())
    }

    /// Lets a paused component go on.
    pub fn resume(&self, component: Component) -> Result<()> {
        self.process(component)?.signal(Signal::CONT);
        Ok(())
    }

    /// Kills a component if it runs and starts it as it was. Returns when an API server is ready again; what else a
    /// component does after its start is for the caller to watch.
    pub async fn restart(&self, component: Component) -> Result<()> {
        let local = self.managed()?;
        self.kill(component).await?;
        let process = self.process(component)?.start().spawn(&local.layout)?;
        if component == Component::ApiServer {
            control_plane::wait_for_api(&local.record, &self.kubectl, &process).await?;
        }
        Ok(())
    }

    /// [`restart`](Self::restart) of the API server.
    pub async fn restart_apiserver(&self) -> Result<()> {
        self.restart(Component::ApiServer).await
    }

    /// [`restart`](Self::restart) of a node's kubelet; returns when the node is ready.
    pub async fn restart_kubelet(&self, node: u8) -> Result<()> {
        self.restart(Component::Kubelet(node)).await?;
        let local = self.managed()?;
        let kubectl = Kubectl::new(&self.kubeconfig, Some(local.layout.kubectl_cache()))?;
        Node::load(&local.layout, &local.record, node)?.wait_ready(&local.layout, &kubectl).await
    }

    /// Cuts node 2 off from everybody else. What runs on it goes on.
    pub async fn disconnect_node(&self) -> Result<()> {
        let (first, _) = self.link()?;
        blocking(move || network::disconnect_nodes(&first.inside)).await
    }

    /// Undoes [`disconnect_node`](Self::disconnect_node).
    pub async fn connect_node(&self) -> Result<()> {
        let (first, slot) = self.link()?;
        blocking(move || network::connect_nodes(slot, &first.inside)).await
    }

    /// The last lines that a component logged.
    pub fn log(&self, component: Component) -> Result<String> {
        Ok(self.process(component)?.last_lines())
    }

    fn link(&self) -> Result<(Node, u8)> {
        let local = self.managed()?;
        // Refuses a cluster of one node, which has nothing to cut.
        Node::load(&local.layout, &local.record, 2)?;
        Ok((Node::load(&local.layout, &local.record, 1)?, local.record.slot()?))
    }

    fn process(&self, component: Component) -> Result<Process> {
        let local = self.managed()?;
        Process::load(&local.layout, &component.to_string())
            .map_err(|_| Error::invalid(format!("the cluster {} has no {component}", self.name)))
    }

    fn managed(&self) -> Result<&Local> {
        self.local.as_ref().ok_or_else(|| {
            Error::invalid("only a cluster of this machine can be broken; run with DRYDOCK_CLUSTER=local")
        })
    }
}

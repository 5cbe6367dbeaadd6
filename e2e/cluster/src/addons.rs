//! What a cluster holds before its users come: storage, DNS, the default service account.

use std::time::Duration;

use crate::kubectl::Kubectl;
use crate::registry::ImageReference;
use crate::{Result, wait};

const STORAGE: &str = include_str!("../manifests/storage.yaml");
const DNS: &str = include_str!("../manifests/dns.yaml");
const DEADLINE: Duration = Duration::from_secs(60);

/// Applies the default storage class and the DNS, which runs on `node`.
pub(crate) async fn apply(kubectl: &Kubectl, dns: &ImageReference, node: &str) -> Result<()> {
    let dns = DNS.replace("IMAGE", &dns.node).replace("NODE", node);
    kubectl.apply(&format!("{STORAGE}---\n{dns}")).await
}

/// Waits until pods can be created and names are resolved.
pub(crate) async fn wait_ready(kubectl: &Kubectl) -> Result<()> {
    wait::until("the default service account", DEADLINE, None, || async {
        let asked = kubectl.run(&["get", "serviceaccount", "default", "-o", "name"], Duration::from_secs(10));
        asked.await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    let rollout = ["rollout", "status", "deployment/coredns", "-n", "kube-system", "--timeout=60s"];
    kubectl.run(&rollout, Duration::from_secs(70)).await.map(drop)
}

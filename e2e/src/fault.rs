//! Breaking an installation on purpose, and looking at who works: processes killed and stopped, the holder of the lease.
//!
//! Processes are found on the machine that the cluster runs on, by the pod they belong to.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use kube::runtime::wait::await_condition;
use tokio::process::Command;

use crate::Scene;
use crate::drydock::NAMESPACE;

/// Name of the lease that the working controller holds.
const LEASE: &str = "drydock-controller";

impl Scene {
    /// The pods of the controller that aren't being deleted, sorted by name.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn controllers(&self) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let selected = ListParams::default().labels("app.kubernetes.io/component=controller");
        let mut pods = api.list(&selected).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(ResourceExt::name_any);
        Ok(pods)
    }

    /// Waits until a controller holds the lease whose identity isn't `former`, and answers its identity: the pod's name, `_`, and a
    /// number that no other process of the pod has.
    ///
    /// # Errors
    /// When none does within `seconds`.
    pub async fn leader_after(&self, former: Option<&str>, seconds: u64) -> Result<String> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let other =
            |lease: Option<&Lease>| holder(lease).is_some_and(|holder| Some(holder.as_str()) != former);
        let met = await_condition(api, LEASE, other);
        let lease = tokio::time::timeout(Duration::from_secs(seconds), met).await;
        let lease = lease.map_err(|_| anyhow!("no other controller leads after {seconds} s"))??;
        holder(lease.as_ref()).context("the lease is gone")
    }

    /// Sends a signal (`KILL`, `STOP`, `CONT`) to the processes of a pod whose first arguments are `command`.
    ///
    /// # Errors
    /// When there is none on this machine.
    pub async fn signal(&self, pod: &Pod, command: &[&str], signal: &str) -> Result<()> {
        let uid = pod.uid().context("a pod has a uid")?;
        let found = processes(&uid, command)?;
        ensure!(
            !found.is_empty(),
            "no process {} of pod {} on this machine",
            command.join(" "),
            pod.name_any()
        );
        let mut kill = Command::new("kill");
        kill.arg("-s").arg(signal).args(&found).stdin(Stdio::null());
        ensure!(kill.status().await?.success(), "kill -s {signal} {} failed", found.join(" "));
        Ok(())
    }

    /// Runs a shell script in a pod as its agent's user, past Drydock, and answers its stdout.
    ///
    /// # Errors
    /// When it fails, with its stderr.
    pub async fn inside(&self, pod: &str, script: &str) -> Result<String> {
        self.drydock.kubectl(&["exec", "-n", &self.namespace, pod, "--", "sh", "-c", script]).await
    }

    /// Runs a script in a pod until it succeeds.
    ///
    /// # Errors
    /// When it doesn't within `seconds`.
    pub async fn until(&self, pod: &str, seconds: u64, condition: &str) -> Result<()> {
        let tries = seconds * 10;
        let script =
            format!("n=0; until {condition}; do n=$((n+1)); [ $n -lt {tries} ] || exit 1; sleep 0.1; done");
        let met = self.inside(pod, &script).await;
        met.map(drop).with_context(|| format!("not met within {seconds} s: {condition}"))
    }
}

fn holder(lease: Option<&Lease>) -> Option<String> {
    lease?.spec.as_ref()?.holder_identity.clone().filter(|holder| !holder.is_empty())
}

/// Ids of the processes in a pod's control group whose arguments begin with `command`.
fn processes(pod_uid: &str, command: &[&str]) -> Result<Vec<String>> {
    let written = [pod_uid.to_owned(), pod_uid.replace('-', "_")];
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let id = entry.file_name().to_string_lossy().into_owned();
        // A process may end while it is looked at.
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        if !id.bytes().all(|b| b.is_ascii_digit())
            || !written.iter().any(|uid| read("cgroup").contains(uid.as_str()))
        {
            continue;
        }
        let arguments = read("cmdline");
        let arguments: Vec<&str> = arguments.split('\0').collect();
        if arguments.starts_with(command) {
            found.push(id);
        }
    }
    Ok(found)
}

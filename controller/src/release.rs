//! Takes Drydock's finalizers off before it is uninstalled, so that no later delete hangs. Objects, claims and definitions stay.

use std::time::Duration;

use anyhow::{Context as _, bail};
use drydock_crds::label::{SNAPSHOT_FINALIZER, WORKSPACE_FINALIZER};
use drydock_crds::{Snapshot, Workspace};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::act::DEADLINE;

/// How long the controller may take to end.
const STOP: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(500);
const PAGE: u32 = 500;
/// How often an object that changes meanwhile is tried.
const TRIES: usize = 10;

/// What is taken off, and of whom.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The controller's Deployment: scaled to zero first, so that nobody puts a finalizer back
    #[arg(long, value_name = "NAME")]
    pub deployment: Option<String>,
    /// Label selector of the controller's pods
    #[arg(long, value_name = "SELECTOR", requires = "deployment")]
    pub selector: Option<String>,
    /// Only in this namespace; can be repeated. Default: in all
    #[arg(long = "watch-namespace", value_name = "NAME")]
    pub watch_namespaces: Vec<String>,
    /// The operator's own namespace
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME", default_value = "drydock-system")]
    pub namespace: String,
}

/// Takes the finalizers off.
///
/// # Errors
/// When the controller doesn't end, or the API server refuses.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let client = crate::client::infer().await?;
    if let Some(deployment) = &options.deployment {
        scale_down(&client, &options.namespace, deployment, options.selector.as_deref()).await?;
    }
    let namespaces: Vec<Option<&str>> = match options.watch_namespaces.as_slice() {
        [] => vec![None],
        names => names.iter().map(|n| Some(n.as_str())).collect(),
    };
    for namespace in namespaces {
        release::<Workspace>(&client, namespace, WORKSPACE_FINALIZER).await?;
        release::<Snapshot>(&client, namespace, SNAPSHOT_FINALIZER).await?;
    }
    Ok(())
}

async fn scale_down(
    client: &Client,
    namespace: &str,
    name: &str,
    selector: Option<&str>,
) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    match timeout(DEADLINE, deployments.patch_scale(name, &PatchParams::default(), &patch)).await? {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        Err(error) => return Err(error).context("the controller can't be scaled to zero"),
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = ListParams { label_selector: selector.map(str::to_owned), ..ListParams::default() };
    let end = Instant::now() + STOP;
    while selector.is_some() {
        let there = timeout(DEADLINE, pods.list_metadata(&params)).await??;
        if there.items.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            bail!("the controller's pods didn't end in {STOP:?}");
        }
        sleep(LOOK).await;
    }
    Ok(())
}

async fn release<K>(client: &Client, namespace: Option<&str>, finalizer: &str) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match timeout(DEADLINE, api.list_metadata(&params)).await? {
            Ok(page) => page,
            // Without the definition there is nothing to release.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for object in page.items.iter().filter(|o| o.finalizers().iter().any(|f| f == finalizer)) {
            let namespace = object.namespace().unwrap_or_default();
            release_one::<K>(client, &namespace, &object.name_any(), finalizer).await?;
        }
        match page.metadata.continue_.filter(|c| !c.is_empty()) {
            Some(next) => params.continue_token = Some(next),
            None => return Ok(()),
        }
    }
}

async fn release_one<K>(client: &Client, namespace: &str, name: &str, finalizer: &str) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    // Read through the list, because that is all that the job may do.
    let only = ListParams::default().fields(&format!("metadata.name={name}"));
    for _ in 0..TRIES {
        let list = timeout(DEADLINE, api.list_metadata(&only)).await??;
        let Some(object) = list.items.first() else {
            return Ok(());
        };
        let mut finalizers = object.finalizers().to_vec();
        finalizers.retain(|f| f != finalizer);
        if finalizers.len() == object.finalizers().len() {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"metadata": {
            "resourceVersion": object.resource_version(),
            "finalizers": finalizers,
        }}));
        match timeout(DEADLINE, api.patch_metadata(name, &PatchParams::default(), &patch)).await? {
            Ok(_) => {
                tracing::info!(kind = %K::kind(&()), namespace, name, "the finalizer is taken off");
                return Ok(());
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("{} {namespace}/{name} keeps changing: its finalizer {finalizer} is still there", K::kind(&()))
}

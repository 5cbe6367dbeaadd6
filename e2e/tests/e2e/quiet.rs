//! A cluster in which nothing happens sees no write but the lease's.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use drydock_crds::{DevcontainerInstance, ToolRun};
use drydock_e2e::Scene;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::GroupVersionKind;
use serde_json::json;

/// How long nothing may be written.
const QUIET: Duration = Duration::from_secs(60);

/// What is watched: every kind of ours and everything that Drydock makes.
const WATCHED: [(&str, &str, &str); 16] = [
    ("drydock.dev", "v1alpha1", "Workspace"),
    ("drydock.dev", "v1alpha1", "DevcontainerInstance"),
    ("drydock.dev", "v1alpha1", "ContainerInstance"),
    ("drydock.dev", "v1alpha1", "ExecutionEnvironment"),
    ("drydock.dev", "v1alpha1", "Project"),
    ("drydock.dev", "v1alpha1", "Plan"),
    ("drydock.dev", "v1alpha1", "Tool"),
    ("drydock.dev", "v1alpha1", "ToolRun"),
    ("drydock.dev", "v1alpha1", "Snapshot"),
    ("", "v1", "Pod"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Secret"),
    ("", "v1", "Service"),
    ("events.k8s.io", "v1", "Event"),
    ("apps", "v1", "Deployment"),
];

/// 200 objects: 160 finished runs, an active environment and a stopped one, and some of everything else, good and bad.
async fn populate(scene: &Scene) -> Result<()> {
    scene.devcontainer("tree").await?;
    scene.devcontainer("other").await?;
    let idle = json!({"idleTimeout": "1s"});
    scene.apply(json!({"kind": "DevcontainerInstance", "metadata": {"name": "other"}, "spec": idle})).await?;
    scene.run("to-be-stopped", json!({"workspaceRef": {"name": "other"}, "command": ["true"]})).await?;
    for number in 0..9 {
        let tool = json!({"command": ["true"]});
        let snapshot = json!({"instanceRef": {"kind": "DevcontainerInstance", "name": "tree"}});
        let project = json!({"resources": [{"kind": "Workspace", "name": "tree"}]});
        let workspace = if number < 5 { "tree" } else { "nowhere" };
        let plan = json!({"workspaceRef": {"name": workspace}});
        for (kind, spec) in [("Tool", tool), ("Snapshot", snapshot), ("Project", project), ("Plan", plan)] {
            let name = format!("{}-{number}", kind.to_lowercase());
            scene.apply(json!({"kind": kind, "metadata": {"name": name}, "spec": spec})).await?;
        }
    }
    let run = |number: usize| {
        let command = if number.is_multiple_of(2) { "true" } else { "false" };
        scene.run_owned(
            format!("run-{number}"),
            json!({"workspaceRef": {"name": "tree"}, "command": [command]}),
        )
    };
    let runs: Vec<ToolRun> =
        futures::stream::iter((0..159).map(run)).buffer_unordered(16).try_collect().await?;
    ensure!(runs.len() == 159);
    let stopped = |dc: &DevcontainerInstance| {
        let state = dc.status.as_ref().and_then(|s| s.provisioning_state);
        state == Some(drydock_crds::instance::ProvisioningState::Stopped)
    };
    scene.wait("other", 60, stopped).await?;
    // The last of it: plans of a Workspace that isn't there need a person after half a minute.
    for number in 5..9 {
        let stalled = |p: &drydock_crds::Plan| {
            drydock_e2e::scene::condition(p.status.as_ref().map(|s| &s.conditions[..]), "Stalled")
        };
        scene.wait(&format!("plan-{number}"), 60, stalled).await?;
    }
    Ok(())
}

/// How many objects of ours there are in the scene.
async fn count(scene: &Scene) -> Result<usize> {
    let mut count = 0;
    for (group, version, kind) in WATCHED.iter().filter(|(group, ..)| *group == "drydock.dev") {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(scene.client.clone(), &scene.namespace, &resource);
        count += api.list(&ListParams::default()).await?.items.len();
    }
    Ok(count)
}

/// Waits until nothing of earlier tests is being deleted any more.
async fn others_are_gone(scene: &Scene) -> Result<()> {
    let api: Api<Namespace> = Api::all(scene.client.clone());
    for namespace in api.list(&ListParams::default()).await?.items {
        if namespace.metadata.deletion_timestamp.is_some() {
            let name = namespace.metadata.name.unwrap_or_default();
            let gone =
                kube::runtime::wait::await_condition(api.clone(), &name, |n: Option<&Namespace>| n.is_none());
            tokio::time::timeout(Duration::from_secs(120), gone)
                .await
                .with_context(|| format!("{name} stays"))??;
        }
    }
    Ok(())
}

/// The writes to a kind in all namespaces within [`QUIET`].
async fn writes(client: kube::Client, (group, version, kind): (&str, &str, &str)) -> Result<Vec<String>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let since =
        api.list(&ListParams::default().limit(1)).await?.metadata.resource_version.unwrap_or_default();
    let mut changes = api.watch(&WatchParams::default().timeout(290), &since).await?.boxed();
    let mut written = Vec::new();
    let until = tokio::time::Instant::now() + QUIET;
    while let Ok(change) = tokio::time::timeout_at(until, changes.try_next()).await {
        match change?.context("the watch ended")? {
            WatchEvent::Added(o) | WatchEvent::Modified(o) | WatchEvent::Deleted(o) => {
                // The kubelet reports of a pod when it likes, also a minute after its start.
                if writer(&o) != "kubelet" {
                    written.push(format!("{kind} {} by {}", o.name_any(), writer(&o)));
                }
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(error) => anyhow::bail!("{kind}: {error:?}"),
        }
    }
    Ok(written)
}

/// The manager whose entry is the newest.
fn writer(object: &DynamicObject) -> &str {
    let entries = object.metadata.managed_fields.iter().flatten();
    let newest = entries.max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    newest.and_then(|entry| entry.manager.as_deref()).unwrap_or("nobody")
}

/// Requests that the API server has taken so far which could write objects of the watched kinds, also those that changed nothing.
async fn requests(scene: &Scene) -> Result<BTreeMap<String, u64>> {
    let metrics = scene.drydock.kubectl(&["get", "--raw", "/metrics"]).await?;
    let mut counts = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let label = |name: &str| {
            let from = line.find(&format!("{name}=\""))? + name.len() + 2;
            line[from..].split('"').next()
        };
        let (group, resource, verb) = (label("group"), label("resource"), label("verb"));
        let resource = resource.unwrap_or_default();
        let writes = !matches!(verb, Some("GET" | "LIST" | "WATCH" | "WATCHLIST" | "CONNECT") | None);
        let ours = group == Some("drydock.dev")
            || ["pods", "persistentvolumeclaims", "configmaps", "secrets", "services", "events"]
                .contains(&resource);
        let kubelets = resource == "pods" && label("subresource") == Some("status");
        if writes && ours && !kubelets {
            let number: f64 = line.rsplit(' ').next().unwrap_or_default().parse()?;
            let key = format!(
                "{} {resource}/{}",
                verb.unwrap_or_default(),
                label("subresource").unwrap_or_default()
            );
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter")]
            let number = number as u64;
            *counts.entry(key).or_default() += number;
        }
    }
    ensure!(!counts.is_empty(), "the API server counts no writes");
    Ok(counts)
}

#[tokio::test]
async fn a_quiet_cluster_with_two_hundred_objects_sees_no_write_but_the_lease_s() -> Result<()> {
    let scene = Scene::alone("quiet", |_| Vec::new()).await?;
    populate(&scene).await?;
    let objects = count(&scene).await?;
    ensure!(objects >= 200, "{objects} objects");
    others_are_gone(&scene).await?;
    let leader = scene.leader_after(None, 20).await?;
    let before = requests(&scene).await?;
    let watches = WATCHED.map(|kind| writes(scene.client.clone(), kind));
    let written: Vec<String> = futures::future::try_join_all(watches).await?.concat();
    ensure!(written.is_empty(), "{} writes: {written:#?}", written.len());
    let after = requests(&scene).await?;
    ensure!(before == after, "requests to write: before {before:?}, after {after:?}");
    ensure!(scene.leader_after(None, 1).await? == leader, "another controller leads");
    scene.end().await
}

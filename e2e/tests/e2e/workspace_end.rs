//! The end of a Workspace: its runs are cancelled, nothing of it stays but what `reclaim` keeps, and there is a way back.

use anyhow::{Context, Result, ensure};
use drydock_crds::condition::ConditionType;
use drydock_crds::tool_run::Outcome;
use drydock_crds::{ContainerInstance, DevcontainerInstance, Workspace, label};
use drydock_e2e::Scene;
use drydock_e2e::scene::condition;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

/// A Workspace, its claim, and a tool that runs in it and would run for ever.
async fn under_a_tool(scene: &Scene, reclaim: &str) -> Result<(String, String)> {
    let definition = json!({"image": scene.image, "remoteUser": "dev"}).to_string();
    let url = scene.repository("tree", &[(".devcontainer.json", &definition)]).await?;
    let storage = json!({"size": "100Mi", "reclaim": {"policy": reclaim}});
    let spec = json!({"source": {"git": {"url": url}}, "storage": storage});
    scene.apply(json!({"kind": "Workspace", "metadata": {"name": "tree"}, "spec": spec})).await?;
    let ready = |w: &Workspace| condition(w.status.as_ref().map(|s| &s.conditions[..]), "Ready");
    let workspace = scene.wait("tree", 120, ready).await?;
    let claim = workspace.status.and_then(|s| s.claim_name).context("a Workspace names its claim")?;
    let tool = "echo unsaved > note; touch runs; sleep 100000";
    let spec =
        json!({"workspaceRef": {"name": "tree"}, "command": ["sh", "-c", tool], "timeoutSeconds": 3600});
    scene.create_run("endless", spec).await?;
    let active = |dc: &DevcontainerInstance| dc.status.as_ref().is_some_and(|s| s.pod_name.is_some());
    let pod = scene.wait("tree", 120, active).await?.status.and_then(|s| s.pod_name);
    scene
        .until(&pod.context("an active instance names its pod")?, 30, "[ -e /workspaces/tree/runs ]")
        .await?;
    Ok((url, claim))
}

/// Deletes the Workspace and sees the end of everything that belongs to it.
async fn delete(scene: &Scene) -> Result<()> {
    scene.api::<Workspace>().delete("tree", &DeleteParams::default()).await?;
    scene.gone::<Workspace>("tree", 60).await?;
    let run = scene.finished("endless").await?;
    ensure!(run.status.as_ref().and_then(|s| s.outcome) == Some(Outcome::Cancelled), "{run:?}");
    scene.gone::<DevcontainerInstance>("tree", 30).await?;
    for pod in scene.api::<Pod>().list(&ListParams::default()).await?.items {
        scene.gone::<Pod>(&pod.metadata.name.unwrap_or_default(), 30).await?;
    }
    let hosts = scene.api::<ContainerInstance>().list(&ListParams::default()).await?.items;
    ensure!(hosts.is_empty(), "left: {hosts:?}");
    let secrets = scene.api::<Secret>().list(&ListParams::default()).await?.items;
    ensure!(secrets.is_empty(), "left: {secrets:?}");
    let maps = scene.api::<ConfigMap>().list(&ListParams::default()).await?.items;
    let ours: Vec<_> =
        maps.iter().filter(|m| m.metadata.name.as_deref() != Some("kube-root-ca.crt")).collect();
    ensure!(ours.is_empty(), "left: {ours:?}");
    Ok(())
}

#[tokio::test]
async fn a_deleted_workspace_leaves_its_claim_and_a_new_one_finds_it_again() -> Result<()> {
    let scene = Scene::new("retained").await?;
    let (url, claim) = under_a_tool(&scene, "Retain").await?;
    delete(&scene).await?;
    let kept = scene.api::<PersistentVolumeClaim>().get(&claim).await?;
    let annotations = kept.metadata.annotations.unwrap_or_default();
    let expiry: jiff::Timestamp =
        annotations.get(label::EXPIRES_AT).context("it says when it expires")?.parse()?;
    let hours = expiry.duration_since(jiff::Timestamp::now()).as_hours();
    ensure!((166..=168).contains(&hours), "it expires in {hours} hours");

    let other = scene.repository("other", &[("README.md", "Another tree.\n")]).await?;
    for (name, url) in [("stranger", &other), ("again", &url)] {
        let spec = json!({"source": {"git": {"url": url}}, "storage": {"claimName": claim}});
        scene.apply(json!({"kind": "Workspace", "metadata": {"name": name}, "spec": spec})).await?;
        let settled = |w: &Workspace| {
            let conditions = w.status.as_ref().map(|s| &s.conditions[..]);
            condition(conditions, "Ready") || condition(conditions, "Stalled")
        };
        let conditions = scene.wait(name, 60, settled).await?.status.unwrap_or_default().conditions;
        let stalled = ConditionType::Stalled.find(&conditions).map(|c| c.reason.as_str());
        ensure!(stalled == (name == "stranger").then_some("ClaimRefused"), "{name}: {conditions:?}");
    }
    let read = json!({"workspaceRef": {"name": "again"}, "command": ["cat", "note"]});
    let run = scene.run("read", read).await?;
    let head = run.status.as_ref().and_then(|s| s.stdout.as_ref()).and_then(|s| s.head.as_deref());
    ensure!(head == Some("unsaved\n"), "the uncommitted file is lost: {run:?}");
    let annotations =
        scene.api::<PersistentVolumeClaim>().get(&claim).await?.metadata.annotations.unwrap_or_default();
    ensure!(!annotations.contains_key(label::EXPIRES_AT), "it still expires");
    let workspace = scene.api::<Workspace>().get("again").await?;
    ensure!(annotations.get(label::WORKSPACE_UID) == workspace.metadata.uid.as_ref(), "it is another's");
    scene.end().await
}

#[tokio::test]
async fn a_workspace_deleted_with_its_claim_leaves_nothing() -> Result<()> {
    let scene = Scene::new("reclaimed").await?;
    let (_, claim) = under_a_tool(&scene, "Delete").await?;
    delete(&scene).await?;
    scene.gone::<PersistentVolumeClaim>(&claim, 30).await?;
    let claims = scene.api::<PersistentVolumeClaim>().list(&ListParams::default()).await?.items;
    ensure!(claims.is_empty(), "left: {claims:?}");
    scene.end().await
}

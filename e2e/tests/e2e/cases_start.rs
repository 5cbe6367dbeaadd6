//! Environments that can't start say why, in the words of the cluster, and do once it is mended.

use anyhow::{Context, Result, ensure};
use drydock_crds::ContainerInstance;
use drydock_e2e::Scene;
use drydock_e2e::scene::condition;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};

/// How soon the reason has to be there, in seconds.
const SOON: u64 = 30;

fn says(instance: &ContainerInstance, words: &[&str]) -> bool {
    let conditions = instance.status.as_ref().map(|s| &s.conditions[..]).unwrap_or_default();
    conditions.iter().any(|c| {
        let text = format!("{} {}", c.reason, c.message);
        words.iter().all(|word| text.contains(word))
    })
}

fn is_active(instance: &ContainerInstance) -> bool {
    condition(instance.status.as_ref().map(|s| &s.conditions[..]), "Active")
}

/// An environment that is wanted and can't start: the words of its conditions, then what mends it.
async fn told_and_mended(scene: &Scene, name: &str, words: &[&str]) -> Result<()> {
    scene
        .wait(name, SOON, |c: &ContainerInstance| says(c, words))
        .await
        .with_context(|| format!("{words:?}"))?;
    Ok(())
}

async fn comes_up(scene: &Scene, name: &str) -> Result<()> {
    scene.wait(name, 120, is_active).await.map(drop)
}

#[tokio::test]
async fn b115_a_quota_is_named_and_its_end_noticed() -> Result<()> {
    let scene = Scene::new("b115q").await?;
    let quota = |pods: &str| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": pods}}});
    scene.apply(quota("0")).await?;
    scene
        .wait("none", 60, |q: &k8s_openapi::api::core::v1::ResourceQuota| {
            q.status.as_ref().is_some_and(|s| s.hard.is_some())
        })
        .await?;
    scene.container("box", scene.image, json!({"desiredState": "Active"})).await?;
    told_and_mended(&scene, "box", &["exceeded quota"]).await?;
    scene.apply(quota("5")).await?;
    comes_up(&scene, "box").await?;
    scene.end().await
}

#[tokio::test]
async fn b115_a_limit_range_is_named_and_its_end_noticed() -> Result<()> {
    let scene = Scene::new("b115l").await?;
    scene
        .apply(json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"},
            "spec": {"limits": [{"type": "Container", "max": {"memory": "64Mi"}}]}}))
        .await?;
    let resources = json!({"requests": {"memory": "128Mi"}, "limits": {"memory": "128Mi"}});
    scene.container("box", scene.image, json!({"desiredState": "Active", "resources": resources})).await?;
    told_and_mended(&scene, "box", &["maximum memory usage per Container"]).await?;
    scene.kubectl(&["delete", "limitrange", "small"]).await?;
    comes_up(&scene, "box").await?;
    scene.end().await
}

#[tokio::test]
async fn b115_an_image_that_is_not_there_is_named_and_can_be_corrected() -> Result<()> {
    let scene = Scene::new("b115i").await?;
    let wrong = format!("{}-wrong", scene.image);
    scene.container("box", &wrong, json!({"desiredState": "Active"})).await?;
    told_and_mended(&scene, "box", &["Image", &wrong]).await?;
    scene.container("box", scene.image, json!({"desiredState": "Active"})).await?;
    comes_up(&scene, "box").await?;
    scene.end().await
}

#[tokio::test]
async fn b115_a_storage_class_that_is_not_there_is_named() -> Result<()> {
    let scene = Scene::new("b115s").await?;
    let url = scene.repository("shop", &[("README.md", "A tree.\n")]).await?;
    let storage = json!({"size": "10Mi", "storageClassName": "no-such-class"});
    let spec = json!({"source": {"git": {"url": url}}, "storage": storage});
    scene.apply(json!({"kind": "Workspace", "metadata": {"name": "shop"}, "spec": spec})).await?;
    let named = |w: &drydock_crds::Workspace| {
        let conditions = w.status.as_ref().map(|s| &s.conditions[..]).unwrap_or_default();
        conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "False" && c.message.contains("no-such-class"))
    };
    scene.wait("shop", SOON, named).await?;
    scene.end().await
}

fn metadata(pod: &Pod) -> Value {
    json!({"labels": pod.metadata.labels, "owners": pod.metadata.owner_references})
}

#[tokio::test]
async fn b113_what_others_change_of_a_pod_is_mended_or_the_pod_replaced() -> Result<()> {
    let scene = Scene::new("b113").await?;
    scene.container("box", scene.image, json!({"desiredState": "Active"})).await?;
    comes_up(&scene, "box").await?;
    let pods: Api<Pod> = scene.api();
    let all = ListParams::default();
    let first = pods.list(&all).await?.items.into_iter().next().context("the environment has a pod")?;
    let labels = json!({"metadata": {"annotations": {"other.example/note": "kept"}}});
    pods.patch(&first.name_any(), &Default::default(), &kube::api::Patch::Merge(labels)).await?;
    let ran = scene.plugin(&["run", "ctr/box", "--", "true"]).await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let now = pods.get(&first.name_any()).await?;
    ensure!(
        now.uid() == first.uid() && now.annotations().contains_key("other.example/note"),
        "{:?}",
        now.metadata
    );
    ensure!(metadata(&now) == metadata(&first), "{:?}", now.metadata);

    pods.delete(&first.name_any(), &DeleteParams::default().grace_period(0)).await?;
    let uid = first.uid();
    let other = |c: &ContainerInstance| {
        is_active(c) && c.status.as_ref().is_some_and(|s| s.pod_uid.is_some() && s.pod_uid != uid)
    };
    scene.wait("box", 60, other).await?;
    let ran = scene.plugin(&["run", "ctr/box", "--", "true"]).await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    scene.end().await
}

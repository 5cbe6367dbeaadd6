//! Two controllers at once act as one.

use anyhow::{Context, Result, ensure};
use drydock_crds::ToolRun;
use drydock_crds::tool_run::Outcome;
use drydock_e2e::Scene;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::faults::Herd;

const PROGRAM: [&str; 2] = ["/drydock-controller", "run"];
/// A lease expires 15 s after its last renewal; then the others notice within their pace.
const HAND_OVER: u64 = 20;

async fn two(name: &str) -> Result<Scene> {
    let scene = Scene::alone(name, |_| vec![("controller.replicas".into(), "2".into())]).await?;
    let controllers = scene.controllers().await?.len();
    ensure!(controllers == 2, "{controllers} controllers");
    Ok(scene)
}

/// The pod of a lease's holder.
async fn pod_of(scene: &Scene, holder: &str) -> Result<Pod> {
    let pods = scene.controllers().await?;
    let found = pods.into_iter().find(|pod| holder.starts_with(&format!("{}_", pod.name_any())));
    found.with_context(|| format!("no controller is {holder}"))
}

/// Nothing was done twice: one environment pod, one claim, and all that was told was told by one of `holders`, once.
async fn acted_as_one(scene: &Scene, holders: &[&str]) -> Result<()> {
    let pods = scene.api::<Pod>().list(&ListParams::default().labels("drydock.dev/role=environment")).await?;
    ensure!(pods.items.len() == 1, "{} environments", pods.items.len());
    let claims = scene.api::<PersistentVolumeClaim>().list(&ListParams::default()).await?;
    ensure!(claims.items.len() == 1, "{} claims", claims.items.len());
    let events = scene.api::<Event>().list(&ListParams::default()).await?;
    let ours = |e: &&Event| e.reporting_controller.as_deref().is_some_and(|c| c.contains("drydock"));
    let mut told: Vec<String> = Vec::new();
    for event in events.items.iter().filter(ours) {
        let by = event.reporting_instance.clone().unwrap_or_default();
        ensure!(holders.iter().any(|h| h.starts_with(&by)), "{by} told {:?}", event.note);
        let about = event.regarding.as_ref().and_then(|r| r.name.clone()).unwrap_or_default();
        told.push(format!("{about}: {:?} {:?}", event.reason, event.note));
    }
    ensure!(!told.is_empty(), "nobody told anything");
    let all = told.len();
    told.sort();
    told.dedup();
    ensure!(told.len() == all, "told twice: {told:?}");
    Ok(())
}

#[tokio::test]
async fn of_two_controllers_the_other_takes_over_when_the_leader_is_killed_under_runs() -> Result<()> {
    let scene = two("leader-killed").await?;
    let first = scene.leader_after(None, 60).await?;
    let herd = Herd::start(&scene).await?;
    acted_as_one(&scene, &[&first]).await?;
    scene.signal(&pod_of(&scene, &first).await?, &PROGRAM, "KILL").await?;
    herd.release(0).await?;
    let second = scene.leader_after(Some(&first), HAND_OVER).await?;
    herd.release(1).await?;
    herd.check().await?;
    acted_as_one(&scene, &[&first, &second]).await?;
    scene.end().await
}

#[tokio::test]
async fn a_leader_that_was_frozen_past_its_lease_does_nothing_more() -> Result<()> {
    let scene = two("leader-frozen").await?;
    let first = scene.leader_after(None, 60).await?;
    let herd = Herd::start(&scene).await?;
    let frozen = pod_of(&scene, &first).await?;
    scene.signal(&frozen, &PROGRAM, "STOP").await?;
    let second = scene.leader_after(Some(&first), HAND_OVER).await?;
    herd.release(0).await?;
    herd.counted("ended", 10).await?;
    // What it held in its memory is old by now.
    scene.signal(&frozen, &PROGRAM, "CONT").await?;
    herd.release(1).await?;
    herd.check().await?;
    let spec = json!({"workspaceRef": {"name": "tree"}, "command": ["sh", "-c", "echo late >> ran"]});
    let late: ToolRun = scene.run("late", spec).await?;
    ensure!(late.status.and_then(|s| s.outcome) == Some(Outcome::Succeeded), "the late run");
    let ran = scene.inside(&herd.pod.name_any(), "grep -c late /workspaces/tree/ran").await?;
    ensure!(ran.trim() == "1", "the late tool ran {ran} times");
    acted_as_one(&scene, &[&first, &second]).await?;
    ensure!(scene.leader_after(None, 1).await? == second, "the lease went back");
    scene.end().await
}

#[tokio::test]
async fn a_leader_that_is_told_to_stop_hands_over_at_once() -> Result<()> {
    let scene = two("leader-told").await?;
    let first = scene.leader_after(None, 60).await?;
    let pod = pod_of(&scene, &first).await?.name_any();
    scene
        .drydock
        .kubectl(&["delete", "pod", "-n", drydock_e2e::drydock::NAMESPACE, &pod, "--wait=false"])
        .await?;
    scene.leader_after(Some(&first), 10).await?;
    scene.end().await
}

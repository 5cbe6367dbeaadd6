//! What happens to an environment from outside: its pod deleted, its node's programs started anew, its image not to be had; stops, requests
//! and the wishes of its spec.

use anyhow::{Context, Result, ensure};
use drydock_cluster::Component;
use drydock_crds::condition::ConditionType;
use drydock_crds::instance::{InstanceStatus, ProvisioningState, RequestResult};
use drydock_crds::tool_run::Outcome;
use drydock_crds::{DevcontainerInstance, ToolRun, label};
use drydock_e2e::{Scene, scene};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

/// A tool that says that it runs and goes on until it is let go.
const PATIENT: &str = "touch runs; until [ -e go ]; do sleep 0.05; done; echo done";

fn tool(script: &str) -> Value {
    json!({"workspaceRef": {"name": "tree"}, "command": ["sh", "-c", script], "timeoutSeconds": 600})
}

fn state(status: Option<&InstanceStatus>) -> Option<ProvisioningState> {
    status.and_then(|s| s.provisioning_state)
}

fn outcome(run: &ToolRun) -> Option<Outcome> {
    run.status.as_ref().and_then(|s| s.outcome)
}

/// Reason of the last transition.
fn reason(status: &InstanceStatus) -> &str {
    status.transitions.last().map_or("", |t| t.reason.as_str())
}

async fn in_state(scene: &Scene, wanted: ProvisioningState, seconds: u64) -> Result<InstanceStatus> {
    let there = |dc: &DevcontainerInstance| state(dc.status.as_ref()) == Some(wanted);
    scene.wait("tree", seconds, there).await?.status.context("it has a status")
}

/// Starts a tool that waits, and answers the name of its pod once it runs.
async fn patient(scene: &Scene, name: &str) -> Result<String> {
    scene.create_run(name, tool(PATIENT)).await?;
    let status = in_state(scene, ProvisioningState::Active, 120).await?;
    let pod = status.pod_name.context("an active instance names its pod")?;
    scene.until(&pod, 60, "[ -e /workspaces/tree/runs ]").await?;
    Ok(pod)
}

async fn set(scene: &Scene, spec: Value) -> Result<()> {
    scene
        .apply(json!({"kind": "DevcontainerInstance", "metadata": {"name": "tree"}, "spec": spec}))
        .await
        .map(drop)
}

/// Makes a request and answers what became of it.
async fn request(scene: &Scene, key: &str, token: &str) -> Result<(RequestResult, String)> {
    let patch = json!({"metadata": {"annotations": {key: token}}});
    let api = scene.api::<DevcontainerInstance>();
    api.patch("tree", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    let short = key.rsplit('/').next().unwrap_or(key).to_owned();
    let handled = |dc: &DevcontainerInstance| {
        let handled = dc.status.as_ref().and_then(|s| s.handled_requests.get(&short));
        handled.is_some_and(|h| h.token == token)
    };
    let status = scene.wait("tree", 60, handled).await?.status.unwrap_or_default();
    let handled = &status.handled_requests[&short];
    Ok((handled.result, handled.reason.clone()))
}

#[tokio::test]
async fn a_pod_deleted_by_hand_is_told_within_seconds_and_made_again_for_the_next_run() -> Result<()> {
    let scene = Scene::new("pod-deleted").await?;
    scene.devcontainer("tree").await?;
    let pod = patient(&scene, "first").await?;
    scene.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
    let left = |dc: &DevcontainerInstance| state(dc.status.as_ref()) != Some(ProvisioningState::Active);
    let status = scene.wait("tree", 5, left).await?.status.unwrap_or_default();
    ensure!(reason(&status) == "PodLost", "{:?}", status.transitions);
    let run = scene.finished("first").await?;
    ensure!(outcome(&run) == Some(Outcome::Lost), "{run:?}");
    in_state(&scene, ProvisioningState::Stopped, 60).await?;
    let run = scene.run("second", tool("echo again")).await?;
    ensure!(outcome(&run) == Some(Outcome::Succeeded), "{run:?}");
    scene.end().await
}

#[tokio::test]
async fn tools_go_on_while_kubelet_and_containerd_are_started_anew() -> Result<()> {
    let scene = Scene::alone("node-programs", |_| Vec::new()).await?;
    scene.devcontainer("tree").await?;
    let cluster = scene::cluster().await?;
    for component in [Component::Containerd(1), Component::Kubelet(1)] {
        let name = |what: &str| format!("{component}-{what}");
        let pod = patient(&scene, &name("under")).await?;
        cluster.restart(component).await?;
        let run = scene.run(&name("during"), tool("touch go")).await?;
        ensure!(outcome(&run) == Some(Outcome::Succeeded), "{run:?}");
        let run = scene.finished(&name("under")).await?;
        let status = run.status.clone().unwrap_or_default();
        ensure!(outcome(&run) == Some(Outcome::Succeeded), "{run:?}");
        ensure!(status.container.is_some_and(|c| c.pod_name == pod), "{run:?}");
        // The new one stops and starts pods as well.
        let answer = request(&scene, label::STOP, &component.to_string()).await?;
        ensure!(answer == (RequestResult::Done, "Done".into()), "{answer:?}");
        let run = scene.run(&name("after"), tool("rm go runs")).await?;
        ensure!(outcome(&run) == Some(Outcome::Succeeded), "{run:?}");
    }
    scene.end().await
}

/// Waits until the kubelet says that it can't have the image, and answers the pod's name.
async fn waiting_pod(scene: &Scene) -> Result<String> {
    let named = |dc: &DevcontainerInstance| state(dc.status.as_ref()) == Some(ProvisioningState::Building);
    scene.wait("tree", 30, named).await?;
    let failed = |pod: &Pod| {
        let containers = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
        let waiting =
            containers.and_then(|all| all.first()?.state.as_ref()?.waiting.as_ref()?.reason.clone());
        waiting.is_some_and(|reason| reason == "ErrImagePull" || reason == "ImagePullBackOff")
    };
    let pods = scene.environment_pods(60).await?;
    let name = pods.first().cloned().context("there is a pod")?;
    scene.wait(&name, 35, failed).await?;
    Ok(name)
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_is_told_within_seconds_and_ends_the_waiting() -> Result<()> {
    let short = |namespace: &str| {
        let settings = json!({namespace: {"environments": {"startTimeout": "40s"}}});
        vec![("config.namespaces".to_owned(), settings.to_string())]
    };
    let scene = Scene::alone("no-image", short).await?;
    let definition = json!({"image": "localhost:5000/nobody/pushed:1"}).to_string();
    scene.workspace("tree", &[(".devcontainer.json", &definition)]).await?;
    scene.create_run("run", tool("true")).await?;
    let told = |dc: &DevcontainerInstance| {
        let conditions = dc.status.as_ref().map(|s| &s.conditions[..]).unwrap_or_default();
        ConditionType::Ready.find(conditions).is_some_and(|c| c.reason == "ImagePullFailed")
    };
    let pod = waiting_pod(&scene).await?;
    let status = scene.wait("tree", 5, told).await.with_context(|| format!("pod {pod} says so"))?;
    let status = status.status.unwrap_or_default();
    ensure!(state(Some(&status)) == Some(ProvisioningState::Building), "{status:?}");
    let waits = |run: &ToolRun| {
        let conditions = run.status.as_ref().map(|s| &s.conditions[..]).unwrap_or_default();
        ConditionType::Ready.find(conditions).is_some_and(|c| c.message.contains("nobody/pushed"))
    };
    scene.wait("run", 5, waits).await?;
    let status = in_state(&scene, ProvisioningState::Failed, 50).await?;
    ensure!(reason(&status) == "ImagePullFailed", "{:?}", status.transitions);
    ensure!(ConditionType::Stalled.is_true(&status.conditions), "{:?}", status.conditions);
    let run = scene.finished("run").await?;
    ensure!(outcome(&run) == Some(Outcome::StartFailed), "{run:?}");
    let pods = scene.api::<Pod>().list(&ListParams::default().labels("drydock.dev/role=environment")).await?;
    for pod in pods.items {
        scene.gone::<Pod>(&pod.metadata.name.unwrap_or_default(), 60).await?;
    }
    let (result, why) = request(&scene, label::RETRY, "1").await?;
    ensure!(result == RequestResult::Done && why == "Done", "{result:?} {why}");
    let retried = |dc: &DevcontainerInstance| {
        dc.status.as_ref().is_some_and(|s| s.transitions.iter().any(|t| t.reason == "Retry"))
    };
    scene.wait("tree", 10, retried).await?;
    scene.end().await
}

#[tokio::test]
async fn an_idle_environment_stops_and_starts_again_with_its_workspace() -> Result<()> {
    let scene = Scene::new("idle").await?;
    scene.devcontainer("tree").await?;
    set(&scene, json!({"idleTimeout": "3s"})).await?;
    let first = scene.run("first", tool("echo kept > note; touch /tmp/lost")).await?;
    ensure!(outcome(&first) == Some(Outcome::Succeeded), "{first:?}");
    let status = in_state(&scene, ProvisioningState::Stopped, 60).await?;
    ensure!(status.transitions.iter().any(|t| t.reason == "IdleTimeout"), "{:?}", status.transitions);
    ensure!(reason(&status) == "StateDiscarded", "{:?}", status.transitions);
    let pods = scene.api::<Pod>().list(&ListParams::default().labels("drydock.dev/role=environment")).await?;
    ensure!(pods.items.is_empty(), "a stopped environment has a pod");
    let second = scene.run("second", tool("cat note; [ ! -e /tmp/lost ]")).await?;
    ensure!(outcome(&second) == Some(Outcome::Succeeded), "{second:?}");
    scene.end().await
}

#[tokio::test]
async fn stop_requests_are_answered_once_and_never_end_a_tool_unasked() -> Result<()> {
    use RequestResult::{Done, Refused};
    let scene = Scene::new("stops").await?;
    scene.devcontainer("tree").await?;
    ensure!(request(&scene, label::STOP, "1").await? == (Done, "NothingToDo".into()));
    ensure!(request(&scene, label::RETRY, "1").await? == (Done, "NothingToDo".into()));
    ensure!(request(&scene, label::REBUILD, "1").await? == (Refused, "NotImplemented".into()));
    let pod = patient(&scene, "first").await?;
    ensure!(request(&scene, label::STOP, "2").await? == (Refused, "RunsActive".into()));
    ensure!(request(&scene, label::STOP_DISCARD, "1").await? == (Refused, "RunsActive".into()));
    scene.inside(&pod, "touch /workspaces/tree/go").await?;
    let run = scene.finished("first").await?;
    ensure!(outcome(&run) == Some(Outcome::Succeeded), "a refused stop ended a tool: {run:?}");
    ensure!(request(&scene, label::STOP, "3").await? == (Done, "Done".into()));
    in_state(&scene, ProvisioningState::Stopped, 5).await?;
    scene.run("between", tool("rm go runs")).await?;
    patient(&scene, "second").await?;
    ensure!(request(&scene, label::STOP_FORCE, "1").await? == (Done, "Done".into()));
    let run = scene.finished("second").await?;
    ensure!(outcome(&run) == Some(Outcome::Cancelled), "{run:?}");
    let run = scene.run("third", tool("rm runs")).await?;
    ensure!(outcome(&run) == Some(Outcome::Succeeded), "{run:?}");
    ensure!(request(&scene, label::STOP_DISCARD, "2").await? == (Done, "Done".into()));
    in_state(&scene, ProvisioningState::Stopped, 5).await?;
    scene.end().await
}

#[tokio::test]
async fn desired_state_starts_keeps_and_stops_an_environment() -> Result<()> {
    let scene = Scene::new("desired").await?;
    scene.devcontainer("tree").await?;
    set(&scene, json!({"desiredState": "Active", "idleTimeout": "1s"})).await?;
    in_state(&scene, ProvisioningState::Active, 120).await?;
    let answer = request(&scene, label::STOP, "1").await?;
    ensure!(answer == (RequestResult::Refused, "DesiredStateConflict".into()), "{answer:?}");
    let run = scene.run("warm", tool("true")).await?;
    ensure!(outcome(&run) == Some(Outcome::Succeeded), "{run:?}");
    let status = in_state(&scene, ProvisioningState::Active, 1).await?;
    ensure!(reason(&status) == "Active", "it didn't stay active: {:?}", status.transitions);
    set(&scene, json!({"desiredState": "Stopped"})).await?;
    let status = in_state(&scene, ProvisioningState::Stopped, 60).await?;
    ensure!(status.transitions.iter().any(|t| t.reason == "DesiredStopped"), "{:?}", status.transitions);
    let run = scene.run("cold", tool("true")).await?;
    ensure!(outcome(&run) == Some(Outcome::NoEnvironment), "{run:?}");
    scene.end().await
}

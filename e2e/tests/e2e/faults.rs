//! The controller and the agent's `serve` killed in the middle of running tools: every tool runs once, and every outcome is right.

use anyhow::{Context, Result, ensure};
use drydock_crds::tool_run::Outcome;
use drydock_crds::{DevcontainerInstance, ToolRun};
use drydock_e2e::Scene;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

/// Tools that run at once.
const RUNNING: usize = 20;
/// Tools in all; those beyond [`RUNNING`] wait their turn.
const ALL: usize = 24;

/// Tools that each write their name to `ran`, and go on when the file of their half is there.
pub(super) struct Herd<'a> {
    scene: &'a Scene,
    /// The pod they run in.
    pub(super) pod: Pod,
}

impl<'a> Herd<'a> {
    /// Answers once [`RUNNING`] of the tools run.
    pub(super) async fn start(scene: &'a Scene) -> Result<Self> {
        scene.devcontainer("tree").await?;
        let more = json!({"maxConcurrentRuns": RUNNING});
        scene
            .apply(json!({"kind": "DevcontainerInstance", "metadata": {"name": "tree"}, "spec": more}))
            .await?;
        for number in 0..ALL {
            let name = name(number);
            let tool = format!(
                "echo {name} >> ran; until [ -e go-{} ]; do sleep 0.05; done; echo {name} >> ended; \
                 echo output of {name}; exit {}",
                number % 2,
                number % 3
            );
            let spec = json!({"workspaceRef": {"name": "tree"}, "command": ["sh", "-c", tool], "timeoutSeconds": 300});
            scene.create_run(&name, spec).await?;
        }
        let active = |dc: &DevcontainerInstance| dc.status.as_ref().is_some_and(|s| s.pod_name.is_some());
        let dc = scene.wait("tree", 120, active).await?;
        let pod_name = dc.status.and_then(|s| s.pod_name).context("an active instance names its pod")?;
        let ready = |pod: &Pod| {
            let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
            statuses.is_some_and(|all| all.iter().all(|c| c.ready))
        };
        let pod = scene.wait(&pod_name, 60, ready).await?;
        let herd = Self { scene, pod };
        herd.counted("ran", RUNNING).await?;
        Ok(herd)
    }

    /// Waits until a file of the tree has at least `count` lines.
    pub(super) async fn counted(&self, file: &str, count: usize) -> Result<()> {
        let condition =
            format!("[ -e /workspaces/tree/{file} ] && [ $(wc -l < /workspaces/tree/{file}) -ge {count} ]");
        self.scene.until(&self.pod.name_any(), 60, &condition).await
    }

    /// Lets one half of the tools end.
    pub(super) async fn release(&self, half: usize) -> Result<()> {
        self.scene.inside(&self.pod.name_any(), &format!("touch /workspaces/tree/go-{half}")).await.map(drop)
    }

    /// Every run has its own outcome and output, every tool ran once, and the pod and its boot are the same throughout.
    pub(super) async fn check(&self) -> Result<()> {
        let mut boots = Vec::new();
        for number in 0..ALL {
            let run = self.scene.finished(&name(number)).await?;
            check_run(&run, number).with_context(|| format!("{run:?}"))?;
            let claim = run.status.and_then(|s| s.claim).context("a run that ran has a claim")?;
            ensure!(claim.attempt == 1, "{}: attempt {}", name(number), claim.attempt);
            ensure!(Some(&claim.pod_uid) == self.pod.metadata.uid.as_ref(), "{}: another pod", name(number));
            boots.push(claim.boot_id);
        }
        boots.dedup();
        ensure!(boots.len() == 1, "the container was started anew: {boots:?}");
        let ran = self.scene.inside(&self.pod.name_any(), "sort /workspaces/tree/ran").await?;
        let expected: Vec<String> = (0..ALL).map(name).collect();
        ensure!(ran.lines().eq(expected.iter().map(String::as_str)), "not each tool once: {ran}");
        Ok(())
    }
}

fn name(number: usize) -> String {
    format!("run-{number:02}")
}

fn check_run(run: &ToolRun, number: usize) -> Result<()> {
    let status = run.status.as_ref().context("it has a status")?;
    let code = i32::try_from(number % 3)?;
    let outcome = if code == 0 { Outcome::Succeeded } else { Outcome::NonZeroExit };
    ensure!(status.outcome == Some(outcome), "outcome {:?} instead of {outcome:?}", status.outcome);
    ensure!(status.exit_code == Some(code), "exit code {:?} instead of {code}", status.exit_code);
    let output = status.stdout.as_ref().and_then(|s| s.head.as_deref());
    ensure!(output == Some(&format!("output of {}\n", name(number))), "output {output:?}");
    Ok(())
}

#[tokio::test]
async fn a_controller_killed_in_the_middle_of_twenty_runs_loses_none_and_runs_none_twice() -> Result<()> {
    let scene = Scene::alone("controller-killed", |_| Vec::new()).await?;
    let former = scene.leader_after(None, 60).await?;
    let herd = Herd::start(&scene).await?;
    for controller in scene.controllers().await? {
        scene.signal(&controller, &["/drydock-controller", "run"], "KILL").await?;
    }
    // These end while nobody looks.
    herd.release(0).await?;
    herd.counted("ended", RUNNING / 2).await?;
    scene.leader_after(Some(&former), 60).await?;
    herd.release(1).await?;
    herd.check().await?;
    scene.end().await
}

#[tokio::test]
async fn a_serve_killed_in_the_middle_of_twenty_runs_loses_none_and_runs_none_twice() -> Result<()> {
    let scene = Scene::new("serve-killed").await?;
    let herd = Herd::start(&scene).await?;
    scene.signal(&herd.pod, &["drydock-agent", "serve"], "KILL").await?;
    herd.release(0).await?;
    herd.counted("ended", RUNNING / 2).await?;
    // Once more, this time while it tells how runs ended.
    scene.signal(&herd.pod, &["drydock-agent", "serve"], "KILL").await?;
    herd.release(1).await?;
    herd.check().await?;
    let pod = scene.api::<Pod>().get(&herd.pod.name_any()).await?;
    let restarts: i32 =
        pod.status.and_then(|s| s.container_statuses).iter().flatten().map(|c| c.restart_count).sum();
    ensure!(restarts == 0, "pid 1 should have gone on");
    scene.end().await
}

//! Drydock uninstalled and installed again: nothing hangs, nothing is lost.

use anyhow::{Context, Result, ensure};
use drydock_crds::tool_run::Outcome;
use drydock_crds::{ToolRun, Workspace, label};
use drydock_e2e::Scene;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DeleteParams;
use serde_json::json;

#[tokio::test]
async fn an_uninstalled_drydock_leaves_data_that_can_be_deleted_and_gone_on_with() -> Result<()> {
    let scene = Scene::alone("uninstall", |_| Vec::new()).await?;
    scene.devcontainer("kept").await?;
    scene.devcontainer("doomed").await?;
    let finalizer =
        |w: &Workspace| w.metadata.finalizers.iter().flatten().any(|f| f == label::WORKSPACE_FINALIZER);
    scene.wait("kept", 10, finalizer).await?;
    let write = json!({"workspaceRef": {"name": "kept"}, "command": ["sh", "-c", "echo mine > note"]});
    let run = scene.run("before", write).await?;
    ensure!(run.status.and_then(|s| s.outcome) == Some(Outcome::Succeeded));

    scene.drydock.uninstall().await?;

    let kept = scene.api::<Workspace>().get("kept").await.context("data is kept")?;
    ensure!(!finalizer(&kept), "our finalizer is left: {:?}", kept.metadata.finalizers);
    scene.api::<ToolRun>().get("before").await.context("runs are kept")?;
    // Nobody is there who could take a finalizer off.
    scene.api::<Workspace>().delete("doomed", &DeleteParams::default()).await?;
    scene.gone::<Workspace>("doomed", 10).await?;
    let claim = kept.status.and_then(|s| s.claim_name).context("a Workspace names its claim")?;
    scene.api::<PersistentVolumeClaim>().get(&claim).await.context("claims are kept")?;
    let left = [
        "get",
        "all,sa,cm,secret,role,rolebinding,lease",
        "-n",
        drydock_e2e::drydock::NAMESPACE,
        "-l",
        "app.kubernetes.io/instance=drydock",
        "-o",
        "name",
    ];
    let left = scene.drydock.kubectl(&left).await?;
    ensure!(left.trim().is_empty(), "left of the release: {left}");
    let left = scene
        .drydock
        .kubectl(&[
            "get",
            "clusterrole,clusterrolebinding",
            "-l",
            "app.kubernetes.io/instance=drydock",
            "-o",
            "name",
        ])
        .await?;
    ensure!(left.trim().is_empty(), "left of the release: {left}");

    scene.drydock.upgrade(&[]).await?;

    scene.wait("kept", 60, finalizer).await?;
    let read = json!({"workspaceRef": {"name": "kept"}, "command": ["cat", "note"]});
    let run = scene.run("after", read).await?;
    let status = run.status.clone().unwrap_or_default();
    ensure!(status.outcome == Some(Outcome::Succeeded), "{run:?}");
    ensure!(status.stdout.and_then(|s| s.head).as_deref() == Some("mine\n"), "{run:?}");
    scene.end().await
}

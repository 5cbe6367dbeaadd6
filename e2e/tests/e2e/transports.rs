//! Both ways to reach agents, and both extents of the controller: each runs tools.

use anyhow::{Context, Result, ensure};
use drydock_crds::tool_run::Outcome;
use drydock_e2e::Scene;
use drydock_e2e::scene::Values;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

fn value(path: &str, json: &str) -> (String, String) {
    (path.to_owned(), json.to_owned())
}

/// A tool in a dev container and one on the host, both right.
async fn runs_work(scene: &Scene) -> Result<()> {
    scene.devcontainer("tree").await?;
    let tool =
        json!({"workspaceRef": {"name": "tree"}, "command": ["sh", "-c", "id -un; seq 100000; exit 7"]});
    let run = scene.run("tool", tool).await?;
    let status = run.status.clone().context("it has a status")?;
    let streams = status.stdout.as_ref().map(|s| (s.lines, s.bytes));
    ensure!(status.outcome == Some(Outcome::NonZeroExit) && status.exit_code == Some(7), "{run:?}");
    ensure!(streams == Some((100_001, 588_899)), "{streams:?}");
    let environment = json!({"required": "Host"});
    let host = json!({"workspaceRef": {"name": "tree"}, "environment": environment, "command": ["cat", "README.md"]});
    let run = scene.run("host", host).await?;
    let status = run.status.clone().context("it has a status")?;
    ensure!(status.outcome == Some(Outcome::Succeeded), "{run:?}");
    ensure!(status.stdout.and_then(|s| s.head).as_deref() == Some("A tree.\n"), "{run:?}");
    Ok(())
}

async fn with_transport(transport: &str) -> Result<()> {
    let arguments = format!(r#"["--agent-transport={transport}"]"#);
    let scene =
        Scene::alone(&format!("transport-{transport}"), |_| vec![value("controller.extraArgs", &arguments)])
            .await?;
    runs_work(&scene).await?;
    scene.end().await
}

#[tokio::test]
async fn tools_run_over_direct_connections() -> Result<()> {
    with_transport("direct").await
}

#[tokio::test]
async fn tools_run_over_exec() -> Result<()> {
    with_transport("exec").await
}

#[tokio::test]
async fn a_controller_of_one_namespace_works_there_and_nowhere_else() -> Result<()> {
    let watched =
        |namespace: &str| -> Values { vec![value("watchNamespaces", &format!("[\"{namespace}\"]"))] };
    let scene = Scene::alone("one-namespace", watched).await?;
    // Such a controller could not list other namespaces' objects even if it tried to.
    let account = "--as=system:serviceaccount:drydock-system:drydock-controller";
    let denied =
        scene.drydock.kubectl(&["auth", "can-i", "list", "toolruns.drydock.dev", "-A", account]).await;
    ensure!(denied.is_err(), "it may list every namespace: {denied:?}");
    let elsewhere = json!({"apiVersion": "drydock.dev/v1alpha1", "kind": "Tool", "metadata": {"name": "tool"}, "spec": {"command": ["true"]}});
    scene.apply(elsewhere.clone()).await?;
    let other = scene.other_namespace("elsewhere").await?;
    scene.apply_in(&other, elsewhere).await?;
    runs_work(&scene).await?;
    scene
        .wait("tool", 30, |t: &drydock_crds::Tool| {
            t.status.as_ref().is_some_and(|s| s.observed_generation == 1)
        })
        .await?;
    let untouched: kube::Api<drydock_crds::Tool> = kube::Api::namespaced(scene.client.clone(), &other);
    let status = untouched.get("tool").await?.status;
    ensure!(status.as_ref().is_none_or(|s| s.observed_generation == -1), "{status:?}");
    scene.drydock.kubectl(&["delete", "namespace", &other, "--wait=false"]).await?;
    scene.end().await
}

#[tokio::test]
async fn environments_have_users_of_their_own_where_the_operator_says_so() -> Result<()> {
    let values = |_: &str| vec![value("config.environments", r#"{"hostUsers":false}"#)];
    let scene = Scene::alone("own-users", values).await?;
    runs_work(&scene).await?;
    let selected = kube::api::ListParams::default().labels("drydock.dev/role=environment");
    let pods = scene.api::<Pod>().list(&selected).await?.items;
    let pod = pods.first().context("an environment runs")?;
    ensure!(pod.spec.as_ref().and_then(|s| s.host_users) == Some(false), "hostUsers isn't false");
    let map = scene.inside(&pod.name_any(), "cat /proc/self/uid_map").await?;
    let outside = map.split_whitespace().nth(1);
    ensure!(outside.is_some_and(|uid| uid != "0"), "root of the environment is root of the node: {map}");
    scene.end().await
}

//! Objects as the API server keeps them: their size, their schema, and what must never stand in them.

use anyhow::{Context, Result, ensure};
use drydock_crds::ToolRun;
use drydock_e2e::Scene;
use drydock_e2e::binaries::repository;
use drydock_e2e::cli::{outcome, sha256, to};
use drydock_e2e::scene::condition;
use kube::api::{Api, ListParams};
use serde_json::json;

#[tokio::test]
async fn b114_no_output_and_no_message_makes_an_object_large() -> Result<()> {
    let scene = Scene::new("b114").await?;
    scene.container("box", scene.image, json!({})).await?;
    let loud = "head -c 1000000 /dev/urandom | base64; head -c 1000000 /dev/urandom | base64 >&2";
    let many = "print('\\x1b[31m\"\\\\\\n' * 200000)";
    let long = "x".repeat(3000);
    let commands = [
        json!(["sh", "-c", loud]),
        json!(["python3", "-c", many]),
        json!([format!("/{long}/{long}")]),
        json!(["sh", "-c", format!("echo {long} >&2; exit 1")]),
    ];
    for (index, command) in commands.into_iter().enumerate() {
        let run =
            scene.run(&format!("run-{index}"), json!({"environment": to("box"), "command": command})).await?;
        let status = run.status.as_ref().context("it has a status")?;
        let size = serde_json::to_vec(status)?.len();
        ensure!(size < 32 * 1024, "run-{index} has a status of {size} bytes");
        let longest = status.conditions.iter().map(|c| c.message.len()).max();
        ensure!(longest.is_some_and(|l| l <= 4096), "run-{index} has a message of {longest:?} bytes");
    }
    for _ in 0..3 {
        let ran = scene.plugin(&["run", "ctr/box", "--", "sh", "-c", loud]).await?;
        ensure!(ran.code == Some(0));
    }
    let instance = scene.kubectl(&["get", "ctr", "box", "-o", "json"]).await?;
    ensure!(instance.len() < 64 * 1024, "the instance has {} bytes", instance.len());
    scene.end().await
}

#[tokio::test]
async fn b118_schemas_are_taken_keep_free_form_data_and_refuse_by_name() -> Result<()> {
    let scene = Scene::new("b118").await?;
    let folder = repository().join("crds");
    let folder = folder.to_str().context("the path is text")?;
    scene
        .drydock
        .kubectl(&["apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", folder])
        .await?;

    let input = json!({"a": {"b": [1, null, {"c": "d"}]}, "${x}": "y"});
    let tool = json!({"kind": "Tool", "metadata": {"name": "free"}, "spec": {"command": ["cat"], "input": "JsonStdin"}});
    scene.apply(tool.clone()).await?;
    let ready = |t: &drydock_crds::Tool| condition(t.status.as_ref().map(|s| &s.conditions[..]), "Ready");
    let first = scene.wait("free", 30, ready).await?;
    let second = scene.apply(tool).await?;
    ensure!(
        first.metadata.resource_version == second.metadata.resource_version,
        "a second apply changed something"
    );
    scene.container("box", scene.image, json!({})).await?;
    let run = scene
        .run("free", json!({"environment": to("box"), "toolRef": {"name": "free"}, "input": input.clone()}))
        .await?;
    ensure!(outcome(&run) == "Succeeded", "{run:?}");
    let kept = scene.kubectl(&["get", "trun", "free", "-o", "json"]).await?;
    let kept: serde_json::Value = serde_json::from_str(&kept)?;
    ensure!(kept["spec"]["input"] == input, "{}", kept["spec"]);
    let read = scene.plugin(&["logs", "trun/free"]).await?;
    let read: serde_json::Value = serde_json::from_slice(&read.stdout)?;
    ensure!(read == input, "{read}");

    let wrong = json!({"kind": "ContainerInstance", "metadata": {"name": "x"}, "spec": {"image": "x", "desiredState": "Running"}});
    let refused = format!("{:?}", scene.apply(wrong).await.err().context("it is refused")?);
    ensure!(refused.contains("desiredState") && refused.contains("Auto"), "{refused}");
    let explained = scene.kubectl(&["explain", "toolrun.spec.timeoutSeconds"]).await?;
    ensure!(explained.contains("DESCRIPTION") && explained.len() > 150, "{explained}");
    scene.end().await
}

#[tokio::test]
async fn b121_secret_values_stand_nowhere_but_in_the_process() -> Result<()> {
    const LASTING: &str = "k-77-lasting-value";
    const ONCE: &str = "t-88-value-of-one-run";
    let scene = Scene::new("b121").await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"api": LASTING, "TOK": ONCE}});
    scene.apply(secret).await?;
    let env = json!([{"name": "API_KEY", "secretKeyRef": {"name": "keys", "key": "api"}}]);
    scene.container("box", scene.image, json!({"env": env})).await?;
    let mut plugin = scene.plugin_command(&[
        "run",
        "ctr/box",
        "--env-from",
        "secret/keys:TOK",
        "--",
        "sh",
        "-c",
        "printf %s \"$API_KEY$TOK\" | sha256sum && ps -efww",
    ]);
    let ran = drydock_e2e::cli::ended(plugin.output().await?)?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let both = format!("{LASTING}{ONCE}");
    ensure!(ran.text().starts_with(&sha256(both.as_bytes())), "{ran:?}");

    let mut places = where_it_could_stand(&scene).await?;
    places.push(("ps in the pod", ran.text()));
    for (what, text) in places {
        for value in [LASTING, ONCE] {
            let line = text.lines().find(|line| line.contains(value));
            ensure!(line.is_none(), "{value} stands in {what}: {line:?}");
        }
    }
    let runs = scene.api::<ToolRun>().list(&ListParams::default()).await?;
    ensure!(runs.items.len() == 1, "{} runs", runs.items.len());
    scene.end().await
}

/// What others can read of a run, an environment and the operator.
async fn where_it_could_stand(scene: &Scene) -> Result<Vec<(&'static str, String)>> {
    let mut places = Vec::new();
    for (what, arguments) in [
        ("objects", &["get", "trun,ctr,pod,event,configmap", "-o", "yaml"][..]),
        ("describe", &["describe", "pod"][..]),
    ] {
        places.push((what, scene.kubectl(arguments).await?));
    }
    let operator = [
        "-n",
        drydock_e2e::drydock::NAMESPACE,
        "logs",
        "-l",
        "app.kubernetes.io/component=controller",
        "--tail=-1",
    ];
    places.push(("the operator's log", scene.drydock.kubectl(&operator).await?));
    let pods: Api<k8s_openapi::api::core::v1::Pod> = scene.api();
    for pod in pods.list(&ListParams::default()).await?.items {
        let name = pod.metadata.name.unwrap_or_default();
        places.push(("a pod's log", scene.kubectl(&["logs", &name, "--all-containers"]).await?));
    }
    let arguments: String = std::fs::read_dir("/proc")?
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " ") + "\n")
        .collect();
    places.push(("arguments on the node", arguments));
    Ok(places)
}

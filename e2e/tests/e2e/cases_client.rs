//! Clients that go away, connections that die, and runs that are found again.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use drydock_crds::ToolRun;
use drydock_e2e::Scene;
use drydock_e2e::cli::{ended, outcome, to};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use super::wire::Wire;

/// The line that a command prints before its test goes on.
async fn first_line(child: &mut Child) -> Result<(String, BufReader<tokio::process::ChildStdout>)> {
    let mut stdout = BufReader::new(child.stdout.take().context("stdout is a pipe")?);
    let mut line = String::new();
    tokio::time::timeout(Duration::from_secs(60), stdout.read_line(&mut line)).await??;
    Ok((line, stdout))
}

async fn the_run(scene: &Scene) -> Result<String> {
    let runs = scene.api::<ToolRun>().list(&ListParams::default()).await?;
    ensure!(runs.items.len() == 1, "{} runs instead of one", runs.items.len());
    Ok(runs.items[0].name_any())
}

fn signal(child: &Child, name: &str) -> Result<()> {
    let id = child.id().context("it runs")?.to_string();
    let sent = std::process::Command::new("kill").args(["-s", name, &id]).status()?;
    ensure!(sent.success(), "kill -s {name} {id} failed");
    Ok(())
}

/// The processes of an environment that are none of Drydock's own.
async fn processes(scene: &Scene, instance: &str, pattern: &str) -> Result<String> {
    let script = format!("ps -eo args | grep {pattern} | grep -v grep || true");
    let ran = scene.plugin(&["run", &format!("ctr/{instance}"), "--script", &script]).await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    Ok(ran.text())
}

async fn over_a_broken_wire(name: &str, harm: impl Fn(&Wire), seconds: u64) -> Result<()> {
    let scene = Scene::new(name).await?;
    scene.container("box", scene.image, json!({})).await?;
    let wire = Wire::new(&scene).await?;
    let mut plugin = scene.plugin_command(&[
        "run",
        "ctr/box",
        "--",
        "sh",
        "-c",
        "echo begun; sleep 12; echo over; exit 9",
    ]);
    plugin.env("KUBECONFIG", &wire.kubeconfig).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = plugin.spawn()?;
    let (line, mut stdout) = first_line(&mut child).await?;
    ensure!(line == "begun\n", "{line:?}");
    harm(&wire);
    let mut rest = String::new();
    let end = async {
        stdout.read_to_string(&mut rest).await?;
        anyhow::Ok(child.wait_with_output().await?)
    };
    let output = tokio::time::timeout(Duration::from_secs(seconds), end).await;
    let ran = ended(output.context("it never returned")??)?;
    ensure!(ran.code == Some(9) && rest == "over\n", "{rest:?} {ran:?}");
    scene.end().await
}

#[tokio::test]
async fn b074_a_cut_connection_is_no_end_and_no_success() -> Result<()> {
    over_a_broken_wire("b074", Wire::cut, 60).await
}

#[tokio::test]
async fn b075_a_connection_that_died_silently_is_noticed() -> Result<()> {
    over_a_broken_wire("b075", Wire::silence, 150).await
}

#[tokio::test]
async fn b080_a_cancel_ends_the_tree_and_a_lost_client_ends_nothing() -> Result<()> {
    let scene = Scene::new("b080").await?;
    scene.container("box", scene.image, json!({})).await?;
    let script = "echo begun; sleep 300.5 & setsid sleep 301.5 & wait; sleep 302.5";
    let mut child = scene.start_plugin(&["run", "ctr/box", "--script", script])?;
    let (line, _stdout) = first_line(&mut child).await?;
    ensure!(line == "begun\n", "{line:?}");
    let run = the_run(&scene).await?;
    signal(&child, "INT")?;
    let ran = ended(child.wait_with_output().await?)?;
    ensure!(ran.code == Some(130), "{ran:?}");
    ensure!(outcome(&scene.finished(&run).await?) == "Cancelled", "{ran:?}");
    ensure!(processes(&scene, "box", "'sleep 30[0-9]'").await?.is_empty(), "something was left");
    scene.kubectl(&["delete", "trun", "--all"]).await?;

    let script = "echo begun; i=0; while [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done; echo over; exit 5";
    let mut child = scene.start_plugin(&["run", "ctr/box", "--script", script])?;
    let (line, _stdout) = first_line(&mut child).await?;
    ensure!(line == "begun\n", "{line:?}");
    let run = the_run(&scene).await?;
    child.kill().await?;
    let found = scene.plugin(&["logs", &format!("trun/{run}"), "-f"]).await?;
    ensure!(found.text() == "begun\nover\n", "{found:?}");
    let run = scene.finished(&run).await?;
    ensure!(run.status.as_ref().and_then(|s| s.exit_code) == Some(5), "{run:?}");

    let spec = json!({"environment": to("box"), "command": ["sleep", "303.5"], "timeoutSeconds": 2});
    ensure!(outcome(&scene.run("bound", spec).await?) == "TimedOut");
    ensure!(processes(&scene, "box", "'sleep 30[0-9]'").await?.is_empty(), "something was left");
    scene.end().await
}

#[tokio::test]
async fn b097_a_request_whose_answer_is_lost_runs_nothing_twice() -> Result<()> {
    let scene = Scene::new("b097").await?;
    scene.container("box", scene.image, json!({})).await?;
    let (kubeconfig, _folder, _proxy) = losing_answers(&scene).await?;
    let mut plugin = scene.plugin_command(&["run", "ctr/box", "--", "sh", "-c", "echo x >> /tmp/n; exit 6"]);
    plugin.env("KUBECONFIG", kubeconfig);
    let ran = ended(plugin.output().await?)?;
    // Either it says that it doesn't know, or it found what it had asked for.
    ensure!(matches!(ran.code, Some(6 | 125)), "{ran:?}");
    let run = the_run(&scene).await?;
    scene.finished(&run).await?;
    let counted = scene.plugin(&["run", "ctr/box", "--", "cat", "/tmp/n"]).await?;
    ensure!(counted.text() == "x\n", "{counted:?}");

    let spec = json!({"environment": to("box"), "command": ["true"]});
    scene.run("keyed", spec.clone()).await?;
    let again = scene.create_run("keyed", spec).await;
    let text = again.err().context("a name is taken once")?.to_string();
    ensure!(text.contains("already exists"), "{text}");
    scene.end().await
}

/// A kubeconfig over a proxy that loses the API server's answer to the creation of a run.
async fn losing_answers(scene: &Scene) -> Result<(std::path::PathBuf, tempfile::TempDir, Child)> {
    let kubectl = drydock_cluster::tools::KUBECTL.path()?;
    let mut proxy = Command::new(kubectl);
    proxy.args(["proxy", "--port=0"]).env("KUBECONFIG", &scene.drydock.kubeconfig);
    let mut proxy = proxy.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let (line, _) = first_line(&mut proxy).await?;
    let target = line.split_whitespace().last().context("kubectl proxy says where it listens")?.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lossy",
        "clusters": [{"name": "lossy", "cluster": {"server": format!("http://{}", listener.local_addr()?)}}],
        "users": [{"name": "lossy", "user": {}}],
        "contexts": [{"name": "lossy", "context": {"cluster": "lossy", "user": "lossy"}}],
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let target = target.clone();
            tokio::spawn(async move {
                // A connection that breaks is the client's to notice.
                let _ = pass(client, &target).await;
            });
        }
    });
    Ok((kubeconfig, folder, proxy))
}

/// Carries a connection until a run is created over it: then the request goes on, and its answer to nobody.
async fn pass(mut client: TcpStream, target: &str) -> Result<()> {
    let mut server = TcpStream::connect(target).await?;
    let (mut up, mut down) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut lost = false;
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let count = read?;
                ensure!(count > 0, "the client left");
                let request = String::from_utf8_lossy(&up[..count]);
                lost |= request.starts_with("POST ") && request.contains("/toolruns");
                server.write_all(&up[..count]).await?;
            }
            read = server.read(&mut down) => {
                let count = read?;
                ensure!(count > 0 && !lost, "the server left, or its answer is lost");
                client.write_all(&down[..count]).await?;
            }
        }
    }
}

#[tokio::test]
async fn b098_a_detached_run_is_found_again_by_name_and_offset() -> Result<()> {
    let scene = Scene::new("b098").await?;
    scene.container("box", scene.image, json!({})).await?;
    let script = "i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); sleep 0.1; done; exit 4";
    let detached = scene.plugin(&["run", "ctr/box", "--detach", "--script", script]).await?;
    ensure!(detached.code == Some(0), "{detached:?}");
    let name = detached.text().trim().to_owned();
    let begun = Instant::now();
    let other = scene.plugin(&["run", "ctr/box", "--", "echo", "beside"]).await?;
    ensure!(other.text() == "beside\n" && begun.elapsed() < Duration::from_secs(60), "{other:?}");
    let all: String = (0..60).map(|n| format!("line {n}\n")).collect();
    let followed = scene.plugin(&["logs", &name, "-f"]).await?;
    ensure!(followed.text() == all, "{followed:?}");
    let later = scene.plugin(&["logs", &name, "--bytes", "7-13"]).await?;
    ensure!(later.stdout == all.as_bytes()[7..14], "{later:?}");
    let lines = scene.plugin(&["logs", &name, "--line", "58", "--lines", "2"]).await?;
    ensure!(lines.text() == "line 57\nline 58\n", "{lines:?}");
    let run = scene.finished(name.trim_start_matches("trun/")).await?;
    ensure!(run.status.as_ref().and_then(|s| s.exit_code) == Some(4), "{run:?}");
    scene.end().await
}

#[tokio::test]
async fn a_reader_that_leaves_cancels_without_a_word() -> Result<()> {
    let scene = Scene::new("closed").await?;
    scene.container("box", scene.image, json!({})).await?;
    let mut child = scene.start_plugin(&["run", "ctr/box", "-q", "--", "yes"])?;
    let (line, stdout) = first_line(&mut child).await?;
    ensure!(line == "y\n", "{line:?}");
    drop(stdout);
    let ran = ended(child.wait_with_output().await?)?;
    ensure!(ran.code == Some(130) && ran.stderr.is_empty(), "{ran:?}");
    ensure!(outcome(&scene.finished(&the_run(&scene).await?).await?) == "Cancelled");
    scene.end().await
}

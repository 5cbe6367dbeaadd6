//! The plugin against a real API server without nodes. The test writes the statuses that a controller would.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail them")]

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use drydock_cluster::{Cluster, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// `printf 'hi\n' | sha256sum`.
const HI: &str = "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4";
/// Longest wait for anything here.
const WAIT: Duration = Duration::from_secs(30);

const OBJECTS: &str = r#"
apiVersion: drydock.dev/v1alpha1
kind: Workspace
metadata: {name: shop}
spec: {source: {git: {url: "https://git.example/shop.git"}}}
---
apiVersion: drydock.dev/v1alpha1
kind: DevcontainerInstance
metadata: {name: shop-services-api}
spec: {workspaceRef: {name: shop}, configPath: services/api/.devcontainer/devcontainer.json}
---
apiVersion: drydock.dev/v1alpha1
kind: Project
metadata: {name: proj}
spec: {host: {policy: Forbidden}, resources: [{kind: Workspace, name: shop}]}
---
apiVersion: drydock.dev/v1alpha1
kind: ExecutionEnvironment
metadata: {name: over}
spec: {scope: {projectRef: {name: proj}}, priority: Override, target: {devcontainerInstanceRef: {name: gone}}}
"#;

/// A cluster with the definitions, and the plugin's binary.
struct Bench {
    cluster: Cluster,
    plugin: PathBuf,
}

impl Bench {
    async fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let built = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--package",
                "kubectl-drydock",
                "--message-format",
                "json-render-diagnostics",
            ])
            .current_dir(root)
            .output()
            .await
            .unwrap();
        let lines = String::from_utf8(built.stdout).unwrap();
        let messages = lines.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
        let plugin =
            messages.filter_map(|m| m["executable"].as_str().map(PathBuf::from)).next_back().unwrap();
        let cluster = Cluster::start(Options::api(format!("plugin-{}", std::process::id()))).await.unwrap();
        cluster.kubectl(&["apply", "-f", root.join("crds").to_str().unwrap()]).await.unwrap();
        cluster
            .kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"])
            .await
            .unwrap();
        cluster.apply(OBJECTS).await.unwrap();
        let found = json!({"status": {"devcontainers": [{
            "name": "shop-services-api", "directory": "services/api",
            "configPath": "services/api/.devcontainer/devcontainer.json"
        }]}});
        let bench = Self { cluster, plugin };
        bench.patch_status("ws/shop", &found).await;
        bench
    }

    fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(&self.plugin);
        command
            .arg("--kubeconfig")
            .arg(self.cluster.kubeconfig())
            .args(line)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn plugin(&self, line: &[&str]) -> Output {
        tokio::time::timeout(WAIT, self.command(line).output()).await.expect("ends").unwrap()
    }

    async fn patch_status(&self, object: &str, patch: &Value) {
        let patch = patch.to_string();
        let line = ["patch", object, "--subresource=status", "--type=merge", "-p", &patch];
        self.cluster.kubectl(&line).await.unwrap();
    }

    /// The run that has this description, once it is there.
    async fn run_called(&self, description: &str) -> Value {
        let find = async {
            loop {
                let list = self.cluster.kubectl(&["get", "trun", "-o", "json"]).await.unwrap();
                let list: Value = serde_json::from_str(&list).unwrap();
                let runs = list["items"].as_array().unwrap();
                if let Some(run) = runs.iter().find(|r| r["spec"]["description"] == description) {
                    return run.clone();
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(WAIT, find).await.expect("created")
    }

    /// Ends the run with this status, and gives what the plugin did.
    async fn end(&self, description: &str, child: Child, status: Value) -> Output {
        let run = self.run_called(description).await;
        let name = format!("trun/{}", run["metadata"]["name"].as_str().unwrap());
        self.patch_status(&name, &json!({"status": status})).await;
        tokio::time::timeout(WAIT, child.wait_with_output()).await.expect("ends").unwrap()
    }
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn condition(reason: &str, message: &str) -> Value {
    json!([{"type": "Succeeded", "status": "False", "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"}])
}

#[tokio::test]
async fn the_plugin_on_a_real_api_server() {
    let bench = Bench::start().await;
    explain(&bench).await;
    run_to_its_end(&bench).await;
    run_that_has_no_environment(&bench).await;
    run_that_is_left(&bench).await;
    interrupted_run(&bench).await;
    missing_rights(&bench).await;
    bench.cluster.stop().await.unwrap();
}

async fn explain(bench: &Bench) {
    let output = bench.plugin(&["explain", "ws/shop/services/api/main.py", "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let value: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(value["rule"], "NearestDevcontainer");
    assert_eq!(value["target"]["name"], "shop-services-api");
    assert!(value["target"]["uid"].is_string(), "{value}");
    assert!(stderr(&output).contains("no ConfigMap drydock-status"), "{}", stderr(&output));

    let output = bench.plugin(&["explain", "dc/shop-services-api", "-q", "-o", "name"]).await;
    assert_eq!((stdout(&output), stderr(&output)), ("dc/shop-services-api\n", ""));

    let output = bench.plugin(&["explain", "ws/shop/docs", "--project", "proj"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("rule    ProjectOverride\n"), "{}", stdout(&output));
    assert!(
        stdout(&output).contains("DevcontainerInstance/gone, which doesn't exist"),
        "{}",
        stdout(&output)
    );

    let output = bench.plugin(&["explain", "ws/shpo"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        "error: ws/shpo isn't there, in namespace default\n  then  did you mean ws/shop?\n"
    );
    let runs = bench.cluster.kubectl(&["get", "trun", "-o", "name"]).await.unwrap();
    assert_eq!(runs, "", "explain writes nothing");
}

async fn run_to_its_end(bench: &Bench) {
    let words = ["-x", "a b", "$(id)", "--", "é"];
    let line = [&["run", "ws/shop", "--description", "whole", "--"][..], &words].concat();
    let child = bench.command(&line).spawn().unwrap();
    let run = bench.run_called("whole").await;
    assert_eq!(run["spec"]["command"], json!(words));
    let name = run["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("shop-"), "{name}");
    let status = json!({
        "outcome": "NonZeroExit", "exitCode": 3,
        "stdout": {"bytes": 3, "lines": 1, "truncated": false, "head": "hi\n", "sha256": HI},
        "stderr": {"bytes": 0, "lines": 0, "truncated": false}
    });
    let output = bench.end("whole", child, status).await;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(output.stdout, b"hi\n");

    let object = format!("trun/{name}");
    let output = bench.plugin(&["logs", &object]).await;
    assert_eq!(output.stdout, b"hi\n");
    assert_eq!(stderr(&output), "Full: all of stdout (3 bytes) is left\n");
    let output = bench.plugin(&["logs", &object, "--bytes", "1-1", "-q"]).await;
    assert_eq!(output.stdout, b"i");
    let output = bench.plugin(&["logs", "trun/nope"]).await;
    assert_eq!(output.status.code(), Some(1));
}

async fn run_that_has_no_environment(bench: &Bench) {
    let line = ["run", "ws/shop", "--description", "none", "-o", "json", "--", "x"];
    let child = bench.command(&line).spawn().unwrap();
    let status = json!({"outcome": "NoEnvironment", "conditions": condition("NoEnvironment", "no rule has an answer")});
    let output = bench.end("none", child, status).await;
    assert_eq!(output.status.code(), Some(125));
    let run: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(run["status"]["outcome"], "NoEnvironment");

    let child = bench.command(&["run", "ws/shop", "--description", "late", "--", "x"]).spawn().unwrap();
    let status = json!({"outcome": "TimedOut", "conditions": condition("TimedOut", "timed out after 120s")});
    let output = bench.end("late", child, status).await;
    assert_eq!(output.status.code(), Some(124));
    assert!(stderr(&output).contains(" was ended: TimedOut: timed out after 120s\n"), "{}", stderr(&output));
}

async fn run_that_is_left(bench: &Bench) {
    let output = bench.plugin(&["run", "ws/shop", "--detach", "--description", "left", "--", "x"]).await;
    let run = bench.run_called("left").await;
    assert_eq!(stdout(&output), format!("trun/{}\n", run["metadata"]["name"].as_str().unwrap()));
    let output = bench.plugin(&["run", "ws/shop", "--timeout", "1s", "--", "x"]).await;
    assert_eq!(output.status.code(), Some(124));
    assert!(stderr(&output).contains("the run goes on"), "{}", stderr(&output));
    assert!(stderr(&output).contains("waits for the controller"), "{}", stderr(&output));
    let output = bench.plugin(&["run", "ws/shop", "--nope"]).await;
    assert_eq!(output.status.code(), Some(125), "usage");
}

async fn interrupted_run(bench: &Bench) {
    let mut child =
        bench.command(&["run", "ws/shop", "--description", "stopped", "--", "x"]).spawn().unwrap();
    let run = bench.run_called("stopped").await;
    let object = format!("trun/{}", run["metadata"]["name"].as_str().unwrap());
    // It waits, and says so: from then on it listens to the signal.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.next_line().await.unwrap().unwrap().contains("waits for the controller"));
    let pid = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().await.unwrap().success());
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "cancelling; Ctrl-C again leaves at once");
    bench
        .cluster
        .kubectl(&["wait", &object, "--for=jsonpath={.spec.cancel}=true", "--timeout=30s"])
        .await
        .unwrap();
    let output = bench.end("stopped", child, json!({"outcome": "Cancelled"})).await;
    assert_eq!(output.status.code(), Some(130));
}

async fn missing_rights(bench: &Bench) {
    let output = bench.plugin(&["run", "ws/shop", "--as", "nobody", "--", "x"]).await;
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).starts_with("error: no right to create toolruns in namespace default\n"),
        "{}",
        stderr(&output)
    );
    let output = bench.plugin(&["explain", "ws/shop", "--as", "nobody", "-o", "json"]).await;
    let value: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!((output.status.code(), &value["error"]["reason"]), (Some(1), &json!("Forbidden")));
}

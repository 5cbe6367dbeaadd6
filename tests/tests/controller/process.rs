//! The program itself: elected, told to stop, killed, badly configured.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use drydock_crds::{Workspace, label};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::harness::{Server, eventually, root};

/// Builds a program of the workspace, if it isn't built, and tells where it is.
pub(crate) fn program(name: &str) -> PathBuf {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", name, "--bin", name])
        .current_dir(root())
        .status()
        .unwrap();
    assert!(built.success(), "{name} can't be built");
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().parent().unwrap().join(name)
}

/// A controller in a process of its own; killed when dropped.
struct Process {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
}

impl Process {
    fn start(server: &Server, config: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config).unwrap();
        // It is read once a moment later: the folder lives as long as the process.
        let file = folder.keep().join("config.yaml");
        let mut child = Command::new(program("drydock-controller"))
            .arg("run")
            .arg("--config")
            .arg(file)
            .args(["--agent-image", "agent", "--namespace", "default"])
            .args(["--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"])
            .args(arguments)
            .env("KUBECONFIG", server.cluster.kubeconfig())
            .env_remove("DRYDOCK_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (lines, stderr) = (log.clone(), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        Self { child, log }
    }

    async fn said(&self, text: &str) -> String {
        eventually(text, || async { self.log.lock().unwrap().iter().find(|l| l.contains(text)).cloned() })
            .await
    }

    fn has_said(&self, text: &str) -> bool {
        self.log.lock().unwrap().iter().any(|l| l.contains(text))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    async fn ended(&mut self) -> i32 {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < end, "it doesn't end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CONFIG: &str = "apiVersion: drydock.dev/config/v1alpha1\n";
const LEADS: &str = "this controller leads";

fn epoch(line: &str) -> u64 {
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    json["epoch"].as_u64().unwrap()
}

#[tokio::test]
async fn one_of_two_leads_and_the_other_takes_over_at_once_when_told_and_in_time_when_not() {
    let server = Server::start("lease").await;
    let mut first = Process::start(&server, CONFIG, &["--instance", "first"]);
    let one = epoch(&first.said(LEADS).await);
    let second = Process::start(&server, CONFIG, &["--instance", "second"]);
    // It is a candidate by now: it has made the authority's client, listed everything, and seen the lease.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!second.has_said(LEADS));

    first.signal(Signal::SIGTERM);
    let told = Instant::now();
    assert_eq!(first.ended().await, 0);
    assert!(told.elapsed() < Duration::from_secs(10));
    let two = epoch(&second.said(LEADS).await);
    println!("given back: the other led after {:?}", told.elapsed());
    assert!(told.elapsed() < Duration::from_secs(6), "{:?}", told.elapsed());
    assert!(two > one, "the epoch rises: {one} {two}");

    let third = Process::start(&server, CONFIG, &["--instance", "third"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    second.signal(Signal::SIGKILL);
    let killed = Instant::now();
    let three = epoch(&third.said(LEADS).await);
    println!("killed: the other led after {:?}", killed.elapsed());
    assert!(killed.elapsed() > Duration::from_secs(8), "not before the lease expired");
    assert!(three > two);

    let secrets: Api<Secret> = Api::namespaced(server.client.clone(), "default");
    assert!(secrets.get("drydock-client-ca").await.unwrap().data.unwrap().contains_key("ca.key"));
    let status: Api<ConfigMap> = Api::namespaced(server.client.clone(), "default");
    let status = eventually("the status", || async { status.get_opt("drydock-status").await.unwrap() }).await;
    assert_eq!(status.data.unwrap()["environments.enabled"], "true");
}

#[tokio::test]
async fn a_leader_whose_lease_is_taken_ends() {
    let server = Server::start("taken-lease").await;
    let mut process = Process::start(&server, CONFIG, &[]);
    process.said(LEADS).await;
    let leases: Api<Lease> = Api::namespaced(server.client.clone(), "default");
    let patch = Patch::Merge(json!({"spec": {"holderIdentity": "somebody-else"}}));
    leases.patch("drydock-controller", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(process.ended().await, 1);
    assert!(process.has_said("another controller leads"));
}

#[tokio::test]
async fn a_bad_configuration_stops_the_start_and_names_every_bad_entry() {
    let server = Server::start("config").await;
    let config = format!("{CONFIG}runs: {{timeout: 48h, ttl: x}}\nsources: {{allowedRegistries: [a]}}\n");
    let mut process = Process::start(&server, &config, &[]);
    assert_eq!(process.ended().await, 1);
    let line = process.said("bad entries").await;
    assert!(line.contains("runs.ttl"), "{line}");
    let config = format!("{CONFIG}runs: {{timeout: 48h}}\nsources: {{allowedRegistries: [a]}}\n");
    let mut process = Process::start(&server, &config, &[]);
    assert_eq!(process.ended().await, 1);
    let line = process.said("bad entries").await;
    assert!(line.contains("runs.timeout") && line.contains("sources.allowedRegistries"), "{line}");
}

#[tokio::test]
async fn finalizers_are_taken_off_and_others_left() {
    let server = Server::start("release").await;
    let manifest = format!(
        "apiVersion: drydock.dev/v1alpha1\nkind: Workspace\nmetadata: {{name: shop, namespace: team, finalizers: [{}, example.org/other]}}\nspec: {{source: {{git: {{url: 'https://example.org/x.git'}}}}}}\n",
        label::WORKSPACE_FINALIZER
    );
    server.cluster.apply(&manifest).await.unwrap();
    let api: Api<Workspace> = server.api();
    api.delete("shop", &DeleteParams::default()).await.unwrap();
    for _ in 0..2 {
        let status = Command::new(program("drydock-controller"))
            .args(["release-finalizers", "--deployment", "gone", "--selector", "a=b"])
            .env("KUBECONFIG", server.cluster.kubeconfig())
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(api.get("shop").await.unwrap().finalizers(), ["example.org/other"]);
    }
}

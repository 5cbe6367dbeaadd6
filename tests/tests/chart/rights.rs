//! The rights that the chart grants are those that the controller uses: the real program runs as its service account against a real API
//! server, and is refused nothing.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use drydock_cluster::{Cluster, Options};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::NAMESPACE;
use super::helm::Helm;

/// How long the controller may take until it has done what a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The controller's program, built where cargo puts it.
async fn program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(root).args([
        "build",
        "--quiet",
        "--locked",
        "--package",
        "drydock-controller",
        "--message-format=json",
    ]);
    let output = build.stderr(Stdio::inherit()).output().await.unwrap();
    assert!(output.status.success(), "the controller doesn't build");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == "drydock-controller")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo names the program")
}

/// A kubeconfig of the cluster that acts as a service account of the release.
fn kubeconfig_of(cluster: &Cluster, account: &str, folder: &Path) -> PathBuf {
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let mut config: Value = serde_saphyr::from_str(&text).unwrap();
    config["users"][0]["user"]["as"] = json!(format!("system:serviceaccount:{NAMESPACE}:{account}"));
    let path = folder.join(format!("{account}.json"));
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// The release as it is installed, with what only an uninstall makes, and a Workspace.
async fn installed(name: &str, values: &str) -> (Cluster, Vec<Value>) {
    let helm = Helm::build().await;
    let cluster = Cluster::start(Options::api(format!("{name}-{}", std::process::id()))).await.unwrap();
    for namespace in [NAMESPACE, "team-a", "team-b"] {
        cluster.kubectl(&["create", "namespace", namespace]).await.unwrap();
    }
    let mut objects = helm.template(r#"{}"#).await;
    objects.retain(|object| object["kind"] == "CustomResourceDefinition");
    objects
        .extend(helm.template(values).await.into_iter().filter(|o| o["kind"] != "CustomResourceDefinition"));
    for object in objects.iter().filter(|object| object["kind"] != "Job") {
        cluster.apply(&object.to_string()).await.unwrap();
    }
    let wait = ["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"];
    cluster.kubectl(&wait).await.unwrap();
    (cluster, objects)
}

async fn workspace(cluster: &Cluster, finalizers: &[&str]) {
    let object = json!({
        "apiVersion": "drydock.dev/v1alpha1", "kind": "Workspace",
        "metadata": {"name": "shop", "namespace": "team-a", "finalizers": finalizers},
        "spec": {"source": {"git": {"url": "http://127.0.0.1:1/shop.git"}}},
    });
    cluster.apply(&object.to_string()).await.unwrap();
}

/// A controller with its log in a file; it ends with this value.
struct Running {
    log: PathBuf,
    _child: Child,
}

impl Running {
    async fn start(cluster: &Cluster, account: &str, folder: &Path, scope: &[&str]) -> Self {
        let config = folder.join("config.yaml");
        std::fs::write(&config, "apiVersion: drydock.dev/config/v1alpha1\n").unwrap();
        let log = folder.join("log");
        let child = Command::new(program().await)
            .args([
                "run",
                "--agent-image=example.com/agent:1",
                "--health-address=127.0.0.1:0",
                "--metrics-address=127.0.0.1:0",
            ])
            .arg("--config")
            .arg(&config)
            .args(scope)
            .env("KUBECONFIG", kubeconfig_of(cluster, account, folder))
            .env("POD_NAMESPACE", NAMESPACE)
            .env("POD_NAME", "controller-under-test")
            .env("DRYDOCK_LOG", "info")
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&log).unwrap())
            .stderr(std::fs::File::options().append(true).open(&log).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { log, _child: child }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until `kubectl ARGUMENTS` prints something that `wanted` takes.
    async fn until(&self, cluster: &Cluster, arguments: &[&str], wanted: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let printed = cluster.kubectl(arguments).await.unwrap_or_default();
            if wanted(&printed) {
                return;
            }
            assert!(Instant::now() < end, "{arguments:?}: {printed}; the controller's log: {}", self.log());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn was_refused_nothing(&self) {
        let log = self.log();
        let refused: Vec<&str> =
            log.lines().filter(|l| l.contains("forbidden") || l.contains("Forbidden")).collect();
        assert!(refused.is_empty(), "{}", refused.join("\n"));
    }
}

/// The Workspace's status is written, a checkout pod and a claim are made, the lease and what it keeps for itself are there.
async fn works(cluster: &Cluster, controller: &Running) {
    let seen = ["get", "workspace", "shop", "-n", "team-a", "-o", "jsonpath={.status.observedGeneration}"];
    controller.until(cluster, &seen, |printed| printed == "1").await;
    let made = ["get", "pods,pvc", "-n", "team-a", "-o", "name"];
    controller
        .until(cluster, &made, |printed| {
            printed.contains("pod/") && printed.contains("persistentvolumeclaim/")
        })
        .await;
    let own = ["get", "lease,secret,configmap", "-n", NAMESPACE, "-o", "name"];
    controller
        .until(cluster, &own, |printed| {
            [
                "lease.coordination.k8s.io/drydock-controller",
                "secret/drydock-client-ca",
                "configmap/drydock-status",
            ]
            .iter()
            .all(|name| printed.contains(name))
        })
        .await;
    controller.was_refused_nothing();
}

#[tokio::test]
async fn the_controller_is_refused_nothing() {
    let (cluster, _) = installed("rights", "{}").await;
    workspace(&cluster, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let controller = Running::start(&cluster, "drydock-controller", folder.path(), &[]).await;
    works(&cluster, &controller).await;
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn the_controller_is_refused_nothing_in_its_namespaces() {
    let (cluster, _) = installed("scoped", super::matrix::NAMESPACED_ONLY).await;
    workspace(&cluster, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let scope = ["--watch-namespace=team-a", "--watch-namespace=team-b"];
    let controller = Running::start(&cluster, "drydock-controller", folder.path(), &scope).await;
    works(&cluster, &controller).await;
    cluster.stop().await.unwrap();
}

/// What the job of the pre-delete hook does, with its arguments and its rights.
#[tokio::test]
async fn the_uninstall_takes_finalizers_off() {
    let (cluster, objects) = installed("uninstall", "{}").await;
    workspace(&cluster, &["drydock.dev/workspace", "example.com/others"]).await;
    let job = objects.iter().find(|object| object["kind"] == "Job").unwrap();
    let arguments: Vec<&str> = job["spec"]["template"]["spec"]["containers"][0]["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|argument| argument.as_str().unwrap())
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program().await)
        .args(&arguments)
        .env("KUBECONFIG", kubeconfig_of(&cluster, "drydock-uninstall", folder.path()))
        .env("POD_NAMESPACE", NAMESPACE)
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let log = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{log}");
    let left = ["get", "workspace", "shop", "-n", "team-a", "-o", "jsonpath={.metadata.finalizers}"];
    assert_eq!(cluster.kubectl(&left).await.unwrap(), r#"["example.com/others"]"#);
    let replicas =
        ["get", "deployment", "drydock-controller", "-n", NAMESPACE, "-o", "jsonpath={.spec.replicas}"];
    assert_eq!(cluster.kubectl(&replicas).await.unwrap(), "0");
    cluster.stop().await.unwrap();
}

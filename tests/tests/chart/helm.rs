//! The built `helm`, with folders of its own.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use drydock_cluster::{Cluster, tools};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

pub(crate) struct Helm {
    program: PathBuf,
    chart: String,
    home: TempDir,
}

impl Helm {
    pub(crate) async fn build() -> Self {
        tools::build(&[tools::HELM]).await.unwrap();
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/drydock").canonicalize().unwrap();
        Self {
            program: tools::HELM.path().unwrap(),
            chart: chart.to_str().unwrap().to_owned(),
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// The chart's folder.
    pub(crate) fn chart(&self) -> &str {
        &self.chart
    }

    /// `helm lint --strict` with `values` (JSON).
    pub(crate) async fn lint(&self, values: &str) {
        let file = self.values(values);
        let output = self.run(&["lint", "--strict", &self.chart, "--values", &file], None).await;
        assert!(output.status.success(), "{values}: {}", text(&output));
    }

    /// The text that `helm template` renders with `values` (JSON), hooks too.
    pub(crate) async fn text(&self, values: &str) -> String {
        let output = self.render(values).await;
        assert!(output.status.success(), "{values}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The objects that `helm template` renders with `values` (JSON), hooks too.
    pub(crate) async fn template(&self, values: &str) -> Vec<Value> {
        let text = self.text(values).await;
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        documents.into_iter().filter(|document| !document.is_null()).collect()
    }

    /// What `helm template` says against `values` (JSON).
    pub(crate) async fn refusal(&self, values: &str) -> String {
        let output = self.render(values).await;
        assert!(!output.status.success(), "{values} is taken");
        text(&output)
    }

    /// `helm ARGUMENTS` against a cluster.
    pub(crate) async fn on(&self, cluster: &Cluster, arguments: &[&str]) {
        let output = self.run(arguments, Some(cluster.kubeconfig())).await;
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    }

    async fn render(&self, values: &str) -> Output {
        let file = self.values(values);
        let arguments =
            ["template", "drydock", &self.chart, "--namespace", super::NAMESPACE, "--values", &file];
        self.run(&arguments, None).await
    }

    fn values(&self, values: &str) -> String {
        let file = self.home.path().join("values.json");
        std::fs::write(&file, values).unwrap();
        file.to_str().unwrap().to_owned()
    }

    async fn run(&self, arguments: &[&str], kubeconfig: Option<&Path>) -> Output {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(folder, self.home.path().join(folder));
        }
        match kubeconfig {
            Some(kubeconfig) => command.env("KUBECONFIG", kubeconfig),
            None => command.env("KUBECONFIG", "/dev/null"),
        };
        command.output().await.unwrap()
    }
}

fn text(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}{}", String::from_utf8_lossy(&output.stderr))
}

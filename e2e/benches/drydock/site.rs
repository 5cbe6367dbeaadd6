//! Where it is measured: a cluster, Drydock in it, one dev container that runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use drydock_cluster::{Cluster, Options};
use drydock_crds::{DevcontainerInstance, ToolRun};
use drydock_e2e::{Drydock, Scene};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::client;
use crate::process::{Both, Processes};
use crate::watcher::Watcher;

/// The name of the workspace, and so of its dev container.
pub(crate) const NAME: &str = "bench";
/// How long a run is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Everything that measurements share.
pub(crate) struct Site {
    /// The namespace.
    pub(crate) scene: Scene,
    watcher: Watcher,
    next: AtomicU64,
}

impl Site {
    /// Brings up what isn't there: the cluster, the chart, the workspace, its environment.
    ///
    /// # Errors
    /// What fails first.
    pub(crate) async fn prepare() -> Result<Self> {
        let mut cluster = Cluster::from_environment(Options::node(NAME)).await?;
        cluster.keep()?;
        let image = cluster.image("deb").await?.tagged;
        let git = cluster.git_server().await?;
        let drydock = Drydock::install(&cluster, &[retained(20_000)]).await?;
        let client = client::of(&cluster).await?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"generateName": "bench-"}}))?;
        let namespace = namespaces.create(&PostParams::default(), &namespace).await?.name_any();
        let scene = Scene::of(drydock, git, image, client.clone(), namespace.clone());
        let configuration = json!({"image": scene.image}).to_string();
        scene.workspace(NAME, &[(".devcontainer/devcontainer.json", configuration.as_str())]).await?;
        let watcher = Watcher::start(client, &namespace).await?;
        let site = Self { scene, watcher, next: AtomicU64::new(1) };
        site.max_concurrent_runs(64).await?;
        // The environment starts with the first run, and what is done once is done with the next few.
        for _ in 0..5 {
            site.run().await?;
        }
        Ok(site)
    }

    /// One run of `true`, from now; answers the overhead: from the create to its final status seen, without the tool's own time.
    ///
    /// # Errors
    /// When it can't be created, or doesn't succeed in two minutes.
    pub(crate) async fn run(&self) -> Result<Duration> {
        self.run_from(Instant::now()).await.map(|(overhead, _)| overhead)
    }

    /// As [`Site::run`], counted from `begin`, when the run was due. Answers the run's name too.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn run_from(&self, begin: Instant) -> Result<(Duration, String)> {
        let name = format!("run-{:06}", self.next.fetch_add(1, Ordering::Relaxed));
        let ended = self.watcher.expect(&name);
        self.scene.create_run(&name, spec()).await?;
        let ended = timeout(PATIENCE, ended).await;
        let ended =
            ended.with_context(|| format!("{name} had no end in time"))?.context("the watch ended")?;
        ensure!(ended.outcome == "Succeeded", "{name} ended {}", ended.outcome);
        Ok((ended.at.duration_since(begin).saturating_sub(ended.tool), name))
    }

    /// Deletes a run.
    ///
    /// # Errors
    /// What the API server says.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        self.scene.api::<ToolRun>().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Sets how many runs the environment takes at once.
    ///
    /// # Errors
    /// What the API server says.
    pub(crate) async fn max_concurrent_runs(&self, places: usize) -> Result<()> {
        let spec = json!({"workspaceRef": {"name": NAME}, "maxConcurrentRuns": places});
        let object = json!({"kind": "DevcontainerInstance", "metadata": {"name": NAME}, "spec": spec});
        self.scene.apply(object).await.map(drop)
    }

    /// The pod of the environment.
    ///
    /// # Errors
    /// When it has none.
    pub(crate) async fn environment_pod(&self) -> Result<Pod> {
        let instance = self.scene.api::<DevcontainerInstance>().get(NAME).await?;
        let name = instance.status.and_then(|s| s.pod_name).context("the environment has no pod")?;
        Ok(self.scene.api::<Pod>().get(&name).await?)
    }

    /// The pod of the controller.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) async fn controller_pod(&self) -> Result<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.scene.client.clone(), drydock_e2e::drydock::NAMESPACE);
        let all = pods.list(&ListParams::default().labels("app.kubernetes.io/component=controller")).await?;
        let lives = |p: &Pod| p.metadata.deletion_timestamp.is_none();
        all.items.into_iter().find(lives).context("there is no controller")
    }

    /// Drydock's processes.
    ///
    /// # Errors
    /// When they aren't on this machine.
    pub(crate) async fn processes(&self) -> Result<Both> {
        Ok(Both {
            controller: Processes::of(&self.controller_pod().await?)?,
            agent: Processes::of(&self.environment_pod().await?)?,
        })
    }

    /// Deletes the namespace, without waiting for its end.
    ///
    /// # Errors
    /// What the API server says.
    pub(crate) async fn leave(self) -> Result<()> {
        self.scene.end().await
    }
}

/// The value of the chart that says how many finished runs are kept.
pub(crate) fn retained(runs: u32) -> (&'static str, &'static str) {
    let value = json!({"perEnvironment": runs, "perNamespace": runs}).to_string();
    ("config.runs.retained", Box::leak(value.into_boxed_str()))
}

fn spec() -> Value {
    json!({"workspaceRef": {"name": NAME}, "path": ".", "command": ["true"]})
}

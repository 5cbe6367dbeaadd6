//! A namespace of its own for each test, with what a test does in it. Waits are watches with a deadline; what is seen when one isn't met
//! is in the error.
//!
//! Tests share one installation ([`Scene::new`]). A test that breaks it, or needs other values of the chart, has it to itself
//! ([`Scene::alone`]); whoever comes next installs what it expects.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use drydock_cluster::{Cluster, GitServer, Options};
use drydock_crds::{ToolRun, Workspace};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, ObjectMeta};
use kube::discovery::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::wait::await_condition;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::Drydock;

/// The cluster of the tests, which `make e2e` starts and takes down; `DRYDOCK_E2E_CLUSTER` names another.
pub const CLUSTER: &str = "e2e";
/// The field manager of tests.
const MANAGER: &str = "e2e";

static DRYDOCK: OnceCell<Shared> = OnceCell::const_new();
/// The values of the chart that are installed, and whose turn it is.
static INSTALLED: RwLock<Option<Values>> = RwLock::const_new(None);

/// Values of the chart: paths with JSON.
pub type Values = Vec<(String, String)>;

struct Shared {
    drydock: Drydock,
    git: GitServer,
    image: String,
}

/// A test's own namespace.
pub struct Scene {
    /// Drydock as installed.
    pub drydock: &'static Drydock,
    /// The git server.
    pub git: &'static GitServer,
    /// An image with a shell, python3, git and a user `dev`, as pods name it.
    pub image: &'static str,
    /// A client with all rights.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
    _turn: Turn,
}

/// Held while a test goes on.
enum Turn {
    Shared(#[expect(dead_code, reason = "its end is what counts")] RwLockReadGuard<'static, Option<Values>>),
    Alone(#[expect(dead_code, reason = "its end is what counts")] RwLockWriteGuard<'static, Option<Values>>),
    /// The installation is the caller's own.
    Own,
}

/// The cluster of the tests.
///
/// # Errors
/// When it can't be started.
pub async fn cluster() -> Result<Cluster> {
    let name = std::env::var("DRYDOCK_E2E_CLUSTER").unwrap_or_else(|_| CLUSTER.to_owned());
    let mut cluster = Cluster::from_environment(Options::node(name)).await?;
    // It serves every test of the process and goes with `make e2e`, not with the first value that is dropped.
    cluster.keep()?;
    Ok(cluster)
}

async fn shared() -> Result<&'static Shared> {
    DRYDOCK
        .get_or_try_init(|| async {
            let cluster = cluster().await?;
            let image = cluster.image("deb").await?.tagged;
            let git = cluster.git_server().await?;
            let drydock = Drydock::load(&cluster).await?;
            anyhow::Ok(Shared { drydock, git, image })
        })
        .await
}

impl Scene {
    /// A new namespace whose name begins with `name`.
    ///
    /// # Errors
    /// When the cluster or Drydock can't be brought up, which is done once a process.
    pub async fn new(name: &str) -> Result<Self> {
        let shared = shared().await?;
        let turn = INSTALLED.read().await;
        if turn.as_ref().is_some_and(Vec::is_empty) {
            return Self::begin(shared, fresh(name), Turn::Shared(turn)).await;
        }
        drop(turn);
        let mut turn = INSTALLED.write().await;
        install(&mut turn, shared, Values::new()).await?;
        Self::begin(shared, fresh(name), Turn::Shared(turn.downgrade())).await
    }

    /// The same with the installation to itself, made with further values of the chart for the namespace.
    ///
    /// # Errors
    /// When the cluster or Drydock can't be brought up.
    pub async fn alone(name: &str, values: impl FnOnce(&str) -> Values) -> Result<Self> {
        let shared = shared().await?;
        let namespace = fresh(name);
        let values = values(&namespace);
        let mut turn = INSTALLED.write().await;
        // Installed once the namespace is there, since roles may have to be in it.
        let client = shared.drydock.client().await?;
        create_namespace(&client, &namespace).await?;
        install(&mut turn, shared, values).await?;
        // What such a test leaves behind is nobody's business.
        *turn = None;
        Ok(Self::on(shared, client, namespace, Turn::Alone(turn)))
    }

    /// One more namespace, which isn't deleted with the scene's own.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn other_namespace(&self, name: &str) -> Result<String> {
        let name = fresh(name);
        create_namespace(&self.client, &name).await?;
        Ok(name)
    }

    async fn begin(shared: &'static Shared, namespace: String, turn: Turn) -> Result<Self> {
        let client = shared.drydock.client().await?;
        create_namespace(&client, &namespace).await?;
        Ok(Self::on(shared, client, namespace, turn))
    }

    /// A namespace on an installation of the caller's own.
    #[must_use]
    pub fn of(drydock: Drydock, git: GitServer, image: String, client: Client, namespace: String) -> Self {
        let shared = Box::leak(Box::new(Shared { drydock, git, image }));
        Self::on(shared, client, namespace, Turn::Own)
    }

    fn on(shared: &'static Shared, client: Client, namespace: String, turn: Turn) -> Self {
        let Shared { drydock, git, image } = shared;
        Self { drydock, git, image, client, namespace, _turn: turn }
    }

    /// The objects of a kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies an object as a user does; `apiVersion` may be left out for kinds of ours.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn apply(&self, object: Value) -> Result<DynamicObject> {
        self.apply_in(&self.namespace, object).await
    }

    /// The same in another namespace.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn apply_in(&self, namespace: &str, mut object: Value) -> Result<DynamicObject> {
        if object.get("apiVersion").is_none() {
            object["apiVersion"] = format!("{}/{}", drydock_crds::GROUP, drydock_crds::VERSION).into();
        }
        let (group_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let gvk = kube::core::GroupVersionKind::gvk(group, version, kind);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &ApiResource::from_gvk(&gvk));
        let name = text(&object["metadata"]["name"]).to_owned();
        let applied = api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await;
        applied.with_context(|| format!("{kind} {name} can't be applied"))
    }

    /// Pushes `files` as the one commit of a repository of this namespace, and answers its URL as pods see it.
    ///
    /// # Errors
    /// When the push fails.
    pub async fn repository(&self, name: &str, files: &[(&str, &str)]) -> Result<String> {
        let folder = tempfile::tempdir()?;
        for (path, text) in files {
            let target = folder.path().join(path);
            std::fs::create_dir_all(target.parent().unwrap_or(Path::new("/")))?;
            std::fs::write(target, text)?;
        }
        let repository = format!("{}-{name}.git", self.namespace);
        self.git.push_folder(&repository, folder.path()).await?;
        Ok(format!("{}/{repository}", self.git.url))
    }

    /// A Workspace of a new repository with these files, Ready.
    ///
    /// # Errors
    /// When it doesn't become Ready within two minutes.
    pub async fn workspace(&self, name: &str, files: &[(&str, &str)]) -> Result<Workspace> {
        let url = self.repository(name, files).await?;
        let spec = json!({"source": {"git": {"url": url}}, "storage": {"size": "100Mi"}});
        self.apply(json!({"kind": "Workspace", "metadata": {"name": name}, "spec": spec})).await?;
        self.wait(name, 120, |w: &Workspace| condition(w.status.as_ref().map(|s| &s.conditions[..]), "Ready"))
            .await
    }

    /// A Workspace with one dev container of the standard image at its root, which has the Workspace's name.
    ///
    /// # Errors
    /// When it doesn't become Ready within two minutes.
    pub async fn devcontainer(&self, name: &str) -> Result<Workspace> {
        let definition = json!({"image": self.image, "remoteUser": "dev"}).to_string();
        self.workspace(name, &[(".devcontainer/devcontainer.json", &definition), ("README.md", "A tree.\n")])
            .await
    }

    /// Waits until an object is as `holds` says.
    ///
    /// # Errors
    /// When that doesn't come within `seconds`, with the object as it is.
    pub async fn wait<K>(&self, name: &str, seconds: u64, holds: impl Fn(&K) -> bool) -> Result<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Send
            + DeserializeOwned
            + serde::Serialize
            + 'static,
    {
        let met =
            await_condition(self.api::<K>(), name, move |object: Option<&K>| object.is_some_and(&holds));
        match tokio::time::timeout(Duration::from_secs(seconds), met).await {
            Ok(found) => found?.ok_or_else(|| anyhow!("{name} is gone")),
            Err(_) => {
                let now = self.api::<K>().get_opt(name).await?;
                let shown = now
                    .map(|o| serde_json::to_string_pretty(&o))
                    .transpose()?
                    .unwrap_or_else(|| "nothing".into());
                Err(anyhow!("{} {name} isn't as expected after {seconds} s: {shown}", K::kind(&())))
            }
        }
    }

    /// Waits until an object is gone.
    ///
    /// # Errors
    /// When it isn't within `seconds`.
    pub async fn gone<K>(&self, name: &str, seconds: u64) -> Result<()>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Send
            + DeserializeOwned
            + 'static,
    {
        let met = await_condition(self.api::<K>(), name, |object: Option<&K>| object.is_none());
        let waited = tokio::time::timeout(Duration::from_secs(seconds), met).await;
        waited.map_err(|_| anyhow!("{} {name} is still there after {seconds} s", K::kind(&())))??;
        Ok(())
    }

    /// Waits until there is an environment pod, and answers the names of all.
    ///
    /// # Errors
    /// When there is none within `seconds`.
    pub async fn environment_pods(&self, seconds: u64) -> Result<Vec<String>> {
        let selected = watcher::Config::default().labels("drydock.dev/role=environment");
        let mut pods = std::pin::pin!(watcher(self.api::<Pod>(), selected).applied_objects());
        let first = tokio::time::timeout(Duration::from_secs(seconds), pods.try_next()).await;
        first.map_err(|_| anyhow!("no environment pod after {seconds} s"))??;
        let selected = ListParams::default().labels("drydock.dev/role=environment");
        let all = self.api::<Pod>().list(&selected).await?.items;
        Ok(all.into_iter().filter_map(|pod| pod.metadata.name).collect())
    }

    /// Creates a ToolRun.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn create_run(&self, name: &str, spec: Value) -> Result<ToolRun> {
        let run: ToolRun = serde_json::from_value(json!({
            "apiVersion": "drydock.dev/v1alpha1", "kind": "ToolRun", "metadata": {"name": name}, "spec": spec,
        }))?;
        Ok(self.api::<ToolRun>().create(&PostParams::default(), &run).await?)
    }

    /// Creates a ToolRun and waits for its outcome.
    ///
    /// # Errors
    /// When it has none after two minutes.
    pub async fn run(&self, name: &str, spec: Value) -> Result<ToolRun> {
        self.create_run(name, spec).await?;
        self.finished(name).await
    }

    /// The same with a name of its own, so that many can be awaited at once.
    ///
    /// # Errors
    /// When it has none after two minutes.
    pub async fn run_owned(&self, name: String, spec: Value) -> Result<ToolRun> {
        self.run(&name, spec).await
    }

    /// Waits for a run's outcome.
    ///
    /// # Errors
    /// When it has none after two minutes.
    pub async fn finished(&self, name: &str) -> Result<ToolRun> {
        self.wait(name, 120, |r: &ToolRun| r.status.as_ref().is_some_and(|s| s.outcome.is_some())).await
    }

    /// Deletes the namespace, without waiting for its end.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn end(self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client);
        namespaces.delete(&self.namespace, &DeleteParams::background()).await?;
        Ok(())
    }
}

async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
    Ok(())
}

async fn install(installed: &mut Option<Values>, shared: &Shared, values: Values) -> Result<()> {
    if installed.as_ref() == Some(&values) {
        return Ok(());
    }
    *installed = None;
    let set: Vec<(&str, &str)> = values.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    shared.drydock.upgrade(&set).await?;
    *installed = Some(values);
    Ok(())
}

/// A name that no other run of the tests has.
fn fresh(name: &str) -> String {
    format!("{name}-{:x}", jiff::Timestamp::now().as_millisecond() & 0xff_ffff_ffff)
}

/// Whether a condition is True.
#[must_use]
pub fn condition(
    conditions: Option<&[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition]>,
    type_: &str,
) -> bool {
    conditions.is_some_and(|c| c.iter().any(|c| c.type_ == type_ && c.status == "True"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

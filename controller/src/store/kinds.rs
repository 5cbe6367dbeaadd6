//! The kinds that have a store: what is stripped of them and what they are looked up by.

use drydock_crds::label;
use drydock_crds::{
    ContainerInstance, DevcontainerInstance, ExecutionEnvironment, InstanceSpec, Plan, Project, Snapshot,
    Tool, ToolRun, Workspace,
};
use k8s_openapi::api::core::v1::{ConfigMap, Container, PersistentVolumeClaim, Pod, PodSpec};
use kube::ResourceExt;
use kube::core::ApiResource;
use serde_json::Value;

use super::index::{self, IndexKey, Keys, name};
use super::{Health, Scope, Store, Stored};

/// Everything that is managed by Drydock has this label; nothing else of the built-in kinds is looked at.
const MANAGED: Option<&str> = Some("app.kubernetes.io/managed-by=drydock");
/// An annotation that repeats the whole object and that nobody reads here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All stores.
#[derive(Default)]
pub struct Stores {
    /// Workspaces.
    pub workspaces: Store<Workspace>,
    /// Instances of configurations.
    pub devcontainer_instances: Store<DevcontainerInstance>,
    /// Instances of images.
    pub container_instances: Store<ContainerInstance>,
    /// Execution environments.
    pub execution_environments: Store<ExecutionEnvironment>,
    /// Projects.
    pub projects: Store<Project>,
    /// Plans.
    pub plans: Store<Plan>,
    /// Tools.
    pub tools: Store<Tool>,
    /// Tool runs.
    pub tool_runs: Store<ToolRun>,
    /// Snapshots.
    pub snapshots: Store<Snapshot>,
    /// Pods that Drydock made.
    pub pods: Store<Pod>,
    /// ConfigMaps that Drydock made.
    pub config_maps: Store<ConfigMap>,
    /// All claims.
    pub claims: Store<PersistentVolumeClaim>,
    /// Which namespaces the stores cover.
    pub scope: Scope,
}

/// Calls a macro with the field and the kind of each store.
macro_rules! each_store {
    ($stores:expr, $do:ident) => {{
        let stores = $stores;
        // Some callers name the kind alone.
        let _ = &stores;
        $do!(stores.workspaces, Workspace);
        $do!(stores.devcontainer_instances, DevcontainerInstance);
        $do!(stores.container_instances, ContainerInstance);
        $do!(stores.execution_environments, ExecutionEnvironment);
        $do!(stores.projects, Project);
        $do!(stores.plans, Plan);
        $do!(stores.tools, Tool);
        $do!(stores.tool_runs, ToolRun);
        $do!(stores.snapshots, Snapshot);
        $do!(stores.pods, Pod);
        $do!(stores.config_maps, ConfigMap);
        $do!(stores.claims, PersistentVolumeClaim);
    }};
}

impl Stores {
    /// Empty stores for these namespaces.
    pub fn new(scope: Scope) -> Self {
        Self { scope, ..Self::default() }
    }

    /// Whether every store has its first list.
    pub fn are_ready(&self) -> bool {
        self.health().iter().all(|(_, health)| health.is_listed())
    }

    /// Waits until every store has its first list.
    pub async fn wait_ready(&self) {
        macro_rules! wait {
            ($store:expr, $kind:ty) => {
                $store.wait_ready().await
            };
        }
        each_store!(self, wait);
    }

    /// How each informer fares, by kind.
    pub fn health(&self) -> Vec<(&'static str, &Health)> {
        let mut all = Vec::new();
        macro_rules! health {
            ($store:expr, $kind:ty) => {
                all.push((stringify!($kind), $store.health()))
            };
        }
        each_store!(self, health);
        all
    }

    /// How many objects each store has, by kind.
    pub fn sizes(&self) -> Vec<(&'static str, usize)> {
        let mut all = Vec::new();
        macro_rules! size {
            ($store:expr, $kind:ty) => {
                all.push((stringify!($kind), $store.len()))
            };
        }
        each_store!(self, size);
        all
    }

    /// Starts one informer a kind and namespace. They run until `tasks` is aborted; they never end by themselves.
    pub fn start(self: &std::sync::Arc<Self>, client: &kube::Client, tasks: &mut tokio::task::JoinSet<()>) {
        macro_rules! start {
            ($store:expr, $kind:ty) => {
                super::informer::start::<$kind>(self, client, tasks)
            };
        }
        each_store!(self, start);
    }

    /// Takes what a write returned, if its kind has a store that would see it.
    pub fn absorb(&self, resource: &ApiResource, json: &Value) {
        macro_rules! absorb {
            ($store:expr, $kind:ty) => {
                if is_kind::<$kind>(resource) {
                    absorb_into::<$kind>(self, json);
                }
            };
        }
        each_store!(self, absorb);
    }

    /// Takes out what a deletion removed at once.
    pub fn forget(&self, resource: &ApiResource, reference: &super::ObjectRef, uid: &str) {
        macro_rules! forget {
            ($store:expr, $kind:ty) => {
                if is_kind::<$kind>(resource) {
                    $store.forget(reference, uid);
                }
            };
        }
        each_store!(self, forget);
    }
}

fn is_kind<K: Stored>(resource: &ApiResource) -> bool {
    K::kind(&()) == resource.kind && K::group(&()) == resource.group
}

fn absorb_into<K: Stored>(stores: &Stores, json: &Value) {
    let object = match K::deserialize(json) {
        Ok(object) => object,
        Err(error) => {
            tracing::warn!(kind = %K::kind(&()), %error, "an answer of the API server isn't what its kind says");
            return;
        }
    };
    let managed = object.labels().get(label::MANAGED_BY).map(String::as_str) == Some(label::MANAGER);
    let seen = stores.scope.covers(object.namespace().as_deref().unwrap_or_default());
    if seen && (managed || K::SELECTOR.is_none()) {
        K::store(stores).put(object);
    }
}

/// An own kind: seen whole but for the annotation that repeats it.
macro_rules! own_kind {
    ($kind:ty, $store:ident, $seconds:expr, $keys:expr $(, $rank:expr)?) => {
        impl Stored for $kind {
            const SELECTOR: Option<&'static str> = None;
            const WATCH_SECONDS: u32 = $seconds;

            fn store(stores: &Stores) -> &Store<Self> {
                &stores.$store
            }

            fn strip(&mut self) {
                self.annotations_mut().remove(LAST_APPLIED);
            }

            fn keys(&self) -> Vec<IndexKey> {
                let mut keys = Keys::of(self);
                let add: fn(&Self, &mut Keys) = $keys;
                add(self, &mut keys);
                keys.list()
            }

            $(fn rank(&self) -> i64 {
                let rank: fn(&Self) -> i64 = $rank;
                rank(self)
            })?
        }
    };
}

const CALM: u32 = 290;
const QUICK: u32 = 60;

own_kind!(Tool, tools, CALM, |_, _| {});
own_kind!(Workspace, workspaces, CALM, |workspace, keys| {
    let claim = workspace.status.as_ref().and_then(|s| s.claim_name.as_deref());
    let source = workspace.spec.source.persistent_volume_claim.as_ref();
    let named = workspace.spec.storage.as_ref().and_then(|s| s.claim_name.as_deref());
    keys.add_all(name::CLAIM, claim)
        .add_all(name::CLAIM, source.map(|s| s.claim_name.as_str()))
        .add_all(name::CLAIM, named);
});
own_kind!(DevcontainerInstance, devcontainer_instances, CALM, |instance, keys| {
    keys.add(name::WORKSPACE, &instance.spec.workspace_ref.name);
    instance_keys(&instance.spec.instance, keys);
});
own_kind!(ContainerInstance, container_instances, CALM, |instance, keys| {
    let workspace = instance.labels().get(label::WORKSPACE);
    keys.add_all(name::WORKSPACE, workspace.map(String::as_str));
    instance_keys(&instance.spec.instance, keys);
});
own_kind!(ExecutionEnvironment, execution_environments, CALM, |environment, keys| {
    let scope = &environment.spec.scope;
    let target = &environment.spec.target;
    for (kind, scope) in [("Project", &scope.project_ref), ("Plan", &scope.plan_ref)] {
        keys.add_all(
            name::SCOPE,
            scope.iter().map(|s| format!("{kind}/{}", s.name)).collect::<Vec<_>>().iter().map(String::as_str),
        );
    }
    for (kind, target) in [
        ("DevcontainerInstance", &target.devcontainer_instance_ref),
        ("ContainerInstance", &target.container_instance_ref),
    ] {
        keys.add_all(
            name::NAMED,
            target
                .iter()
                .map(|t| format!("{kind}/{}", t.name))
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str),
        );
    }
});
own_kind!(Project, projects, CALM, |project, keys| {
    for resource in &project.spec.resources {
        keys.add(name::NAMED, &format!("{}/{}", resource.kind, resource.name));
    }
});
own_kind!(Plan, plans, CALM, |plan, keys| {
    keys.add_all(name::PROJECT, plan.spec.project_ref.iter().map(|r| r.name.as_str()))
        .add_all(name::WORKSPACE, plan.spec.workspace_ref.iter().map(|r| r.name.as_str()));
});
own_kind!(Snapshot, snapshots, CALM, |snapshot, keys| {
    let instance = &snapshot.spec.instance_ref;
    keys.add(name::NAMED, &format!("{}/{}", instance.kind, instance.name));
});
own_kind!(
    ToolRun,
    tool_runs,
    QUICK,
    |run, keys| {
        let status = run.status.as_ref();
        let target = status.and_then(|s| s.route.as_ref()).and_then(|r| r.target.as_ref());
        let target = target.map(|t| format!("{}/{}", t.kind, t.name));
        keys.add_all(name::TARGET, target.as_deref())
            .add_all(name::PLAN, run.spec.plan_ref.iter().map(|r| r.name.as_str()));
        if status.is_some_and(|s| s.outcome.is_some()) {
            return;
        }
        let claim = status.and_then(|s| s.claim.as_ref());
        keys.add(name::OPEN, "")
            .add_all(name::UNROUTED, target.is_none().then_some(""))
            .add_all(name::OPEN_TARGET, target.as_deref())
            .add_all(name::OPEN_POD, claim.map(|c| c.pod_uid.as_str()))
            .add_all(name::WORKSPACE, run.spec.workspace_ref.iter().map(|r| r.name.as_str()))
            .add_all(name::PROJECT, run.spec.project_ref.iter().map(|r| r.name.as_str()))
            .add_all(name::TOOL, run.spec.tool_ref.iter().map(|r| r.name.as_str()));
    },
    // By their ends, those that have none first.
    |run| {
        let ended = run.status.as_ref().and_then(|s| s.finished_at.as_ref());
        ended.map_or(0, |t| t.0.as_millisecond())
    }
);

fn instance_keys(spec: &InstanceSpec, keys: &mut Keys) {
    let mounted = spec.mounts.iter().filter_map(|m| m.workspace_ref.as_ref());
    let cloned = spec.clone_into.iter().map(|c| &c.workspace_ref);
    keys.add_all(name::MOUNTED_WORKSPACE, mounted.chain(cloned).map(|r| r.name.as_str()));
}

impl Stored for Pod {
    const SELECTOR: Option<&'static str> = MANAGED;
    const WATCH_SECONDS: u32 = QUICK;

    fn store(stores: &Stores) -> &Store<Self> {
        &stores.pods
    }

    /// Kept of the spec: the node, the volumes that are claims, and name, image and resources of each container.
    fn strip(&mut self) {
        let Some(spec) = self.spec.take() else {
            return;
        };
        let bare = |container: Container| Container {
            name: container.name,
            image: container.image,
            resources: container.resources,
            ..Container::default()
        };
        let mut volumes = spec.volumes.unwrap_or_default();
        volumes.retain(|v| v.persistent_volume_claim.is_some());
        self.spec = Some(PodSpec {
            node_name: spec.node_name,
            restart_policy: spec.restart_policy,
            containers: spec.containers.into_iter().map(bare).collect(),
            volumes: Some(volumes),
            ..PodSpec::default()
        });
    }

    fn keys(&self) -> Vec<IndexKey> {
        index::pod_keys(self)
    }
}

impl Stored for ConfigMap {
    const SELECTOR: Option<&'static str> = MANAGED;
    const WATCH_SECONDS: u32 = CALM;

    fn store(stores: &Stores) -> &Store<Self> {
        &stores.config_maps
    }

    /// Kept whole: the configuration files of workspaces are in it, within their bounds.
    fn strip(&mut self) {
        self.binary_data = None;
    }
}

impl Stored for PersistentVolumeClaim {
    const SELECTOR: Option<&'static str> = None;
    const WATCH_SECONDS: u32 = CALM;

    fn store(stores: &Stores) -> &Store<Self> {
        &stores.claims
    }

    fn strip(&mut self) {
        self.annotations_mut().remove(LAST_APPLIED);
    }

    fn keys(&self) -> Vec<IndexKey> {
        index::claim_keys(self)
    }
}

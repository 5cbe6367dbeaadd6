//! What routing is asked, and how it is read out of objects.

use std::collections::BTreeSet;

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::execution_environment::Priority;
use drydock_crds::project::{Detection, HostPolicy, Resource, ResourceKind};
use drydock_crds::reference::{InstanceKind, InstanceRef};
use drydock_crds::tool::Capability;
use drydock_crds::workspace::Devcontainer;
use drydock_crds::{ContainerInstance, DevcontainerInstance, ExecutionEnvironment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::path::WorkspacePath;

/// Everything that a route depends on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The workspace that is worked on: the run's, else its plan's.
    pub workspace: Option<Tree<'a>>,
    /// The file or folder that is worked on. Which of the two isn't known.
    pub path: &'a WorkspacePath,
    /// The tool's and the run's capability, merged by [`capability`].
    pub capability: &'a Capability,
    /// The run's `configName`.
    pub config_name: Option<&'a str>,
    /// The run only activates.
    pub activate: bool,
    /// The run's plan, where it has `sandbox: Checkout`.
    pub sandbox: Option<Sandbox<'a>>,
    /// The environments of the run's plan and project, but for `Conflicted` ones. In any order.
    pub environments: &'a [Environment<'a>],
    /// The run's project: its own, else its plan's.
    pub project: Option<ProjectFacts<'a>>,
    /// The host policy in force: the project's, else the operator's.
    pub host_policy: HostPolicy,
    /// The operator's `environments.enabled`.
    pub devcontainers_enabled: bool,
    /// Instances of the namespace, in any order: at least those called as the capability's `specific` says. Host runners
    /// are never among them: they are reached as the host alone.
    pub instances: &'a [InstanceRef],
}

/// A workspace.
#[derive(Clone, Copy, Debug)]
pub struct Tree<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its `status.devcontainers`, in any order.
    pub devcontainers: &'a [Devcontainer],
    /// Absent: it has a checkout. Present (`checkout: None`): the instances that clone it, in any order.
    pub cloned_by: Option<&'a [InstanceRef]>,
}

/// A plan that works in checkouts of its own.
#[derive(Clone, Copy, Debug)]
pub struct Sandbox<'a> {
    /// Name of the plan.
    pub plan: &'a str,
    /// Its checkouts, in any order.
    pub checkouts: &'a [Checkout<'a>],
}

/// A plan's own checkout of a workspace.
#[derive(Clone, Copy, Debug)]
pub struct Checkout<'a> {
    /// Name of the workspace.
    pub workspace: &'a str,
    /// The configurations found in the checkout (`status.checkouts[].devcontainers`). Their `name` isn't read.
    pub devcontainers: &'a [Devcontainer],
    /// The configurations of the workspace itself.
    pub shared: &'a [Devcontainer],
}

/// A project.
#[derive(Clone, Copy, Debug)]
pub struct ProjectFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its links, in the order listed ([`links`]).
    pub links: &'a [Link],
    /// Whether the nearest dev container counts.
    pub detection: Detection,
}

/// An instance that is linked to a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The instance.
    pub instance: InstanceRef,
    /// It is a plan's own: reached by its name, never as one of several.
    pub of_plan: bool,
}

/// Whose environment it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The run's plan.
    Plan,
    /// The run's project.
    Project,
}

/// An ExecutionEnvironment of the run's plan or project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whose it is.
    pub scope: Scope,
    /// When it applies.
    pub priority: Priority,
    /// Where it sends runs.
    pub target: EnvironmentTarget,
}

/// Where an environment sends runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvironmentTarget {
    /// To an instance.
    Instance(InstanceRef, TargetState),
    /// To the host runner.
    Host,
    /// To the nearest dev container, else to the linked instances in order.
    Container,
}

/// Whether an instance can be used by a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// It exists, and is linked where there is a project.
    Usable,
    /// It doesn't exist.
    NotFound,
    /// It exists, and isn't linked to the project.
    NotLinked,
}

/// What routing has to know of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceFacts {
    /// Kind and name.
    pub instance: InstanceRef,
    /// The workspace that holds its configuration.
    pub workspace: Option<String>,
    /// It is a plan's own.
    pub of_plan: bool,
    /// It is a host runner.
    pub host_runner: bool,
    /// The workspaces that it clones.
    pub clones: Vec<String>,
}

impl From<&DevcontainerInstance> for InstanceFacts {
    fn from(object: &DevcontainerInstance) -> Self {
        let clones = object.spec.instance.clone_into.iter();
        Self {
            instance: reference(InstanceKind::DevcontainerInstance, &object.metadata),
            workspace: Some(object.spec.workspace_ref.name.clone()),
            of_plan: owner_kind(&object.metadata) == Some("Plan"),
            host_runner: false,
            clones: clones.map(|c| c.workspace_ref.name.clone()).collect(),
        }
    }
}

impl From<&ContainerInstance> for InstanceFacts {
    /// A ContainerInstance that an object of ours owns is a host runner: Drydock makes no others.
    fn from(object: &ContainerInstance) -> Self {
        let clones = object.spec.instance.clone_into.iter();
        Self {
            instance: reference(InstanceKind::ContainerInstance, &object.metadata),
            workspace: None,
            of_plan: false,
            host_runner: owner_kind(&object.metadata).is_some(),
            clones: clones.map(|c| c.workspace_ref.name.clone()).collect(),
        }
    }
}

fn reference(kind: InstanceKind, metadata: &ObjectMeta) -> InstanceRef {
    InstanceRef { kind, name: metadata.name.clone().unwrap_or_default() }
}

/// Kind of the owner that is the controller and of our group.
fn owner_kind(metadata: &ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let ours = |api_version: &str| {
        api_version.split_once('/').is_some_and(|(group, _)| group == drydock_crds::GROUP)
    };
    owners.iter().find(|o| o.controller == Some(true) && ours(&o.api_version)).map(|o| o.kind.as_str())
}

/// The tool's capability with each field that the run sets in its place.
#[must_use]
pub fn capability(tool: Option<&Capability>, run: Option<&Capability>) -> Capability {
    let tool = tool.cloned().unwrap_or_default();
    let run = run.cloned().unwrap_or_default();
    Capability {
        required: run.required.or(tool.required),
        preferred: run.preferred.or(tool.preferred),
        specific: run.specific.or(tool.specific),
    }
}

/// The existing instances that `resources` of a project link, in the order listed, each once. Those of one workspace are
/// in the order of their names; host runners are never linked.
#[must_use]
pub fn links(resources: &[Resource], instances: &[InstanceFacts]) -> Vec<Link> {
    let mut sorted: Vec<&InstanceFacts> = instances.iter().filter(|i| !i.host_runner).collect();
    sorted.sort_by(|a, b| a.instance.name.cmp(&b.instance.name));
    let mut seen = BTreeSet::new();
    let mut links = Vec::new();
    for resource in resources {
        let linked = sorted.iter().filter(|i| match resource.kind {
            ResourceKind::Workspace => i.workspace.as_deref() == Some(resource.name.as_str()),
            ResourceKind::ContainerInstance => {
                i.instance.kind == InstanceKind::ContainerInstance && i.instance.name == resource.name
            }
            ResourceKind::DevcontainerInstance => {
                i.instance.kind == InstanceKind::DevcontainerInstance && i.instance.name == resource.name
            }
        });
        for facts in linked {
            if seen.insert(&facts.instance) {
                links.push(Link { instance: facts.instance.clone(), of_plan: facts.of_plan });
            }
        }
    }
    links
}

/// Whether an instance can be used by the scope that has these links; `None`: a plan without a project, where every
/// instance counts as linked.
#[must_use]
pub fn target_state(instance: &InstanceRef, exists: bool, links: Option<&[Link]>) -> TargetState {
    if !exists {
        TargetState::NotFound
    } else if links.is_some_and(|links| !links.iter().any(|l| l.instance == *instance)) {
        TargetState::NotLinked
    } else {
        TargetState::Usable
    }
}

impl<'a> Environment<'a> {
    /// The environment as routing sees it. None where it is of another plan and project, is `Conflicted`, or has no target.
    #[must_use]
    pub fn of(
        object: &'a ExecutionEnvironment,
        plan: Option<&str>,
        project: Option<&str>,
        state: impl Fn(&InstanceRef) -> TargetState,
    ) -> Option<Self> {
        let spec = &object.spec;
        let conditions = object.status.as_ref().map(|s| s.conditions.as_slice());
        let accepted = ConditionType::Accepted.find(conditions.unwrap_or_default());
        if accepted.is_some_and(|c| c.status == "False" && c.reason == Reason::Conflicted.as_str()) {
            return None;
        }
        let named = |scope: &Option<drydock_crds::reference::LocalRef>, name: Option<&str>| {
            scope.as_ref().is_some_and(|s| Some(s.name.as_str()) == name)
        };
        let scope = if named(&spec.scope.plan_ref, plan) {
            Scope::Plan
        } else if named(&spec.scope.project_ref, project) {
            Scope::Project
        } else {
            return None;
        };
        let instance = |kind, name: &str| {
            let instance = InstanceRef { kind, name: name.to_owned() };
            let state = state(&instance);
            EnvironmentTarget::Instance(instance, state)
        };
        let target = if let Some(target) = &spec.target.devcontainer_instance_ref {
            instance(InstanceKind::DevcontainerInstance, &target.name)
        } else if let Some(target) = &spec.target.container_instance_ref {
            instance(InstanceKind::ContainerInstance, &target.name)
        } else if spec.target.host.is_some() {
            EnvironmentTarget::Host
        } else if spec.target.container.is_some() {
            EnvironmentTarget::Container
        } else {
            return None;
        };
        Some(Self {
            name: object.metadata.name.as_deref().unwrap_or_default(),
            scope,
            priority: spec.priority.unwrap_or_default(),
            target,
        })
    }
}

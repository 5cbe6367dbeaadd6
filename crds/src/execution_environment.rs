//! `ExecutionEnvironment`: the statement "tools of this project or plan run there".

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::instance::ProvisioningState;
use crate::reference::LocalRef;
use crate::rule;

/// The statement "tools of this project or plan run there, with this priority".
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "drydock.dev",
    version = "v1alpha1",
    kind = "ExecutionEnvironment",
    plural = "executionenvironments",
    namespaced,
    status = "ExecutionEnvironmentStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "xenv",
    category = "drydock",
    doc = "The statement: tools of this project or plan run there, with this priority.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Accepted", type_ = "string", json_path = ".status.conditions[?(@.type==\"Accepted\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Accepted\")].reason"),
    printcolumn(name = "Priority", type_ = "string", json_path = ".spec.priority"),
    printcolumn(name = "Project", type_ = "string", json_path = ".spec.scope.projectRef.name"),
    printcolumn(name = "Plan", type_ = "string", json_path = ".spec.scope.planRef.name"),
    printcolumn(name = "Target", type_ = "string", json_path = ".status.targetState", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = rule::short_name()
)]
pub struct ExecutionEnvironmentSpec {
    /// Whose tools: exactly one project or plan.
    pub scope: Scope,
    /// Where they run: exactly one target.
    pub target: Target,
    /// `Override` goes before the nearest dev container, `Fallback` (the default) after it.
    pub priority: Option<Priority>,
}

/// Whose tools an environment is for.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::exactly_one(&["projectRef", "planRef"]))]
pub struct Scope {
    /// Tools of runs that name this project, or a plan of it.
    pub project_ref: Option<LocalRef>,
    /// Tools of runs that name this plan.
    pub plan_ref: Option<LocalRef>,
}

/// Where tools run.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::exactly_one(&["devcontainerInstanceRef", "containerInstanceRef", "host", "container"]))]
pub struct Target {
    /// In this dev container, by its name in the same namespace.
    pub devcontainer_instance_ref: Option<LocalRef>,
    /// In this container, by its name in the same namespace.
    pub container_instance_ref: Option<LocalRef>,
    /// In the workspace's host runner.
    pub host: Option<Anywhere>,
    /// In any container: the nearest dev container, else the project's linked instances in order.
    pub container: Option<Anywhere>,
}

/// A choice without parameters.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Anywhere {}

/// When an environment applies.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord,
)]
pub enum Priority {
    /// After the nearest dev container.
    #[default]
    Fallback,
    /// Before it.
    Override,
}

/// Status of an ExecutionEnvironment.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionEnvironmentStatus {
    /// The `metadata.generation` that this status speaks of; -1 before the controller saw the object.
    #[serde(default = "crate::schema::unobserved")]
    pub observed_generation: i64,
    /// State of the target, where it is an instance.
    pub target_state: Option<ProvisioningState>,
    /// Conditions: `Accepted` (`Accepted`, `TargetNotFound`, `TargetNotLinked`, `ScopeNotFound`, `Conflicted`), `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

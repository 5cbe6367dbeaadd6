//! `Project`: workspaces and instances that belong together.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::rule;

/// Workspaces and instances that belong together, and how tools of them are routed.
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "drydock.dev",
    version = "v1alpha1",
    kind = "Project",
    plural = "projects",
    namespaced,
    status = "ProjectStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "proj",
    category = "drydock",
    doc = "Workspaces and instances that belong together, and how tools of them are routed.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Detection", type_ = "string", json_path = ".spec.devcontainerDetection"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = rule::short_name()
)]
pub struct ProjectSpec {
    /// What belongs to the project. A linked Workspace links its instances too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub resources: Vec<Resource>,
    /// Whether the nearest dev container of a path counts. Default: `Enabled`.
    pub devcontainer_detection: Option<Detection>,
    /// Whether and how tools run outside of project containers.
    pub host: Option<Host>,
}

/// Something that belongs to a project.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Kind of what belongs to the project.
    pub kind: ResourceKind,
    /// Its name, in the same namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = crate::reference::NAME_PATTERN))]
    pub name: String,
}

/// Kinds that can belong to a project.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    strum::IntoStaticStr,
    strum::Display,
)]
pub enum ResourceKind {
    /// A source tree, with its instances.
    Workspace,
    /// A container.
    ContainerInstance,
    /// A dev container.
    DevcontainerInstance,
}

/// Whether dev containers are found by path.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detection {
    /// They are.
    #[default]
    Enabled,
    /// They aren't.
    Disabled,
}

/// Whether and how tools run outside of project containers.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// `Allowed`; `OnRequest`: only where a tool requires it or an environment names it; `Forbidden`. Default: the operator's.
    pub policy: Option<HostPolicy>,
    /// Image of the host runner. Default: the operator's.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::pattern::IMAGE))]
    pub image: Option<String>,
    /// Compute resources of the host runner.
    pub resources: Option<ResourceRequirements>,
    /// Labels that the host runner's node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// RuntimeClass of the host runner.
    #[schemars(length(min = 1, max = 253))]
    pub runtime_class_name: Option<String>,
}

/// Whether tools may run outside of project containers.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    strum::EnumIter,
    strum::Display,
)]
pub enum HostPolicy {
    /// They may.
    #[default]
    Allowed,
    /// Only where a tool requires it or an environment names it.
    OnRequest,
    /// They may not.
    Forbidden,
}

/// Status of a Project.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ProjectStatus {
    /// The `metadata.generation` that this status speaks of; -1 before the controller saw the object.
    #[serde(default = "crate::schema::unobserved")]
    pub observed_generation: i64,
    /// Linked resources that exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub resolved: Vec<Resource>,
    /// Linked resources that don't.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub missing: Vec<Resource>,
    /// Conditions: `Accepted`, `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

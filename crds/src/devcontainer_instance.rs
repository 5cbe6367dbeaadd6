//! `DevcontainerInstance`: an environment from a `devcontainer.json` of a workspace.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::instance::{EnvVar, InstanceSpec, InstanceStatus};
use crate::reference::LocalRef;
use crate::rule;

/// An environment made from a `devcontainer.json`: discovered without being built, built and started by the first tool run that needs it.
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "drydock.dev",
    version = "v1alpha1",
    kind = "DevcontainerInstance",
    plural = "devcontainerinstances",
    namespaced,
    status = "InstanceStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "dc",
    category = "drydock",
    category = "drydock-instances",
    selectable = ".spec.workspaceRef.name",
    doc = "An environment made from a devcontainer.json of a workspace: discovered without being built, built and started by the first tool run that needs it.",
    printcolumn(name = "State", type_ = "string", json_path = ".status.provisioningState"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Workspace", type_ = "string", json_path = ".spec.workspaceRef.name"),
    printcolumn(name = "Config", type_ = "string", json_path = ".spec.configPath"),
    printcolumn(name = "Last use", type_ = "date", json_path = ".status.lastActivityTime", priority = 1),
    printcolumn(name = "Pod", type_ = "string", json_path = ".status.podName", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = rule::short_name()
)]
#[x_kube(validation = rule::immutable(&["workspaceRef"], "workspaceRef can't be changed: delete the instance and make one of the other workspace"))]
#[x_kube(validation = rule::immutable(&["restoreFrom"], "restoreFrom can't be changed: it is the state the instance is born with; to roll back later set the annotation drydock.dev/restore"))]
pub struct DevcontainerInstanceSpec {
    /// The workspace that holds the configuration.
    pub workspace_ref: LocalRef,
    /// The configuration: a file or a folder, from the workspace root. Default: the root's configuration.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::pattern::RELATIVE_PATH))]
    #[x_kube(validation = Rule::new("!self.split('/').exists(p, p == '..')").message("configPath is a path from the workspace root and must stay within it: remove '..'"))]
    pub config_path: Option<String>,
    /// The folder of the workspace that is mounted. Default: the whole workspace.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::pattern::RELATIVE_PATH))]
    #[x_kube(validation = Rule::new("!self.split('/').exists(p, p == '..')").message("workspaceSubPath must stay within the workspace: remove '..'"))]
    pub workspace_sub_path: Option<String>,
    /// Folder in the environment in which tools start. Default: as the Dev Container Specification says.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::pattern::ABSOLUTE_PATH))]
    #[x_kube(validation = Rule::new("!self.split('/').exists(p, p == '..')").message("workspaceFolder must be an absolute path without '..'"))]
    pub workspace_folder: Option<String>,
    /// The values that `${localEnv:X}` in the configuration may see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub local_env: Vec<EnvVar>,
    /// Whether the image is built as soon as the configuration is discovered. Default: `Never`.
    pub prebuild: Option<Prebuild>,
    /// The block that both instance kinds share.
    #[serde(flatten)]
    pub instance: InstanceSpec,
}

/// When an image is built without being needed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prebuild {
    /// When it is needed.
    #[default]
    Never,
    /// At once; the state stays `Discovered` and the condition `Built` tells.
    OnDiscovery,
}

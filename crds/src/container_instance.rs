//! `ContainerInstance`: an environment from an image.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::instance::{InstanceSpec, InstanceStatus};
use crate::rule;

/// An environment made from an image: started by the first tool run that needs it, stopped when idle.
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "drydock.dev",
    version = "v1alpha1",
    kind = "ContainerInstance",
    plural = "containerinstances",
    namespaced,
    status = "InstanceStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "ctr",
    category = "drydock",
    category = "drydock-instances",
    doc = "An environment made from an image. Tools run in it; it is started on demand and stopped when idle.",
    printcolumn(name = "State", type_ = "string", json_path = ".status.provisioningState"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
    printcolumn(name = "Last use", type_ = "date", json_path = ".status.lastActivityTime", priority = 1),
    printcolumn(name = "Pod", type_ = "string", json_path = ".status.podName", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = rule::short_name()
)]
#[x_kube(validation = rule::immutable(&["restoreFrom"], "restoreFrom can't be changed: it is the state the instance is born with; to roll back later set the annotation drydock.dev/restore"))]
pub struct ContainerInstanceSpec {
    /// Image of the container, such as `docker.io/library/python:3.14-slim`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::pattern::IMAGE))]
    pub image: String,
    /// Program that runs beside the agent instead of the image's own. Absent: the agent alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub command: Vec<String>,
    /// Arguments of that program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub args: Vec<String>,
    /// User that tools run as: a name, or `uid[:gid]`. Default: root until image metadata is read.
    #[schemars(
        length(min = 1, max = 64),
        regex(pattern = crate::pattern::USER)
    )]
    pub user: Option<String>,
    /// Folder in which tools start. Default: `/workspace`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::pattern::ABSOLUTE_PATH))]
    #[x_kube(validation = Rule::new("!self.split('/').exists(p, p == '..')").message("workspaceFolder must be an absolute path without '..'"))]
    pub workspace_folder: Option<String>,
    /// The block that both instance kinds share.
    #[serde(flatten)]
    pub instance: InstanceSpec,
}

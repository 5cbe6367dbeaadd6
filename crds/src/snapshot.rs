//! `Snapshot`: what changed in an environment, kept.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::reference::InstanceRef;
use crate::rule;

/// What changed in an environment and its workspace, kept to go back to or to fork from.
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "drydock.dev",
    version = "v1alpha1",
    kind = "Snapshot",
    plural = "snapshots",
    namespaced,
    status = "SnapshotStatus",
    derive = "PartialEq",
    category = "drydock",
    selectable = ".spec.instanceRef.name",
    doc = "What changed in an environment and its workspace, kept to go back to or to fork from.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Instance", type_ = "string", json_path = ".spec.instanceRef.name"),
    printcolumn(name = "Bytes", type_ = "integer", json_path = ".status.environment.bytes", priority = 1),
    printcolumn(name = "Taken", type_ = "date", json_path = ".status.takenAt"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = rule::short_name()
)]
#[x_kube(validation = Rule::new("self == oldSelf").message("a Snapshot can't be changed: make a new one"))]
pub struct SnapshotSpec {
    /// The instance whose environment is kept.
    pub instance_ref: InstanceRef,
    /// What is kept: the environment's file system, the workspace. Default: both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub contents: Vec<Contents>,
    /// How the workspace is kept. Default: `Git`.
    pub workspace_method: Option<WorkspaceMethod>,
    /// Whether the environment half is pushed as an image too. Default: false.
    pub publish: Option<bool>,
    /// Whether it is exempt from retention. Default: false.
    pub retain: Option<bool>,
}

/// A half of a snapshot.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The container's file system.
    Environment,
    /// The workspace.
    Workspace,
}

/// How a workspace is kept.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkspaceMethod {
    /// As a git commit.
    #[default]
    Git,
    /// As a CSI VolumeSnapshot.
    VolumeSnapshot,
}

/// Status of a Snapshot.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStatus {
    /// The `metadata.generation` that this status speaks of; -1 before the controller saw the object.
    #[serde(default = "crate::schema::unobserved")]
    pub observed_generation: i64,
    /// The environment half.
    pub environment: Option<EnvironmentHalf>,
    /// The workspace half.
    pub workspace: Option<WorkspaceHalf>,
    /// The CSI VolumeSnapshot.
    pub volume_snapshot_name: Option<String>,
    /// The snapshot before it.
    pub parent: Option<String>,
    /// What isn't in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub unsupported: Vec<String>,
    /// When it was taken.
    pub taken_at: Option<Time>,
    /// How long that took, in milliseconds.
    pub duration_ms: Option<i64>,
    /// Conditions: `Ready`, `Succeeded`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

/// The environment half of a snapshot.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentHalf {
    /// Digest of the archive.
    pub digest: String,
    /// Its size.
    pub bytes: i64,
    /// What changed against the image.
    pub files: Option<FileCounts>,
    /// The image it is a change of.
    pub base_image: Option<BaseImage>,
    /// The image it was published as.
    pub published_image: Option<String>,
}

/// How many files changed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FileCounts {
    /// Files that are new.
    pub added: i64,
    /// Files that are different.
    pub changed: i64,
    /// Files that are gone.
    pub deleted: i64,
}

/// An image by reference and digest.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BaseImage {
    /// Reference.
    pub reference: String,
    /// Digest.
    pub digest: String,
}

/// The workspace half of a snapshot.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceHalf {
    /// The commit.
    pub commit: String,
    /// The ref that keeps it.
    #[serde(rename = "ref")]
    pub ref_: String,
}

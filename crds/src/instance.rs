//! What both instance kinds share: the spec block they inherit, and the whole status (in `status`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use kube::KubeSchema;
use kube::core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::reference::{KeyRef, LocalRef, SecretRef};
use crate::rule;

mod status;

pub use status::*;

/// The block that both instance kinds share.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSpec {
    /// Whether the environment is started on demand and stopped when idle (`Auto`, the default), kept running (`Active`), or kept
    /// stopped (`Stopped`: runs that need it end `NoEnvironment`).
    pub desired_state: Option<DesiredState>,
    /// How long the environment may be without use before it is stopped, e.g. `30m`. Default: the operator's.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::duration")]
    pub idle_timeout: Option<Duration>,
    /// What happens to the changes in the container's file system at a stop: saved and there at the next start (`Hibernate`, the
    /// default), or dropped (`Discard`).
    pub on_stop: Option<OnStop>,
    /// The lifecycle hook that runs wait for. Default: the configuration's `waitFor`, else `PostStart`.
    pub runs_wait_for: Option<Hook>,
    /// The snapshot that the instance is born from. It can't be changed later: the annotation `drydock.dev/restore` rolls back.
    pub restore_from: Option<RestoreFrom>,
    /// Additional mounts: other workspaces, claims, scratch folders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub mounts: Vec<Mount>,
    /// Repositories that are cloned into a claim of the instance's own when it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub clone_into: Vec<CloneInto>,
    /// Ports of the environment that a Service offers in the namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ports: Vec<Port>,
    /// Environment variables of the container, for every process in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub env: Vec<EnvVar>,
    /// Secrets whose keys become environment variables of tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 24))]
    pub secret_refs: Vec<SecretRef>,
    /// Credentials that git inside the environment may use, each for one host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub git_credentials: Vec<GitCredential>,
    /// Compute resources of the environment. Default: the operator's.
    pub resources: Option<ResourceRequirements>,
    /// Labels that a node must have to run the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// RuntimeClass of the pod, e.g. gVisor or Kata. Default: the operator's.
    #[schemars(length(min = 1, max = 253))]
    pub runtime_class_name: Option<String>,
    /// Secrets with which the image is pulled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub image_pull_secrets: Vec<SecretRef>,
    /// How many tool runs may be active at once; more wait in order. Default: the operator's.
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent_runs: Option<i32>,
}

/// What the environment should be.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DesiredState {
    /// Started on demand, stopped when idle.
    #[default]
    Auto,
    /// Kept running.
    Active,
    /// Kept stopped.
    Stopped,
}

/// What a stop does with the container's file system.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStop {
    /// What changed is saved and is there at the next start.
    #[default]
    Hibernate,
    /// What changed is dropped.
    Discard,
}

/// A lifecycle hook of the Dev Container Specification.
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
pub enum Hook {
    /// `initializeCommand`
    Initialize,
    /// `onCreateCommand`
    OnCreate,
    /// `updateContentCommand`
    UpdateContent,
    /// `postCreateCommand`
    PostCreate,
    /// `postStartCommand`
    PostStart,
    /// `postAttachCommand`
    PostAttach,
}

/// The state that an instance is born with.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RestoreFrom {
    /// The snapshot, in the same namespace.
    pub snapshot_ref: LocalRef,
}

/// An additional mount: a place and exactly one source.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::exactly_one(&["workspaceRef", "persistentVolumeClaim", "emptyDir", "hostPath"]))]
pub struct Mount {
    /// Absolute path in the environment.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::pattern::ABSOLUTE_PATH))]
    #[x_kube(validation = Rule::new("!self.contains(':') && !self.split('/').exists(p, p == '..')").message("mountPath must be an absolute path without '..' and ':'"))]
    pub mount_path: String,
    /// The source tree of another workspace.
    pub workspace_ref: Option<LocalRef>,
    /// An existing PersistentVolumeClaim. One that is a Workspace's is shown as that Workspace.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// A folder that lives as long as the pod.
    pub empty_dir: Option<EmptyDirSource>,
    /// A folder of the node. Needs the operator's policy.
    pub host_path: Option<HostPathSource>,
    /// Folder within the source that is mounted. Default: its root.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::pattern::RELATIVE_PATH))]
    #[x_kube(validation = Rule::new("!self.split('/').exists(p, p == '..')").message("subPath must stay within its volume: remove '..'"))]
    pub sub_path: Option<String>,
    /// Whether writing is refused. Default: false.
    pub read_only: Option<bool>,
}

/// A PersistentVolumeClaim in the same namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSource {
    /// Name of the claim, in the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = crate::reference::SUBDOMAIN_PATTERN))]
    pub claim_name: String,
}

/// A folder that lives as long as the pod.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDirSource {
    /// `Memory` for a tmpfs; default: the node's disk.
    pub medium: Option<EmptyDirMedium>,
}

/// Where an emptyDir lies.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyDirMedium {
    /// A tmpfs.
    Memory,
}

/// A folder of the node.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HostPathSource {
    /// Absolute path of the folder on the node.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::pattern::ABSOLUTE_PATH))]
    #[x_kube(validation = Rule::new("!self.split('/').exists(p, p == '..')").message("path must be an absolute path without '..'"))]
    pub path: String,
}

/// A repository that is cloned into the environment.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CloneInto {
    /// The workspace whose git source is cloned.
    pub workspace_ref: LocalRef,
    /// Absolute path of the clone in the environment.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::pattern::ABSOLUTE_PATH))]
    #[x_kube(validation = Rule::new("!self.split('/').exists(p, p == '..')").message("path must be an absolute path without '..'"))]
    pub path: String,
    /// Branch to check out. Default: the workspace's revision.
    #[schemars(length(min = 1, max = 255), regex(pattern = crate::pattern::BRANCH))]
    pub branch: Option<String>,
}

/// A port of the environment.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// Name of the port in the Service.
    #[schemars(length(min = 1, max = 15), regex(pattern = crate::reference::NAME_PATTERN))]
    pub name: Option<String>,
    /// Port that a process in the environment listens on.
    #[schemars(range(min = 1, max = 65535))]
    pub container_port: i32,
    /// Port of the Service. Default: `containerPort`.
    #[schemars(range(min = 1, max = 65535))]
    pub service_port: Option<i32>,
    /// Transport protocol. Default: `TCP`.
    pub protocol: Option<Protocol>,
    /// Application protocol, as in a Service.
    #[schemars(length(min = 1, max = 63))]
    pub app_protocol: Option<String>,
}

/// Transport protocol of a port.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// TCP
    #[default]
    TCP,
    /// UDP
    UDP,
}

/// An environment variable with exactly one source.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::at_most_one(&["value", "secretKeyRef", "configMapKeyRef"]))]
pub struct EnvVar {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 253), regex(pattern = crate::pattern::VARIABLE))]
    pub name: String,
    /// The value, as it is; nothing in it is expanded.
    #[schemars(length(max = 32768))]
    pub value: Option<String>,
    /// A key of a Secret that holds the value.
    pub secret_key_ref: Option<KeyRef>,
    /// A key of a ConfigMap that holds the value.
    pub config_map_key_ref: Option<KeyRef>,
}

/// A credential for one git host.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct GitCredential {
    /// Host that the credential is for, without scheme or path.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = crate::pattern::HOST)
    )]
    pub host: String,
    /// A `kubernetes.io/basic-auth` or `kubernetes.io/ssh-auth` Secret.
    pub secret_ref: SecretRef,
}

//! The status that both instance kinds have.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Hook;
use crate::reference::LocalRef;

/// Status of an instance.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// The `metadata.generation` that this status speaks of; -1 before the controller saw the object.
    #[serde(default = "crate::schema::unobserved")]
    pub observed_generation: i64,
    /// State of the environment.
    pub provisioning_state: Option<ProvisioningState>,
    /// The last 20 changes of the state, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub transitions: Vec<Transition>,
    /// The image that is or will be used.
    pub image: Option<ImageStatus>,
    /// The last or current build.
    pub build: Option<BuildStatus>,
    /// Name of the environment pod.
    pub pod_name: Option<String>,
    /// Uid of the environment pod.
    pub pod_uid: Option<String>,
    /// Id of the tool container, as the container runtime gives it.
    pub container_id: Option<String>,
    /// The container runtime and its version, as the node gives it.
    pub engine_type: Option<String>,
    /// The snapshot whose state the environment was born from or rolled back to.
    pub restored_from: Option<String>,
    /// The agent in the environment.
    pub agent: Option<AgentStatus>,
    /// What is mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub mounts: Vec<MountStatus>,
    /// Names of well-known executables found in the environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub executables: Vec<String>,
    /// Ports that are offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub forwarded_ports: Vec<ForwardedPort>,
    /// Name of the Service that offers the ports.
    pub service_name: Option<String>,
    /// The compose services beside the tool container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub services: Vec<ComposeServiceStatus>,
    /// Repositories cloned into the environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub clones: Vec<CloneStatus>,
    /// Named volumes: owned by the instance, kept over stop and rebuild.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub volumes: Vec<VolumeStatus>,
    /// What the configuration says (of a DevcontainerInstance).
    pub devcontainer: Option<DevcontainerStatus>,
    /// Whether the workspace volume itself is mounted (`Transparent`) or the instance has its own copy (`Independent`).
    pub coherence: Option<Coherence>,
    /// The lifecycle hooks that ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub lifecycle: Vec<HookStatus>,
    /// When the environment was last used, rounded to a minute.
    pub last_activity_time: Option<Time>,
    /// The plans and sessions that use the environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub used_by: Vec<User>,
    /// The last handled request annotation of each kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(length(max = 16))]
    pub handled_requests: BTreeMap<String, HandledRequest>,
    /// Digest of the spec and configuration that the running or failed environment was made from.
    pub inputs_digest: Option<String>,
    /// When the start that is under way began.
    pub start_began_at: Option<Time>,
    /// Conditions: `Accepted`, `Built`, `Active`, `HooksSucceeded`, `Healthy`, `UpToDate`, `Orphaned`, `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

/// State of an environment.
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
    Hash,
    strum::IntoStaticStr,
    strum::Display,
    strum::EnumIter,
    strum::EnumMessage,
)]
pub enum ProvisioningState {
    /// Known; nothing was built or started.
    #[default]
    Discovered,
    /// The image is being built or the pod is being started.
    Building,
    /// Running.
    Active,
    /// Being stopped.
    Stopping,
    /// Stopped; it can be started again.
    Stopped,
    /// The build or the start failed.
    Failed,
}

/// One change of the state.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    /// State before.
    pub from: ProvisioningState,
    /// State after.
    pub to: ProvisioningState,
    /// Why, as one word.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// Why, for people.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// When.
    pub time: Time,
}

/// The image of an environment.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ImageStatus {
    /// Reference that the pod names.
    pub reference: String,
    /// Digest that runs, as the container runtime gives it.
    pub digest: Option<String>,
    /// Digest of everything the build depends on.
    pub inputs_digest: Option<String>,
    /// When it was built.
    pub built_at: Option<Time>,
    /// Whether it was there already.
    pub cached: Option<bool>,
}

/// A build.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BuildStatus {
    /// The build pod.
    pub pod_name: Option<String>,
    /// The instance in whose folder the build's log lies.
    pub instance: Option<String>,
    /// When it began.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// The step that failed.
    pub failing_step: Option<String>,
    /// The end of that step's log.
    #[schemars(length(max = 4096))]
    pub log_tail: Option<String>,
    /// What the next build does beyond the usual.
    pub next: Option<NextBuild>,
}

/// What a handled `rebuild` asks of the next build.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextBuild {
    /// Resolve images and features anew.
    Resolve,
    /// Build without the layer cache.
    NoCache,
}

/// The agent of an environment.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// Version of the agent.
    pub version: Option<String>,
    /// SHA-256 of the certificate that the agent made at its start.
    pub fingerprint: Option<String>,
    /// Id of this start of the container.
    pub boot_id: Option<String>,
}

/// A mount of the environment.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MountStatus {
    /// What is mounted.
    pub source: String,
    /// Where.
    pub target: String,
    /// Kind of the source: `workspace`, `volume`, `tmpfs`, `claim`, `hostPath`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it is shared with other environments.
    pub coherence: Option<Coherence>,
    /// Whether it is in use.
    pub state: MountState,
}

/// Whether a mount is in use.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountState {
    /// The environment doesn't run.
    #[default]
    Pending,
    /// The environment runs.
    Active,
}

/// Whether a tree is shared.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coherence {
    /// The workspace volume itself is mounted.
    Transparent,
    /// The instance has its own copy.
    Independent,
}

/// A port that is offered.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ForwardedPort {
    /// Port in the environment.
    pub container_port: i32,
    /// Port of the Service.
    pub service_port: Option<i32>,
    /// Its label.
    pub label: Option<String>,
}

/// A compose service beside the tool container.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ComposeServiceStatus {
    /// Name of the service.
    pub name: String,
    /// Its image.
    pub image: Option<String>,
    /// Its state.
    pub state: Option<String>,
}

/// A repository cloned into the environment.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CloneStatus {
    /// The workspace it comes from.
    pub workspace_ref: LocalRef,
    /// Where it lies.
    pub path: String,
    /// The commit checked out at its start.
    pub commit: Option<String>,
    /// The branch.
    pub branch: Option<String>,
}

/// A named volume.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatus {
    /// Name in the configuration.
    pub name: String,
    /// The claim.
    pub claim_name: String,
}

/// What a configuration says.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DevcontainerStatus {
    /// The file as written, unsubstituted (absent above 16 KiB).
    #[schemars(length(max = 16384))]
    pub config: Option<String>,
    /// SHA-256 of the file.
    pub config_digest: Option<String>,
    /// Path of the file from the workspace root.
    pub config_path: Option<String>,
    /// The workspace folder in the environment.
    pub workspace_folder: Option<String>,
    /// The mount of the workspace, as written.
    pub workspace_mount: Option<String>,
    /// The features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub features: Vec<FeatureStatus>,
    /// `onCreateCommand`, for display.
    pub on_create_command: Option<String>,
    /// `updateContentCommand`, for display.
    pub update_content_command: Option<String>,
    /// `postCreateCommand`, for display.
    pub post_create_command: Option<String>,
    /// `postStartCommand`, for display.
    pub post_start_command: Option<String>,
    /// `postAttachCommand`, for display.
    pub post_attach_command: Option<String>,
    /// The user that tools run as.
    pub remote_user: Option<String>,
    /// Names of the variables in `containerEnv`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub container_env: Vec<String>,
    /// Names of the variables in `remoteEnv`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub remote_env: Vec<String>,
    /// What the cluster, the operator's policy or this version can't honour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub unmapped: Vec<Unmapped>,
}

/// A feature of a configuration.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FeatureStatus {
    /// Its id as written.
    pub id: String,
    /// Its version, once resolved.
    pub version: Option<String>,
    /// Its digest, once resolved.
    pub digest: Option<String>,
}

/// A property that isn't honoured.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct Unmapped {
    /// The property of the configuration, or of the image.
    #[schemars(length(max = 253))]
    pub property: String,
    /// Why it isn't honoured.
    #[schemars(length(max = 512))]
    pub reason: String,
}

/// A lifecycle hook that ran.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HookStatus {
    /// The hook.
    pub name: Hook,
    /// Where it comes from: the image, a feature or the configuration.
    pub source: Option<String>,
    /// Exit code.
    pub exit_code: Option<i32>,
    /// When it began.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// The end of its output.
    #[schemars(length(max = 4096))]
    pub log_tail: Option<String>,
}

/// Who uses an environment.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Kind of the user.
    pub kind: UserKind,
    /// Its name.
    pub name: String,
}

/// Kinds of users of an environment.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UserKind {
    /// A plan.
    Plan,
    /// A tool run.
    ToolRun,
}

/// What became of a request annotation.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HandledRequest {
    /// The token that was handled: the annotation's value.
    #[schemars(length(max = 256))]
    pub token: String,
    /// Whether it was done.
    pub result: RequestResult,
    /// Why, as one word.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// Why, for people.
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// Whether a request was done.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestResult {
    /// It was carried out, or nothing was to be done.
    Done,
    /// It was refused and nothing was changed.
    Refused,
}

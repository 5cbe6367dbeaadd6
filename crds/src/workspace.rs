//! `Workspace`: a source tree.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::core::Duration;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::instance::{HandledRequest, User};
use crate::reference::{InstanceRef, SecretRef};
use crate::rule;

/// A source tree: a git repository checked out on a volume, an existing volume, or an uploaded folder.
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "drydock.dev",
    version = "v1alpha1",
    kind = "Workspace",
    plural = "workspaces",
    namespaced,
    status = "WorkspaceStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "ws",
    category = "drydock",
    doc = "A source tree: a git repository checked out on a volume, an existing volume, or an uploaded folder. Every devcontainer.json in it shows up as a DevcontainerInstance; nothing is built by that.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.revision.name"),
    printcolumn(name = "Tree", type_ = "string", json_path = ".status.treeRevision", priority = 1),
    printcolumn(name = "Claim", type_ = "string", json_path = ".status.claimName", priority = 1),
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.source.git.url", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = rule::short_name()
)]
#[x_kube(validation = rule::immutable(&["owner"], "owner can't be changed, as it owns the files that are there: make a new Workspace"))]
#[x_kube(validation = Rule::new("!has(self.storage) || !has(self.source.persistentVolumeClaim)").message("storage is for a claim that Drydock makes; source.persistentVolumeClaim brings its own: remove storage"))]
pub struct WorkspaceSpec {
    /// Where the tree comes from: exactly one kind of source.
    pub source: Source,
    /// Who owns the files. Default: 1000:1000.
    pub owner: Option<Owner>,
    /// The claim that holds the tree.
    pub storage: Option<Storage>,
    /// How the tree is scanned for configurations.
    pub discovery: Option<Discovery>,
    /// Whether the controller leaves the workspace alone: nothing is fetched or scanned.
    pub suspend: Option<bool>,
}

/// Where a tree comes from.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::exactly_one(&["git", "persistentVolumeClaim", "upload"]))]
#[x_kube(validation = Rule::new("has(self.git) == has(oldSelf.git) && has(self.upload) == has(oldSelf.upload)").message("the kind of source can't be changed: make a new Workspace"))]
pub struct Source {
    /// A git repository, by its URL.
    pub git: Option<GitSource>,
    /// A tree that lies on an existing claim. Drydock writes nothing into it.
    pub persistent_volume_claim: Option<ClaimTree>,
    /// A folder that `kubectl drydock sync` uploads.
    pub upload: Option<UploadSource>,
}

/// A git repository.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GitSource {
    /// URL of the repository: https, ssh (also `user@host:path`) or http. Credentials don't belong here, but into `secretRef`.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new("self.matches('^(https?://[^-/@\\\\s][^@\\\\s]*|ssh://([A-Za-z0-9_][A-Za-z0-9_.-]*@)?[^-/@\\\\s][^@\\\\s]*|[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^-\\\\s:][^\\\\s]*)$')").message("url must be https://HOST/PATH, http://HOST/PATH, ssh://[USER@]HOST/PATH or USER@HOST:PATH, without a password in it (use secretRef)"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("url can't be changed, as the claim holds that repository: make a new Workspace"))]
    pub url: String,
    /// Branch, tag or commit. Default: the remote's HEAD.
    #[schemars(length(min = 1, max = 255))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9_][A-Za-z0-9_./+@=-]*$') && !self.contains('..') && !self.contains('@{') && !self.contains('//') && !self.endsWith('/') && !self.endsWith('.lock')").message("revision must be the name of a branch or tag, or a commit id: letters, digits and _ . / + @ = -, not starting with '-' or '.', without '..'"))]
    pub revision: Option<String>,
    /// A `kubernetes.io/basic-auth` Secret (`username`, `password`) or a `kubernetes.io/ssh-auth` Secret (`ssh-privatekey`, and `known_hosts`); with `ca.crt` for a private CA.
    pub secret_ref: Option<SecretRef>,
    /// Whether submodules are checked out. Default: `None`.
    pub submodules: Option<Submodules>,
    /// How many commits of history are fetched. Default: all.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub depth: Option<i32>,
    /// Whether the repository is cloned onto the workspace's claim (`Claim`, the default) or only looked at (`None`, for `cloneInto`).
    pub checkout: Option<Checkout>,
    /// How often the remote is asked for a new revision, at least `10s`. Absent: only on request (annotation `drydock.dev/rescan`).
    #[x_kube(validation = Rule::new("duration(self) >= duration('10s')").message("interval must be at least 10s"))]
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::duration")]
    pub interval: Option<Duration>,
}

/// Whether submodules are checked out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Submodules {
    /// They aren't.
    #[default]
    None,
    /// They are, recursively.
    Recursive,
}

/// Where a repository is checked out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkout {
    /// On the workspace's claim.
    #[default]
    Claim,
    /// Nowhere.
    None,
}

/// A tree on an existing claim.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClaimTree {
    /// Name of the claim, in the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = crate::reference::SUBDOMAIN_PATTERN))]
    pub claim_name: String,
    /// Folder of the claim that is the tree. Default: the claim's root.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::pattern::RELATIVE_PATH))]
    #[x_kube(validation = Rule::new("!self.split('/').exists(p, p == '..')").message("subPath must stay within the claim: remove '..'"))]
    pub sub_path: Option<String>,
}

/// A folder that a client uploads.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UploadSource {}

/// Who owns the files.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// User id of the owner.
    #[schemars(range(min = 1, max = 65534))]
    pub uid: i64,
    /// Group id of the owner.
    #[schemars(range(min = 1, max = 65534))]
    pub gid: i64,
}

impl Default for Owner {
    fn default() -> Self {
        Self { uid: 1000, gid: 1000 }
    }
}

/// The claim that holds a tree.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::immutable(&["storageClassName", "accessMode", "claimName"], "storageClassName, accessMode and claimName can't be changed, as the claim is there: make a new Workspace"))]
pub struct Storage {
    /// Size of the claim. Default: `10Gi`.
    pub size: Option<Quantity>,
    /// StorageClass. Default: the cluster's.
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// Access mode. Default: `ReadWriteOnce`.
    pub access_mode: Option<AccessMode>,
    /// A claim that a deleted Workspace of the same repository left, to be taken over.
    #[schemars(length(min = 1, max = 253), regex(pattern = crate::reference::SUBDOMAIN_PATTERN))]
    pub claim_name: Option<String>,
    /// What happens to the claim when the Workspace is deleted. Default: it is kept for `168h`.
    pub reclaim: Option<Reclaim>,
}

/// Access mode of a claim.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr,
)]
pub enum AccessMode {
    /// One node at a time.
    #[default]
    ReadWriteOnce,
    /// Many nodes.
    ReadWriteMany,
    /// One pod at a time: only one environment runs.
    ReadWriteOncePod,
}

/// What happens to a claim.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Reclaim {
    /// Whether the claim is kept (`Retain`, the default) or deleted.
    pub policy: Option<ReclaimPolicy>,
    /// How long a kept claim is kept. Default: `168h`.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::duration")]
    pub after: Option<Duration>,
}

/// Whether a claim is kept.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimPolicy {
    /// Kept for a while.
    #[default]
    Retain,
    /// Deleted with the Workspace.
    Delete,
}

/// How a tree is scanned.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Discovery {
    /// Whether the tree is scanned. Default: `Enabled`.
    pub mode: Option<DiscoveryMode>,
    /// Globs of paths that are left out, beside the built-in list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub exclude: Vec<String>,
    /// How many folders deep the scan goes. Default: no limit but the built-in one.
    #[schemars(range(min = 0, max = 64))]
    pub max_depth: Option<i32>,
}

/// Whether a tree is scanned.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiscoveryMode {
    /// It is.
    #[default]
    Enabled,
    /// It isn't.
    Disabled,
}

/// Status of a Workspace.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStatus {
    /// The `metadata.generation` that this status speaks of; -1 before the controller saw the object.
    #[serde(default = "crate::schema::unobserved")]
    pub observed_generation: i64,
    /// The newest revision that was fetched.
    pub revision: Option<Revision>,
    /// The commit that the tree is at.
    pub tree_revision: Option<String>,
    /// The claim that holds the tree.
    pub claim_name: Option<String>,
    /// The configurations found, valid or not, in the order of their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    pub devcontainers: Vec<Devcontainer>,
    /// Environments that mount the tree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub used_by: Vec<InstanceRef>,
    /// Plans that have a checkout of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub plans: Vec<User>,
    /// When the remote was last asked.
    pub last_scan_time: Option<Time>,
    /// The last checkout that was attempted.
    pub last_attempt: Option<CheckoutAttempt>,
    /// The last handled request annotation of each kind.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    #[schemars(length(max = 16))]
    pub handled_requests: std::collections::BTreeMap<String, HandledRequest>,
    /// Conditions: `CheckedOut`, `Discovered`, `UpToDate`, `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

/// A fetched revision.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// Its name: branch, tag or commit.
    #[schemars(length(max = 255))]
    pub name: String,
    /// The commit.
    #[schemars(length(max = 64))]
    pub commit: String,
}

/// A checkout that was attempted.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CheckoutAttempt {
    /// Identifies what was asked for: spec, request token and scheduled time.
    #[schemars(length(max = 64))]
    pub ask: String,
    /// Uid of the pod that made it.
    #[schemars(length(max = 64))]
    pub pod_uid: Option<String>,
    /// How often it failed in a row.
    pub failures: i32,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// How it failed, as one word.
    #[schemars(length(max = 64))]
    pub reason: Option<String>,
    /// How it failed, for people.
    #[schemars(length(max = 2048))]
    pub message: Option<String>,
}

/// A configuration that was found.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Devcontainer {
    /// Name of its DevcontainerInstance.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Path of the file from the workspace root.
    #[schemars(length(max = 1024))]
    pub config_path: String,
    /// The folder it is for, from the workspace root; `.` is the root.
    #[schemars(length(max = 1024))]
    pub directory: String,
    /// Name of the configuration, for `.devcontainer/<name>/devcontainer.json`.
    #[schemars(length(max = 255))]
    pub config_name: Option<String>,
    /// Digest of the configuration and of what a build of it reads.
    #[schemars(length(max = 80))]
    pub digest: Option<String>,
    /// Why it can't be used.
    pub problem: Option<Problem>,
}

/// Why a configuration can't be used.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// As one word.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// What is wrong and how to mend it.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// The file, from the workspace root.
    #[schemars(length(max = 1024))]
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<i32>,
    /// Column, from 1.
    pub column: Option<i32>,
}

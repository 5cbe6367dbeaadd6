//! `Plan`: a piece of work, or a session of a person or an agent.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::core::Duration;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::instance::HandledRequest;
use crate::reference::LocalRef;
use crate::rule;
use crate::workspace::Devcontainer;

/// A piece of work whose tool runs belong together: a task, or a session of a person or an agent.
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "drydock.dev",
    version = "v1alpha1",
    kind = "Plan",
    plural = "plans",
    namespaced,
    status = "PlanStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "drydock",
    selectable = ".spec.projectRef.name",
    selectable = ".spec.workspaceRef.name",
    doc = "A piece of work whose tool runs belong together: a task, or a session of a person or an agent.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "State", type_ = "string", json_path = ".spec.state"),
    printcolumn(name = "Project", type_ = "string", json_path = ".spec.projectRef.name"),
    printcolumn(name = "Workspace", type_ = "string", json_path = ".spec.workspaceRef.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = rule::short_name()
)]
#[x_kube(validation = rule::exactly_one(&["projectRef", "workspaceRef"]))]
#[x_kube(validation = rule::immutable(&["projectRef", "workspaceRef", "sandbox", "branch"], "projectRef, workspaceRef, sandbox and branch can't be changed: make a new Plan"))]
#[x_kube(validation = Rule::new("!has(oldSelf.state) || oldSelf.state == 'Active' || (has(self.state) && self.state == oldSelf.state)").message("the plan has ended and stays so: make a new Plan"))]
pub struct PlanSpec {
    /// The project that the plan works on.
    pub project_ref: Option<LocalRef>,
    /// The workspace that the plan works on, without a project.
    pub workspace_ref: Option<LocalRef>,
    /// State of the work. A plan that ended stays so. Default: `Active`.
    pub state: Option<PlanState>,
    /// Whether the plan works in the shared tree (`None`, the default) or in a checkout and environments of its own (`Checkout`).
    pub sandbox: Option<Sandbox>,
    /// Branch of the plan's own checkout.
    #[schemars(length(min = 1, max = 255))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9_][A-Za-z0-9_./+@=-]*$') && !self.contains('..') && !self.contains('@{')").message("branch must be the name of a branch: letters, digits and _ . / + @ = -, not starting with '-' or '.', without '..'"))]
    pub branch: Option<String>,
    /// What happens to the plan's branch at its end.
    pub on_end: Option<OnEnd>,
    /// Whether the workspace is snapshotted before each run. Default: `Manual`.
    pub checkpoint: Option<Checkpoint>,
    /// After how long without a run the plan ends. Absent: never.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::duration")]
    pub idle_timeout: Option<Duration>,
    /// How long the ended plan is kept. Absent: until it is deleted.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// State of the work of a plan.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr,
)]
pub enum PlanState {
    /// Under way.
    #[default]
    Active,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// Called off.
    Cancelled,
}

/// Where a plan works.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// In the shared tree.
    #[default]
    None,
    /// In a checkout and environments of its own.
    Checkout,
}

/// What happens at a plan's end.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OnEnd {
    /// What happens to the plan's branch. Default: `Keep`.
    pub branch: Option<BranchEnd>,
}

/// What happens to a plan's branch.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BranchEnd {
    /// It is kept in the workspace's repository.
    #[default]
    Keep,
    /// It is pushed to the remote.
    Push,
    /// It is dropped.
    Discard,
}

/// When a workspace is snapshotted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkpoint {
    /// On request.
    #[default]
    Manual,
    /// Before each run of the plan.
    BeforeEachRun,
}

/// Status of a Plan.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// The `metadata.generation` that this status speaks of; -1 before the controller saw the object.
    #[serde(default = "crate::schema::unobserved")]
    pub observed_generation: i64,
    /// Its finished runs by outcome, and those that aren't finished.
    pub runs: Option<RunCounts>,
    /// The plan's own checkouts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub checkouts: Vec<PlanCheckout>,
    /// Snapshots taken of it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub checkpoints: Vec<LocalRef>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// The last handled request annotation of each kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(length(max = 16))]
    pub handled_requests: BTreeMap<String, HandledRequest>,
    /// Conditions: `Ready`, `Succeeded`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

/// Runs of a plan.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RunCounts {
    /// Runs that aren't finished.
    pub active: i32,
    /// Finished runs by outcome.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(length(max = 16))]
    pub finished: BTreeMap<String, i32>,
}

/// A plan's own checkout of a workspace.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PlanCheckout {
    /// The workspace.
    pub workspace: String,
    /// Its branch.
    pub branch: Option<String>,
    /// Its commit.
    pub commit: Option<String>,
    /// How many files have uncommitted changes.
    pub uncommitted: Option<i32>,
    /// The configurations found in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    pub devcontainers: Vec<Devcontainer>,
}

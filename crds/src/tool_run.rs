//! `ToolRun`: one command, routed once, executed at most once, recorded.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::reference::{InstanceKind, KeyRef, LocalRef};
use crate::rule;
use crate::tool::{Capability, Mode, Streams};

/// One command: routed once, executed at most once, recorded. It can't be changed but for `cancel`.
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "drydock.dev",
    version = "v1alpha1",
    kind = "ToolRun",
    plural = "toolruns",
    namespaced,
    status = "ToolRunStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "trun",
    category = "drydock",
    selectable = ".spec.workspaceRef.name",
    selectable = ".spec.planRef.name",
    doc = "One command: routed once, executed at most once, recorded. It can't be changed but for cancel; deleting it cancels it.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Exit", type_ = "integer", json_path = ".status.exitCode"),
    printcolumn(name = "Rule", type_ = "string", json_path = ".status.route.rule"),
    printcolumn(name = "Target", type_ = "string", json_path = ".status.route.target.name"),
    printcolumn(name = "Ms", type_ = "integer", json_path = ".status.durationMs"),
    printcolumn(name = "Outcome", type_ = "string", json_path = ".status.outcome", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = rule::short_name()
)]
#[x_kube(validation = rule::exactly_one(&["toolRef", "command", "script", "activate"]))]
#[x_kube(validation = rule::at_most_one(&["projectRef", "planRef"]))]
#[x_kube(validation = Rule::new("has(self.workspaceRef) || has(self.projectRef) || has(self.planRef) || (has(self.environment) && has(self.environment.specific))").message("say where to run: set workspaceRef, projectRef, planRef or environment.specific"))]
#[x_kube(validation = Rule::new("!has(self.path) || has(self.workspaceRef) || has(self.planRef)").message("path is relative to a workspace: set workspaceRef (or a planRef)"))]
#[x_kube(validation = Rule::new("!has(self.terminal) || (has(self.mode) && self.mode == 'Session') || has(self.toolRef)").message("terminal needs mode: Session"))]
#[x_kube(validation = Rule::new("!(has(self.stdin) && has(self.input))").message("stdin and input both feed the tool's stdin: set one of them"))]
#[x_kube(validation = rule::immutable(&["toolRef", "command", "script", "activate", "description", "args", "env", "stdin", "input", "workingDirectory", "streams", "mode", "terminal", "workspaceRef", "path", "projectRef", "planRef", "environment", "configName", "activation", "pathMapping", "timeoutSeconds", "outputLimit", "ttlSecondsAfterFinished"], "a ToolRun can't be changed but for cancel: create a new one"))]
#[x_kube(validation = Rule::new("!has(oldSelf.cancel) || !oldSelf.cancel || (has(self.cancel) && self.cancel)").message("cancel can't be taken back: create a new ToolRun"))]
pub struct ToolRunSpec {
    /// The Tool to run, by its name in the same namespace.
    pub tool_ref: Option<LocalRef>,
    /// Program and arguments. No shell is involved: nothing is expanded or split.
    #[schemars(length(min = 1, max = 1024))]
    pub command: Option<Vec<Argument>>,
    /// Script that the login shell of the environment runs; `args` are its arguments.
    #[schemars(length(min = 1, max = 65536))]
    pub script: Option<String>,
    /// Nothing is executed: the run ends `Succeeded` when the environment is ready.
    pub activate: Option<Activate>,
    /// What it is for, for people.
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Arguments after those of the tool, or of the script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub args: Vec<Argument>,
    /// Environment variables of this run alone, over those of the environment and the tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub env: Vec<RunEnvVar>,
    /// Text that the tool reads on stdin; then its stdin ends.
    #[schemars(length(max = 65536))]
    pub stdin: Option<String>,
    /// Free-form JSON object that the tool reads on stdin. Anything else than an object goes into `stdin`.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::free_form_object")]
    pub input: Option<Value>,
    /// Folder in which the tool starts: absolute, or relative to the folder of `path`. Default: that folder.
    #[schemars(length(min = 1, max = 1024))]
    pub working_directory: Option<String>,
    /// `Combined`: stdout and stderr share one pipe, order kept. Default: the tool's, else `Separate`.
    pub streams: Option<Streams>,
    /// `Session`: a client is attached, no time limit. Default: `Run`, or the tool's.
    pub mode: Option<Mode>,
    /// A pseudo terminal of that first size (in a Session).
    pub terminal: Option<Terminal>,
    /// The workspace that is worked on.
    pub workspace_ref: Option<LocalRef>,
    /// The file or folder that is worked on, relative to the workspace root. Default: the root.
    #[schemars(length(min = 1, max = 4096))]
    pub path: Option<String>,
    /// The project whose environments count.
    pub project_ref: Option<LocalRef>,
    /// The plan whose environments count.
    pub plan_ref: Option<LocalRef>,
    /// Where the run can or should go; overrides the tool's.
    pub environment: Option<Capability>,
    /// Name of the configuration, where a folder has several.
    #[schemars(length(min = 1, max = 255))]
    pub config_name: Option<String>,
    /// `Never`: an inactive environment isn't started; the run ends `NoEnvironment`. Default: `OnDemand`.
    pub activation: Option<Activation>,
    /// How paths of the caller's machine become paths of the environment.
    pub path_mapping: Option<PathMapping>,
    /// Time limit. Default: the tool's, else the operator's. Above the operator's maximum the run is rejected.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub timeout_seconds: Option<i32>,
    /// How many bytes of each stream are kept. Default: the tool's, else the operator's.
    #[schemars(range(min = 0, max = 1_099_511_627_776_i64))]
    pub output_limit: Option<i64>,
    /// How long the finished run is kept. Default: the operator's.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Set to true to cancel the run.
    pub cancel: Option<bool>,
}

/// An argument: any string without NUL.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(transparent)]
pub struct Argument(#[schemars(length(max = 65536))] pub String);

/// An environment variable of a run.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::exactly_one(&["value", "secretKeyRef"]))]
pub struct RunEnvVar {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 253), regex(pattern = crate::pattern::VARIABLE))]
    pub name: String,
    /// The value, as it is; nothing in it is expanded.
    #[schemars(length(max = 32768))]
    pub value: Option<String>,
    /// A key of a Secret; its value is handed over when the run starts.
    pub secret_key_ref: Option<KeyRef>,
}

/// Nothing is executed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Activate {}

/// First size of a pseudo terminal.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Terminal {
    /// Height of the terminal, in rows.
    #[schemars(range(min = 1, max = 4096))]
    pub rows: i32,
    /// Width of the terminal, in columns.
    #[schemars(range(min = 1, max = 4096))]
    pub columns: i32,
}

/// Whether a run may start its environment.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// It may.
    #[default]
    OnDemand,
    /// It may not.
    Never,
}

/// How paths of the caller's machine become paths of the environment.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PathMapping {
    /// Folder on the caller's machine that is the workspace root.
    #[schemars(length(min = 1, max = 4096))]
    #[x_kube(validation = Rule::new("self.startsWith('/') && self != '/' && !self.startsWith('//')").message("hostRoot must be an absolute path below '/', such as /home/me/project"))]
    pub host_root: String,
}

/// Status of a ToolRun.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(oldSelf.outcome) || (has(self.outcome) && self.outcome == oldSelf.outcome)").message("the outcome of a run never changes"))]
#[x_kube(validation = Rule::new("!has(oldSelf.claim) || (has(self.claim) && (self.claim == oldSelf.claim || self.claim.attempt > oldSelf.claim.attempt))").message("a claim changes only together with a higher attempt"))]
pub struct ToolRunStatus {
    /// The `metadata.generation` that this status speaks of; -1 before the controller saw the object.
    #[serde(default = "crate::schema::unobserved")]
    pub observed_generation: i64,
    /// Where the run goes, and why.
    pub route: Option<Route>,
    /// The limits in force.
    pub effective: Option<Effective>,
    /// The attempt to execute it, and the pod and boot that may do so.
    pub claim: Option<Claim>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Exit code of the tool.
    pub exit_code: Option<i32>,
    /// Signal that ended the tool.
    pub signal: Option<i32>,
    /// When the tool was started.
    pub started_at: Option<Time>,
    /// When the tool ended, or the run without one.
    pub finished_at: Option<Time>,
    /// How long the run took from its start, in milliseconds.
    pub duration_ms: Option<i64>,
    /// What the tool wrote to stdout.
    pub stdout: Option<Stream>,
    /// What the tool wrote to stderr.
    pub stderr: Option<Stream>,
    /// The JSON document that a tool with `resultFormat: Json` wrote.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub result: Option<Value>,
    /// Whether the document is too large to stand here.
    pub result_truncated: Option<bool>,
    /// Where the tool was executed: the audit record.
    pub container: Option<ContainerRecord>,
    /// Conditions: `Routed`, `Succeeded`, `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

/// Where a run goes, and why.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The instance.
    pub target: Option<RouteTarget>,
    /// The rule that decided. Absent: none did.
    pub rule: Option<RouteRule>,
    /// Why, for people.
    #[schemars(length(max = 1024))]
    pub reason: String,
    /// What else was considered, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub considered: Vec<Considered>,
}

/// The instance that a run goes to.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RouteTarget {
    /// Its kind.
    pub kind: InstanceKind,
    /// Its name.
    pub name: String,
    /// Its uid, once it exists.
    pub uid: Option<String>,
}

/// The rules of routing, in their order.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    strum::IntoStaticStr,
    strum::Display,
    strum::EnumIter,
    strum::EnumMessage,
)]
pub enum RouteRule {
    /// The tool requires the host.
    ToolRequiresHost,
    /// The tool requires a container.
    ToolRequiresContainer,
    /// The tool names an instance.
    ToolSpecific,
    /// The plan has an environment with priority `Override`.
    PlanOverride,
    /// The project has an environment with priority `Override`.
    ProjectOverride,
    /// The nearest dev container of the path.
    NearestDevcontainer,
    /// The plan has an environment with priority `Fallback`.
    PlanFallback,
    /// The project has an environment with priority `Fallback`.
    ProjectFallback,
    /// The tool prefers it.
    ToolPrefers,
    /// Nothing else applied.
    Host,
}

/// Something that was considered for a route.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Considered {
    /// What proposed it: a rule, or an environment by name.
    #[schemars(length(max = 256))]
    pub source: String,
    /// What it proposed.
    #[schemars(length(max = 1024))]
    pub target: Option<String>,
    /// What became of it.
    #[schemars(length(max = 1024))]
    pub verdict: String,
}

/// The limits in force for a run.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Effective {
    /// Time limit (absent in a Session).
    pub timeout_seconds: Option<i32>,
    /// How many bytes of each stream are kept.
    pub output_limit: i64,
    /// How long the finished run is kept.
    pub ttl_seconds: i32,
}

/// An attempt to execute a run.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// Number of the attempt, from 1.
    pub attempt: i32,
    /// Uid of the pod that may execute it.
    #[schemars(length(max = 64))]
    pub pod_uid: String,
    /// The start of its container that may.
    #[schemars(length(max = 64))]
    pub boot_id: String,
}

/// How a run ended.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    strum::IntoStaticStr,
    strum::Display,
    strum::EnumIter,
    strum::EnumMessage,
)]
pub enum Outcome {
    /// The tool ended with code 0.
    Succeeded,
    /// The tool ended with another code.
    NonZeroExit,
    /// A signal ended the tool.
    Signalled,
    /// The tool exceeded its time and was ended.
    TimedOut,
    /// The run was cancelled.
    Cancelled,
    /// The tool couldn't be started.
    CannotExecute,
    /// The tool ran out of memory.
    OutOfMemory,
    /// The environment was evicted under the tool.
    Evicted,
    /// The image of the environment couldn't be built.
    BuildFailed,
    /// The environment couldn't be started.
    StartFailed,
    /// No environment may or can be used.
    NoEnvironment,
    /// The run can't be carried out as written.
    Rejected,
    /// What became of the tool is unknown.
    Lost,
}

/// What a tool wrote to a stream.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Stream {
    /// Bytes written in all.
    pub bytes: i64,
    /// Lines written in all; a last one without a line end counts.
    pub lines: i64,
    /// SHA-256 of all bytes written.
    #[schemars(length(max = 64))]
    pub sha256: Option<String>,
    /// Whether more was written than is kept.
    pub truncated: bool,
    /// The beginning, without control sequences.
    #[schemars(length(max = 8192))]
    pub head: Option<String>,
    /// The end, where `head` isn't all of it.
    #[schemars(length(max = 8192))]
    pub tail: Option<String>,
}

/// Where a tool was executed.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecord {
    /// The pod.
    pub pod_name: String,
    /// Its uid.
    pub pod_uid: String,
    /// The container's id.
    pub container_id: Option<String>,
    /// Its image, by digest where the node says it.
    pub image: Option<String>,
    /// The workspace folder in it.
    pub workspace_folder: Option<String>,
    /// How long the tool itself ran, in milliseconds.
    pub exec_time_ms: Option<i64>,
    /// Exit code of the tool.
    pub exit_code: Option<i32>,
    /// Whether it exceeded its time.
    pub timed_out: Option<bool>,
}

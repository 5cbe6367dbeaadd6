//! `Tool`: a command that is known by name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::instance::EnvVar;
use crate::reference::InstanceKind;
use crate::rule;

/// A command that is known by name: what is executed, where it may run, and what it takes and gives.
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "drydock.dev",
    version = "v1alpha1",
    kind = "Tool",
    plural = "tools",
    namespaced,
    status = "ToolStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "drydock",
    doc = "A command that is known by name: what is executed, where it may run, and what it takes and gives.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = rule::short_name()
)]
#[x_kube(validation = rule::exactly_one(&["command", "script"]))]
#[x_kube(validation = Rule::new("!has(self.inputSchema) || (has(self.input) && self.input == 'JsonStdin')").message("inputSchema needs input: JsonStdin"))]
#[x_kube(validation = Rule::new("!has(self.session) || (has(self.mode) && self.mode == 'Session')").message("session needs mode: Session"))]
pub struct ToolSpec {
    /// Program and first arguments; the run's `args` follow. No shell is involved.
    #[schemars(length(min = 1, max = 256))]
    pub command: Option<Vec<String>>,
    /// Script that the login shell of the environment runs; the run's `args` are its arguments.
    #[schemars(length(min = 1, max = 65536))]
    pub script: Option<String>,
    /// Where the tool can or should run.
    pub environment: Option<Capability>,
    /// Whether the run's `input` is passed as JSON on stdin. Default: `None`.
    pub input: Option<Input>,
    /// JSON Schema that the run's `input` must satisfy.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::free_form_object")]
    pub input_schema: Option<Value>,
    /// Whether the whole stdout is one JSON document that becomes `status.result` of the run. Default: `None`.
    pub result_format: Option<ResultFormat>,
    /// Whether stdout and stderr are kept apart. Default: `Separate`.
    pub streams: Option<Streams>,
    /// Script that is run once per root file system before the first run of the tool.
    #[schemars(length(min = 1, max = 65536))]
    pub install: Option<String>,
    /// `Run` (the default), or `Session`: stdin attached, no timeout, ends with its client.
    pub mode: Option<Mode>,
    /// What a session's tool is given in a file whose path is its last argument.
    pub session: Option<SessionSpec>,
    /// Whether processes that outlive the tool are left alone. Default: false.
    pub keep_background: Option<bool>,
    /// Time limit of a run. Default: the operator's.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub timeout_seconds: Option<i32>,
    /// How many bytes of a stream are kept. Default: the operator's.
    #[schemars(range(min = 0, max = 1_099_511_627_776_i64))]
    pub output_limit: Option<i64>,
    /// Environment variables of every run of the tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub env: Vec<EnvVar>,
}

/// Where a tool can or should run.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    /// Where it must run. Default: `Any`.
    pub required: Option<Required>,
    /// Where it runs rather, where routing leaves a choice.
    pub preferred: Option<Preferred>,
    /// The one instance that it must run in.
    pub specific: Option<Specific>,
}

/// Where a tool must run.
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
pub enum Required {
    /// Anywhere.
    #[default]
    Any,
    /// In a container of the project.
    Container,
    /// On the host runner.
    Host,
}

/// Where a tool runs rather.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, strum::EnumIter, strum::Display,
)]
pub enum Preferred {
    /// In a container of the project.
    Container,
    /// On the host runner.
    Host,
}

/// One instance.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Specific {
    /// Its kind; needed only where two kinds have an instance of the name.
    pub kind: Option<InstanceKind>,
    /// Its name, in the same namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = crate::reference::NAME_PATTERN))]
    pub name: String,
}

/// How input is passed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// It isn't.
    #[default]
    None,
    /// As JSON on stdin.
    JsonStdin,
}

/// What stdout is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultFormat {
    /// Bytes.
    #[default]
    None,
    /// One JSON document.
    Json,
}

/// Whether stdout and stderr are kept apart.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// They are.
    #[default]
    Separate,
    /// One pipe, order kept.
    Combined,
}

/// How a tool is executed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By itself, with a time limit.
    #[default]
    Run,
    /// With a client attached, without a time limit.
    Session,
}

/// What a session's tool is given.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SessionSpec {
    /// Packages that `install` gets as arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub plugins: Vec<String>,
    /// Free-form configuration, written to the file as it is.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::free_form_object")]
    pub config: Option<Value>,
}

/// Status of a Tool.
#[skip_serializing_none]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ToolStatus {
    /// The `metadata.generation` that this status speaks of; -1 before the controller saw the object.
    #[serde(default = "crate::schema::unobserved")]
    pub observed_generation: i64,
    /// Conditions: `Accepted`, `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

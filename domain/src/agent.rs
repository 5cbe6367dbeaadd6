//! What is known of the agent in an environment, and what may be asked of it.
//!
//! The controller keeps these facts in memory. They are answers of agents, so they are never trusted beyond their own pod: a result
//! ends only the run that was claimed for that pod and boot.

use drydock_crds::reference::KeyRef;
use drydock_protocol::agent::RunResult;
use jiff::Timestamp;

/// A pod in which an agent runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid: another pod of the same name is another pod.
    pub uid: String,
}

/// What is known of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentFacts {
    /// Its last hello; absent before the first.
    pub hello: Option<Hello>,
    /// Since when it doesn't answer; absent while it does, and before it was asked.
    pub unreachable_since: Option<Timestamp>,
    /// The last reason why it didn't.
    pub last_error: Option<String>,
    /// The last answer to a seal, of this boot.
    pub seal: SealFact,
}

/// An agent's hello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Version of the agent.
    pub version: String,
    /// This start of its container.
    pub boot_id: String,
    /// SHA-256 of its certificate, where the channel is TLS.
    pub fingerprint: Option<String>,
    /// Well-known executables in the environment.
    pub executables: Vec<String>,
}

/// Whether the agent is sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SealFact {
    /// It isn't, as far as is known.
    #[default]
    Open,
    /// It is: no run starts there any more.
    Sealed,
    /// It refused: this many runs were unfinished at that time.
    RunsActive {
        /// When it refused.
        at: Timestamp,
    },
}

/// What is known of one attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AttemptFact {
    /// Nothing: it wasn't sent, or the controller is new.
    #[default]
    Unknown,
    /// Its agent runs it.
    Running,
    /// It ended.
    Finished(Box<RunResult>),
    /// Its agent journalled that it never runs there.
    Refused(RefusedAttempt),
    /// It couldn't be sent as it is: what is wrong, for people. It never ran.
    Unsendable(String),
    /// Its agent is another boot than the claim names.
    OtherBoot,
}

/// Why an attempt never runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedAttempt {
    /// The agent is sealed: another attempt may be made.
    Sealed,
    /// It was cancelled before it was started.
    CancelledBeforeStart,
}

/// What may be asked of an agent. The controller adds its fencing epoch to each.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentCall {
    /// Keep a connection to this pod's agent and its facts fresh (idempotent).
    Connect(PodRef),
    /// Start an attempt, or learn of the one that exists; then its result becomes a fact.
    Start(Box<StartCall>),
    /// End an attempt.
    Cancel {
        /// The pod of the claim.
        pod: PodRef,
        /// Uid of the run.
        run_uid: String,
        /// Number of the attempt.
        attempt: u32,
    },
    /// Refuse every further start, provided that nothing is active.
    Seal {
        /// The pod.
        pod: PodRef,
        /// The boot that is meant.
        boot_id: String,
    },
    /// Take a seal back.
    Unseal {
        /// The pod.
        pod: PodRef,
        /// The boot that is meant.
        boot_id: String,
    },
}

/// An attempt, as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct StartCall {
    /// The pod of the claim.
    pub pod: PodRef,
    /// The boot of the claim.
    pub boot_id: String,
    /// The run.
    pub run: RunRef,
    /// Number of the attempt.
    pub attempt: u32,
    /// What is executed.
    pub what: What,
    /// Environment, in order; a later variable of a name wins.
    pub env: Vec<Variable>,
    /// The whole standard input.
    pub stdin: Vec<u8>,
    /// User, as the protocol has it; empty: the agent's default.
    pub user: String,
    /// Absolute folder; empty: the agent's default.
    pub working_directory: String,
    /// Whether that names what is worked on, maybe a file: the nearest folder above is meant.
    pub nearest_directory: bool,
    /// Time limit in milliseconds; 0: none.
    pub timeout_ms: u64,
    /// Bytes kept of each stream.
    pub output_limit: u64,
    /// Whether stdout and stderr share a pipe.
    pub combined: bool,
    /// Whether processes that outlive the tool are left alone.
    pub keep_background: bool,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// What is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A program with arguments.
    Argv(Vec<String>),
    /// A script for the login shell, with arguments.
    Script {
        /// Its text.
        text: String,
        /// Its arguments.
        args: Vec<String>,
    },
}

/// A variable of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Value.
    pub value: VariableValue,
}

/// Where a variable's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableValue {
    /// It is this.
    Literal(String),
    /// A key of a Secret in the run's namespace, read when the run is sent.
    Secret(KeyRef),
    /// A key of a ConfigMap in the run's namespace, read when the run is sent.
    ConfigMap(KeyRef),
    /// All keys of a Secret that are valid names of variables; the name of this variable is ignored.
    WholeSecret(String),
}

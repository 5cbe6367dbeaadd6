//! Condition types and reasons: a closed vocabulary, documented as API.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The types of conditions. Which kind has which stands in `docs/reference/conditions.md`.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::IntoStaticStr,
    strum::Display,
    strum::EnumIter,
    strum::EnumMessage,
)]
pub enum ConditionType {
    /// What the kind promises holds (see each kind).
    Ready,
    /// Work towards the spec is under way (kstatus).
    Reconciling,
    /// It can't go on without a person (kstatus).
    Stalled,
    /// The object is valid and everything it names exists.
    Accepted,
    /// The source tree is checked out, or reachable.
    CheckedOut,
    /// The source tree was scanned for configurations.
    Discovered,
    /// The image is there.
    Built,
    /// The environment runs.
    Active,
    /// No lifecycle hook has failed.
    HooksSucceeded,
    /// The environment answers its health probe.
    Healthy,
    /// What runs is what the source and spec say.
    UpToDate,
    /// What the object belongs to is gone.
    Orphaned,
    /// A run has its route.
    Routed,
    /// It ended, and well.
    Succeeded,
}

impl ConditionType {
    /// The type as it stands in `status.conditions`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The condition of this type in `conditions`.
    #[must_use]
    pub fn find(self, conditions: &[Condition]) -> Option<&Condition> {
        conditions.iter().find(|c| c.type_ == self.as_str())
    }

    /// Whether the condition of this type is there and `True`.
    #[must_use]
    pub fn is_true(self, conditions: &[Condition]) -> bool {
        self.find(conditions).is_some_and(|c| c.status == "True")
    }
}

/// The reasons of conditions, transitions, Events and refused requests.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::IntoStaticStr,
    strum::Display,
    strum::EnumString,
    strum::EnumIter,
    strum::EnumMessage,
)]
pub enum Reason {
    /// All is as the spec says.
    Ready,
    /// The object is valid.
    Accepted,
    /// The object waits for the controller.
    Pending,
    /// Work is under way.
    Progressing,
    /// The object is being deleted.
    Terminating,
    /// `spec.suspend` is set.
    Suspended,
    /// The field, request or property is in the API already, and its behaviour isn't there yet.
    NotImplemented,
    /// The spec holds a value that can't be used.
    InvalidSpec,
    /// Policy of the operator refuses it.
    PolicyDenied,
    /// A name that Drydock needs belongs to something else.
    NameConflict,

    /// The checkout is under way.
    CheckingOut,
    /// The tree is checked out.
    CheckedOut,
    /// The tree was scanned.
    Scanned,
    /// Nothing in the tree is to be scanned.
    DiscoveryDisabled,
    /// The claim isn't bound or doesn't exist.
    ClaimPending,
    /// The claim named may not be taken over.
    ClaimRefused,
    /// The claim named doesn't exist.
    ClaimNotFound,
    /// The Secret named doesn't exist or lacks a key.
    SecretInvalid,
    /// The remote refused the credentials.
    AuthenticationFailed,
    /// The remote has no such repository.
    RepositoryNotFound,
    /// The repository has no such revision.
    RevisionNotFound,
    /// The remote's ssh host key isn't among `known_hosts`.
    HostKeyUnknown,
    /// The remote can't be reached.
    SourceUnreachable,
    /// The URL can't be used.
    InvalidUrl,
    /// The volume is full.
    NoSpace,
    /// The source is larger than the bounds allow.
    TooLarge,
    /// The checkout failed in another way.
    CheckoutFailed,
    /// The tree has uncommitted changes, so it wasn't moved.
    DirtyTree,
    /// An environment mounts the tree, so it wasn't moved.
    TreeInUse,
    /// The tree is at the newest revision.
    UpToDate,

    /// Known, and nothing was built or started.
    Discovered,
    /// The image or the pod is being made.
    Building,
    /// The environment runs.
    Active,
    /// The environment is being stopped.
    Stopping,
    /// The environment was stopped.
    Stopped,
    /// A tool run needs it.
    RunPending,
    /// The spec asks for it.
    DesiredActive,
    /// The spec asks for it to be stopped.
    DesiredStopped,
    /// Nothing used it for `idleTimeout`.
    IdleTimeout,
    /// A request annotation asked for it.
    Requested,
    /// A request asked to try again.
    Retry,
    /// The inputs changed since it failed.
    InputsChanged,
    /// What the object belongs to is being deleted.
    OwnerDeleted,
    /// The configuration file isn't there.
    ConfigNotFound,
    /// The configuration file can't be read.
    InvalidConfig,
    /// The configuration needs an image build, which isn't available.
    BuildUnavailable,
    /// The build failed.
    BuildFailed,
    /// The environment did not come up.
    StartFailed,
    /// The image can't be pulled.
    ImagePullFailed,
    /// The pod can't be scheduled.
    Unschedulable,
    /// The container can't be created or started.
    ContainerFailed,
    /// The pod isn't up within `startTimeout`.
    StartTimeout,
    /// The cluster refused the pod.
    PodRejected,
    /// The pod was lost; what was in its file system outside volumes is lost with it.
    PodLost,
    /// The container ended.
    ContainerExited,
    /// The pod was evicted.
    Evicted,
    /// The container ran out of memory.
    OutOfMemory,
    /// The agent doesn't answer.
    AgentUnreachable,
    /// The environment doesn't answer its health probe.
    Unhealthy,
    /// The node can't be reached.
    NodeUnreachable,
    /// Pods that share a volume can't be brought to one node.
    NodeConflict,
    /// The file system of the container was discarded.
    StateDiscarded,
    /// Runs are active in it.
    RunsActive,
    /// `spec.desiredState` says otherwise.
    DesiredStateConflict,
    /// Nothing was to be done.
    NothingToDo,
    /// The request was carried out.
    Done,
    /// The configuration changed since it was started.
    ConfigurationChanged,
    /// The spec changed since it was started.
    SpecChanged,
    /// The Workspace is gone.
    WorkspaceGone,
    /// The plan's checkout is gone.
    CheckoutGone,
    /// The configuration is gone.
    ConfigurationGone,
    /// The Workspace has no claim that could be mounted.
    NotMountable,
    /// The Workspace's source isn't git.
    NotCloneable,
    /// A lifecycle hook has failed.
    HookFailed,
    /// No lifecycle hook has failed.
    HooksSucceeded,
    /// No image is needed, or it is there.
    Built,
    /// The environment answers.
    Healthy,
    /// Nothing was seen of it yet.
    Unknown,
    /// It belongs to what it should.
    Owned,

    /// The target named doesn't exist.
    TargetNotFound,
    /// The target isn't linked to the project.
    TargetNotLinked,
    /// The project or plan named doesn't exist.
    ScopeNotFound,
    /// An older object has the same scope and priority.
    Conflicted,
    /// Something that the object names doesn't exist.
    ReferenceNotFound,
    /// What it refers to isn't ready.
    WaitingForReference,

    /// The route is decided.
    Routed,
    /// The run waits for its environment.
    WaitingForEnvironment,
    /// The run waits for its turn.
    Queued,
    /// The run is under way.
    Running,
    /// The run ended well.
    Succeeded,
    /// The tool ended with another code than 0.
    NonZeroExit,
    /// A signal ended the tool.
    Signalled,
    /// The tool exceeded its time.
    TimedOut,
    /// The run was cancelled.
    Cancelled,
    /// The tool couldn't be started.
    CannotExecute,
    /// No environment may or can be used.
    NoEnvironment,
    /// The environment isn't active, and the run may not start it.
    NotActive,
    /// Dev containers are turned off by the operator.
    DevcontainersDisabled,
    /// The run can't be carried out as written.
    Rejected,
    /// What became of the tool is unknown.
    Lost,

    /// The plan is at work.
    PlanActive,
    /// The plan ended as completed.
    PlanCompleted,
    /// The plan ended as failed.
    PlanFailed,
    /// The plan was cancelled.
    PlanCancelled,
}

impl Reason {
    /// The reason as it stands in a condition.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

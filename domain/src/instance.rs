//! What becomes of an instance, of either kind: the state machine of an environment.
//!
//! The state is written ahead: an effect that changes the world follows in the pass after the one that wrote why.

mod active;
mod inactive;
mod report;
pub mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drydock_crds::condition::Reason;
use drydock_crds::instance::{DesiredState, InstanceSpec, InstanceStatus, ProvisioningState};
use drydock_crds::label::Role;
use drydock_crds::reference::InstanceKind;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::agent::AgentFacts;
use crate::blueprint::{Acceptance, Blueprint};
use crate::condition::Conditions;
use crate::decision::{Decision, Effect, Notice, NoticeKind, Wake};
use crate::lifecycle;
use crate::pod::PodFact;
use crate::settings::{Installation, Settings};

/// How long an agent may be silent before a stop no longer waits for its seal.
const SILENCE: Duration = Duration::from_secs(60);
/// How long the runs of a workspace that is being deleted have to be cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(25);
/// The first wait before a failed start is tried again for a new run.
const RETRY_FIRST: Duration = Duration::from_secs(10);
/// The longest such wait.
const RETRY_MOST: Duration = Duration::from_secs(300);

/// Everything an instance is decided by.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Who it is.
    pub identity: Identity,
    /// The shared block of its spec.
    pub spec: InstanceSpec,
    /// Its status so far.
    pub status: InstanceStatus,
    /// Whether it could be started, and what would be.
    pub acceptance: Acceptance,
    /// Its pods, by owner uid.
    pub pods: Vec<PodFact>,
    /// Why its pod can't be made, where something foreign has its name.
    pub conflict: Option<String>,
    /// What the cluster said when it last refused to make its pod or a claim of it.
    pub refused: Option<String>,
    /// Claims of named volumes that are there.
    pub volumes: BTreeSet<String>,
    /// Who wants it.
    pub demand: Demand,
    /// What is known of the agent in its present pod.
    pub agent: AgentFacts,
    /// The settings of its namespace.
    pub settings: Settings,
    /// What the controller was installed with.
    pub installation: Installation,
    /// When it was observed.
    pub now: Timestamp,
}

/// Who an instance is.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Its kind.
    pub kind: InstanceKind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Its annotations: requests are among them.
    pub annotations: BTreeMap<String, String>,
    /// When it was created.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The reference by which its children are its own.
    pub owner: OwnerReference,
    /// What it is for.
    pub role: Role,
    /// The workspace it belongs to.
    pub workspace: Option<String>,
    /// Since when that workspace is being deleted.
    pub workspace_deleting_since: Option<Timestamp>,
}

/// Who wants an environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demand {
    /// Runs routed to it that may start it and aren't claimed.
    pub waiting: usize,
    /// Runs claimed and not finished.
    pub active: usize,
    /// Names of some of the active ones.
    pub active_names: Vec<String>,
    /// When the last finished run ended.
    pub last_finished: Option<Timestamp>,
}

/// A decision on its way: what is changed so far.
struct Draft<'a> {
    seen: &'a Observed,
    status: InstanceStatus,
    effects: Vec<Effect>,
    notices: Vec<Notice>,
    wake: Wake,
    /// What `Ready` says while something is under way.
    waiting: Option<(Reason, String)>,
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed) -> Decision<InstanceStatus> {
    let mut draft = Draft {
        seen,
        status: seen.status.clone(),
        effects: Vec::new(),
        notices: Vec::new(),
        wake: Wake::OnChange,
        waiting: None,
    };
    if seen.identity.deleting {
        return Decision::nothing();
    }
    draft.status.observed_generation = seen.identity.generation;
    draft.status.provisioning_state.get_or_insert_default();
    draft.describe();
    draft.answer_requests();
    match draft.state() {
        ProvisioningState::Discovered | ProvisioningState::Stopped => draft.at_rest(),
        ProvisioningState::Building => draft.building(),
        ProvisioningState::Active => draft.active(),
        ProvisioningState::Stopping => draft.stopping(),
        ProvisioningState::Failed => draft.failed(),
    }
    draft.report();
    Decision { effects: draft.effects, status: Some(draft.status), notices: draft.notices, wake: draft.wake }
}

impl Draft<'_> {
    fn state(&self) -> ProvisioningState {
        self.status.provisioning_state.unwrap_or_default()
    }

    fn desired(&self) -> DesiredState {
        self.seen.spec.desired_state.unwrap_or_default()
    }

    /// Goes to another state. What the new state needs is done in the next pass, which follows at once.
    fn step(&mut self, to: ProvisioningState, reason: Reason, message: impl Into<String>) {
        let message = message.into();
        if lifecycle::step(&mut self.status, to, reason, message.clone(), self.seen.now) {
            let kind = match to {
                ProvisioningState::Failed => NoticeKind::Warning,
                _ => NoticeKind::Normal,
            };
            self.notices.push(Notice {
                kind,
                reason: reason.to_string(),
                message: format!("{to}: {message}"),
            });
            self.wake = Wake::Again;
        }
    }

    fn wait(&mut self, reason: Reason, message: impl Into<String>) {
        self.waiting = Some((reason, message.into()));
    }

    fn blueprint(&self) -> Option<&Blueprint> {
        self.seen.acceptance.blueprint()
    }

    /// Why it should start, if it should.
    fn wanted(&self) -> Option<(Reason, String)> {
        match self.desired() {
            DesiredState::Stopped => None,
            DesiredState::Active => Some((Reason::DesiredActive, "spec.desiredState is Active".into())),
            DesiredState::Auto if self.seen.demand.waiting > 0 => {
                let runs = self.seen.demand.waiting;
                Some((
                    Reason::RunPending,
                    format!("{runs} tool run{} need it", if runs == 1 { "" } else { "s" }),
                ))
            }
            DesiredState::Auto => None,
        }
    }

    /// The pod that is the environment now: not on its way out.
    fn present_pod(&self) -> Option<&PodFact> {
        self.seen.pods.iter().filter(|p| p.deleting_since.is_none()).max_by_key(|p| p.created)
    }

    /// The pod that the status names.
    fn recorded_pod(&self) -> Option<&PodFact> {
        let uid = self.status.pod_uid.as_deref()?;
        self.seen.pods.iter().find(|p| p.pod.uid == uid)
    }

    /// Forgets what was true of the pod that is gone.
    fn forget_pod(&mut self) {
        self.status.pod_name = None;
        self.status.pod_uid = None;
        self.status.container_id = None;
        self.status.engine_type = None;
        self.status.agent = None;
        self.status.executables = Vec::new();
        self.status.start_began_at = None;
    }

    fn conditions(&self) -> Conditions {
        Conditions::new(&self.seen.status.conditions, self.seen.identity.generation, self.seen.now)
    }
}

/// When a failed start may be tried again for a new run: the wait doubles with each failure in a row.
#[must_use]
pub fn retry_due(status: &InstanceStatus) -> Option<Timestamp> {
    let last = status.transitions.last().filter(|t| t.to == ProvisioningState::Failed)?;
    if !is_transient(&last.reason) {
        return None;
    }
    let failures = status
        .transitions
        .iter()
        .rev()
        .take_while(|t| t.to == ProvisioningState::Failed || t.from == ProvisioningState::Failed)
        .filter(|t| t.to == ProvisioningState::Failed)
        .count();
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    let wait = RETRY_FIRST.saturating_mul(1 << doublings).min(RETRY_MOST);
    Some(crate::decision::after(last.time.0, wait))
}

/// Whether a start that failed for this reason may succeed later without anybody changing anything.
fn is_transient(reason: &str) -> bool {
    let permanent =
        [Reason::BuildUnavailable, Reason::InvalidConfig, Reason::PolicyDenied, Reason::NotImplemented];
    !permanent.iter().any(|p| p.as_str() == reason)
}

#[cfg(test)]
mod tests;

//! What becomes of a ToolRun: routed once, claimed, executed at most once, finished once, and removed in the end.
//!
//! Route and claim are written before the agent is told to start; whatever crashes, the next pass finds in the status how far the run
//! is and in the agent's journal what became of it.

pub mod admission;
mod execution;
mod finish;
pub mod start;
pub mod waiting;

use std::sync::Arc;
use std::time::Duration;

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::reference::InstanceRef;
use drydock_crds::tool_run::{ToolRun, ToolRunStatus};
use drydock_crds::{InstanceSpec, InstanceStatus, Tool, Workspace};
use jiff::Timestamp;

use crate::agent::{AgentFacts, AttemptFact};
use crate::blueprint::RunContext;
use crate::condition::{Conditions, Truth};
use crate::decision::{Decision, Deletion, Effect, Wake, after, resource_of};
use crate::pod::{End, PodFact};
use crate::settings::{Installation, Settings};

pub use admission::Admission;

/// Everything a ToolRun is decided by.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub run: Arc<ToolRun>,
    /// Whether and where it may run; looked at while it isn't routed.
    pub admission: Admission,
    /// The Tool it names.
    pub tool: Option<Arc<Tool>>,
    /// The workspace it works on.
    pub workspace: Option<Arc<Workspace>>,
    /// Why it is to be cancelled though it doesn't say so itself: its plan has ended, say.
    pub cancelled_by: Option<String>,
    /// The instance it is or would be routed to; absent where that doesn't exist.
    pub target: Option<TargetFacts>,
    /// What became of the pod that its claim names.
    pub claimed_pod: ClaimedPod,
    /// What is known of its attempt.
    pub attempt: AttemptFact,
    /// Who else uses the target.
    pub queue: Queue,
    /// The settings of its namespace.
    pub settings: Settings,
    /// What the controller was installed with.
    pub installation: Installation,
    /// When it was observed.
    pub now: Timestamp,
}

/// An instance that a run goes to.
#[derive(Clone, Debug)]
pub struct TargetFacts {
    /// Kind and name.
    pub instance: InstanceRef,
    /// Its uid.
    pub uid: String,
    /// Its `metadata.generation`.
    pub generation: i64,
    /// The shared block of its spec.
    pub spec: InstanceSpec,
    /// Its status.
    pub status: InstanceStatus,
    /// Its running pod.
    pub pod: Option<PodFact>,
    /// Where things are in that pod.
    pub context: RunContext,
    /// What is known of the agent in that pod.
    pub agent: AgentFacts,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its image, where it is a host runner that Drydock made.
    pub host_image: Option<String>,
}

/// What became of the pod that a claim names.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ClaimedPod {
    /// There is no claim.
    #[default]
    None,
    /// It is there, maybe on its way out.
    Present(Box<PodFact>),
    /// Its object is there and its container ended.
    Ended(Box<PodFact>, End),
    /// Its object is gone.
    Gone,
}

/// The runs of one environment, in the order in which the controller saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Runs that are claimed and not finished.
    pub active: usize,
    /// Runs before this one that wait.
    pub ahead: usize,
}

/// A decision on its way.
struct Draft<'a> {
    seen: &'a Observed,
    status: ToolRunStatus,
    conditions: Conditions,
    effects: Vec<Effect>,
    wake: Wake,
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed) -> Decision<ToolRunStatus> {
    let meta = &seen.run.metadata;
    if meta.deletion_timestamp.is_some() {
        return Decision::nothing();
    }
    let status = seen.run.status.clone().unwrap_or_default();
    if status.outcome.is_some() {
        return finished(seen, status);
    }
    let generation = meta.generation.unwrap_or_default();
    let conditions = Conditions::new(&status.conditions, generation, seen.now);
    let mut draft = Draft { seen, status, conditions, effects: Vec::new(), wake: Wake::OnChange };
    draft.status.observed_generation = generation;
    if draft.status.claim.is_some() && !draft.awaits_new_attempt() {
        draft.executing();
    } else if draft.status.route.is_some() {
        draft.waiting();
    } else {
        draft.unrouted();
    }
    draft.status.conditions = draft.conditions.finish();
    Decision { effects: draft.effects, status: Some(draft.status), notices: Vec::new(), wake: draft.wake }
}

/// A finished run stays as it is until its time to live is over.
fn finished(seen: &Observed, status: ToolRunStatus) -> Decision<ToolRunStatus> {
    let ttl = status.effective.as_ref().map(|e| e.ttl_seconds).or(seen.run.spec.ttl_seconds_after_finished);
    let ttl =
        ttl.map_or(seen.settings.runs.ttl.0, |s| Duration::from_secs(u64::try_from(s).unwrap_or_default()));
    let finished_at = status.finished_at.as_ref().map_or(seen.now, |t| t.0);
    let expiry = after(finished_at, ttl);
    let mut decision = Decision { wake: Wake::At(expiry), ..Decision::status(status) };
    if seen.now >= expiry {
        let meta = &seen.run.metadata;
        decision.wake = Wake::OnChange;
        decision.effects.push(Effect::Delete(Deletion {
            resource: resource_of::<ToolRun>(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: None,
            grace_seconds: None,
        }));
    }
    decision
}

impl Draft<'_> {
    /// Why the run is to be cancelled, if it is.
    fn cancellation(&self) -> Option<String> {
        if self.seen.run.spec.cancel == Some(true) {
            return Some("spec.cancel was set".into());
        }
        self.seen.cancelled_by.clone()
    }

    /// The run waits; `Ready` says for what.
    fn pending(&mut self, reason: Reason, message: impl Into<String>) {
        let message = message.into();
        self.conditions.set(ConditionType::Succeeded, Truth::Unknown, reason, message.clone());
        self.conditions.progressing(Truth::False, reason, message);
    }

    /// Whether its last attempt was refused by a sealed agent, which was written down: it waits for another attempt.
    fn awaits_new_attempt(&self) -> bool {
        let ready =
            ConditionType::Ready.find(self.seen.run.status.as_ref().map_or(&[][..], |s| &s.conditions[..]));
        ready.is_some_and(|c| c.reason != Reason::Running.as_str())
    }
}

#[cfg(test)]
mod tests;

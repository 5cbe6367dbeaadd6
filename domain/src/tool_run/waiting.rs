//! Not claimed yet: it waits for its route, its environment, its turn.

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::instance::{DesiredState, ProvisioningState};
use drydock_crds::tool_run::{Activation, Claim, Outcome, ToolRun};
use drydock_crds::workspace::Owner;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Admission, Draft, TargetFacts};
use crate::agent::{AgentCall, SealFact};
use crate::condition::Truth;
use crate::decision::{Effect, Object, Wake, after, owner_reference};
use crate::instance::retry_due;
use crate::reference::GRACE;
use crate::render::host;
use crate::tool_run::admission::Destination;

impl Draft<'_> {
    pub(super) fn unrouted(&mut self) {
        if let Some(why) = self.cancellation() {
            return self.end(
                Outcome::Cancelled,
                Reason::Cancelled,
                format!("cancelled before it was routed: {why}"),
            );
        }
        match &self.seen.admission {
            Admission::Settled => {}
            Admission::Wait { reason, message, until } => {
                if let Some(until) = until {
                    self.wake = Wake::At(*until);
                }
                self.conditions.set(ConditionType::Routed, Truth::Unknown, *reason, message.clone());
                self.pending(*reason, message.clone());
            }
            Admission::End { outcome, reason, message, route } => {
                self.status.route = route.as_deref().cloned();
                self.conditions.set(ConditionType::Routed, Truth::False, *reason, message.clone());
                self.end(*outcome, *reason, message.clone());
            }
            Admission::Go(destination) => self.routed(&destination.clone()),
        }
    }

    fn routed(&mut self, destination: &Destination) {
        self.status.route = Some(destination.route.clone());
        self.status.effective = Some(destination.effective.clone());
        self.conditions.set(
            ConditionType::Routed,
            Truth::True,
            Reason::Routed,
            destination.route.reason.clone(),
        );
        if destination.host && !self.must_be_active() && !self.has_host_runner() {
            return;
        }
        self.waiting();
    }

    /// Sees to the host runner: made where it isn't there, given another image where the operator's changed, and never something else
    /// that has its name.
    fn has_host_runner(&mut self) -> bool {
        let wanted = self.host_image().to_owned();
        match self.seen.target.as_ref().map(|target| target.host_image.clone()) {
            Some(Some(image)) => {
                if image != wanted {
                    self.make_host_runner(&wanted);
                }
                true
            }
            Some(None) => {
                let name = self.status.route.as_ref().and_then(|r| r.target.as_ref()).map(|t| t.name.clone());
                let message = format!(
                    "ContainerInstance {} has the name of the workspace's host runner and isn't Drydock's: rename it",
                    name.unwrap_or_default()
                );
                self.end(Outcome::NoEnvironment, Reason::NameConflict, message);
                false
            }
            None => {
                self.make_host_runner(&wanted);
                self.pending(Reason::WaitingForEnvironment, "the host runner of the workspace is being made");
                false
            }
        }
    }

    /// The operator's image of host runners.
    fn host_image(&self) -> &str {
        let configured = self.seen.settings.environments.host_image.as_deref();
        configured.unwrap_or(&self.seen.installation.tools_image)
    }

    /// The host runner belongs to the workspace; it starts because this run waits for it.
    fn make_host_runner(&mut self, image: &str) {
        let Some(workspace) = &self.seen.workspace else {
            return;
        };
        let Some(owner) = owner_reference(workspace.as_ref()) else {
            return;
        };
        let namespace = workspace.metadata.namespace.as_deref().unwrap_or_default();
        let name = workspace.metadata.name.as_deref().unwrap_or_default();
        let files: Owner = workspace.spec.owner.unwrap_or_default();
        let runner = host::runner(namespace, name, owner, files, image);
        self.effects.push(Effect::Apply(Object::of(&runner, &())));
    }

    fn must_be_active(&self) -> bool {
        self.seen.run.spec.activation == Some(Activation::Never)
    }

    pub(super) fn waiting(&mut self) {
        if let Some(why) = self.cancellation() {
            return self.end(
                Outcome::Cancelled,
                Reason::Cancelled,
                format!("cancelled before it was started: {why}"),
            );
        }
        let Some(target) = &self.seen.target else {
            return self.without_target();
        };
        if target.deleting {
            let message = format!("{} {} is being deleted", target.instance.kind, target.instance.name);
            return self.end(Outcome::NoEnvironment, Reason::NoEnvironment, message);
        }
        if let Some(target_uid) = self.status.route.as_mut().and_then(|r| r.target.as_mut()) {
            target_uid.uid = Some(target.uid.clone());
        }
        let state = target.status.provisioning_state.unwrap_or_default();
        if self.must_be_active() && state != ProvisioningState::Active {
            let message = format!(
                "{} {} is {state}, and the run may not start it",
                target.instance.kind, target.instance.name
            );
            return self.end(Outcome::NoEnvironment, Reason::NotActive, message);
        }
        match state {
            ProvisioningState::Active => self.ask_for_turn(&target.clone()),
            ProvisioningState::Failed => self.meet_failure(&target.clone()),
            ProvisioningState::Discovered
            | ProvisioningState::Building
            | ProvisioningState::Stopping
            | ProvisioningState::Stopped => self.await_start(&target.clone(), state),
        }
    }

    /// The instance isn't there: it is being made, or somebody deleted it.
    fn without_target(&mut self) {
        let name = self.status.route.as_ref().and_then(|r| r.target.as_ref());
        let name = name.map(|t| format!("{} {}", t.kind, t.name)).unwrap_or_default();
        let created = self.seen.run.metadata.creation_timestamp.as_ref().map_or(self.seen.now, |t| t.0);
        let routed = ConditionType::Routed
            .find(&self.seen.run.status.clone().unwrap_or_default().conditions)
            .map_or(self.seen.now, |c| c.last_transition_time.0);
        let until = after(created.max(routed), GRACE);
        if self.must_be_active() || self.seen.now >= until {
            return self.end(Outcome::NoEnvironment, Reason::TargetNotFound, format!("{name} isn't there"));
        }
        self.wake = self.wake.min(Wake::At(until));
        self.pending(Reason::WaitingForEnvironment, format!("waiting for {name} to be made"));
    }

    fn await_start(&mut self, target: &TargetFacts, state: ProvisioningState) {
        let name = format!("{} {}", target.instance.kind, target.instance.name);
        if target.spec.desired_state == Some(DesiredState::Stopped) {
            let message = format!("{name} has desiredState Stopped");
            return self.end(Outcome::NoEnvironment, Reason::DesiredStopped, message);
        }
        let seen = target.status.observed_generation == target.generation;
        let conditions = &target.status.conditions;
        if let Some(stalled) = ConditionType::Stalled.find(conditions).filter(|c| seen && c.status == "True")
        {
            let reason = stalled.reason.parse().unwrap_or(Reason::NoEnvironment);
            let message = format!("{name} can't be started: {}", stalled.message);
            return self.end(Outcome::NoEnvironment, reason, message);
        }
        let said = ConditionType::Ready.find(conditions).map(|c| c.message.clone()).unwrap_or_default();
        let message = match state {
            ProvisioningState::Building => format!("{name} is starting: {said}"),
            ProvisioningState::Stopping => format!("{name} is stopping and will be started again"),
            _ => format!("{name} is being started"),
        };
        self.pending(Reason::WaitingForEnvironment, message);
    }

    /// A failure is this run's too, unless the instance is about to try again.
    fn meet_failure(&mut self, target: &TargetFacts) {
        let name = format!("{} {}", target.instance.kind, target.instance.name);
        let conditions = &target.status.conditions;
        let unseen = target.status.observed_generation != target.generation;
        let changed = ConditionType::UpToDate.find(conditions).is_some_and(|c| c.status == "False");
        let created = self.seen.run.metadata.creation_timestamp.as_ref().map_or(self.seen.now, |t| t.0);
        let due = retry_due(&target.status).is_some_and(|due| created >= due);
        if unseen || changed || due {
            return self
                .pending(Reason::WaitingForEnvironment, format!("{name} failed and is being tried again"));
        }
        let last = target.status.transitions.last();
        let reason = last.and_then(|t| t.reason.parse().ok()).unwrap_or(Reason::StartFailed);
        let message = last.map(|t| t.message.clone()).unwrap_or_default();
        let outcome = match reason {
            Reason::BuildUnavailable | Reason::BuildFailed => Outcome::BuildFailed,
            _ => Outcome::StartFailed,
        };
        self.end(outcome, reason, format!("{name} can't be started: {message}"));
    }

    /// The environment runs: claim it, if the agent is known and it is this run's turn.
    fn ask_for_turn(&mut self, target: &TargetFacts) {
        let name = format!("{} {}", target.instance.kind, target.instance.name);
        let Some(pod) = target.pod.as_ref().filter(|p| p.is_up()) else {
            return self.pending(Reason::WaitingForEnvironment, format!("the pod of {name} isn't up"));
        };
        if self.seen.run.spec.activate.is_some() {
            return self.end(Outcome::Succeeded, Reason::Succeeded, format!("{name} is active"));
        }
        let facts = &target.agent;
        if facts.seal == SealFact::Sealed {
            return self.pending(
                Reason::WaitingForEnvironment,
                format!("{name} is stopping and will be started again"),
            );
        }
        let Some(hello) = &facts.hello else {
            self.effects.push(Effect::Agent(AgentCall::Connect(pod.pod.clone())));
            let why = facts.last_error.as_ref().map(|e| format!(": {e}")).unwrap_or_default();
            return self
                .pending(Reason::WaitingForEnvironment, format!("waiting for the agent of {name}{why}"));
        };
        let limit = target.spec.max_concurrent_runs.unwrap_or(self.seen.settings.runs.max_concurrent_runs);
        let limit = usize::try_from(limit).unwrap_or(1).max(1);
        let before = self.seen.queue.active + self.seen.queue.ahead;
        if before >= limit {
            let message = format!("{before} before it in {name}, which takes {limit} at once");
            return self.pending(Reason::Queued, message);
        }
        let attempt = self.status.claim.as_ref().map_or(0, |c| c.attempt) + 1;
        self.status.claim =
            Some(Claim { attempt, pod_uid: pod.pod.uid.clone(), boot_id: hello.boot_id.clone() });
        self.status.started_at = Some(Time(self.seen.now));
        self.pending(Reason::Running, format!("running in {name}"));
        self.wake = Wake::Again;
    }
}

/// Whether a run waits for the instance it is routed to, and may start it: what an instance's demand is made of.
#[must_use]
pub fn waits_for_start(run: &ToolRun) -> bool {
    let status = run.status.as_ref();
    let open = status.is_some_and(|s| s.outcome.is_none() && s.route.is_some() && !is_claimed(run));
    open && run.spec.activation != Some(Activation::Never) && run.metadata.deletion_timestamp.is_none()
}

/// Whether a run holds a claim that isn't finished.
#[must_use]
pub fn is_claimed(run: &ToolRun) -> bool {
    let Some(status) = run.status.as_ref().filter(|s| s.outcome.is_none() && s.claim.is_some()) else {
        return false;
    };
    ConditionType::Ready.find(&status.conditions).is_some_and(|c| c.reason == Reason::Running.as_str())
}

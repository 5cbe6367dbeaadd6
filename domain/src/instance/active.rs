//! Active: tools run in it. It is stopped only when the agent confirms that none does, or when nothing can be saved by waiting.

use drydock_crds::condition::Reason;
use drydock_crds::instance::{DesiredState, ProvisioningState, RequestResult};
use drydock_crds::label;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{CANCEL_GRACE, Draft, SILENCE};
use crate::agent::{AgentCall, SealFact};
use crate::decision::{Effect, Wake, after};
use crate::pod::{PodFact, PodStage};

impl Draft<'_> {
    pub(super) fn active(&mut self) {
        let Some(pod) = self.recorded_pod().cloned() else {
            self.forget_pod();
            let message = "its pod is gone; the file system outside volumes is lost with it";
            return self.step(ProvisioningState::Stopped, Reason::PodLost, message);
        };
        if let PodStage::Ended(end) = &pod.stage {
            self.forget_pod();
            let message = format!("{}; the file system outside volumes is lost with it", end.message);
            return self.step(ProvisioningState::Stopped, end.reason, message);
        }
        if pod.deleting_since.is_some() {
            let message = "its pod was deleted by somebody else";
            return self.step(ProvisioningState::Stopping, Reason::PodLost, message);
        }
        self.note_activity();
        self.effects.push(Effect::Agent(AgentCall::Connect(pod.pod.clone())));
        match self.reason_to_stop() {
            Some((reason, message)) => self.stop(&pod, reason, message),
            None => self.unseal(&pod),
        }
    }

    /// Why it should stop, if it should.
    fn reason_to_stop(&mut self) -> Option<(Reason, String)> {
        if let Some(since) = self.seen.identity.workspace_deleting_since {
            let limit = after(since, CANCEL_GRACE);
            self.wake = self.wake.min(Wake::At(limit));
            let waits = self.seen.demand.active > 0 && self.seen.now < limit;
            return (!waits).then(|| (Reason::OwnerDeleted, "its workspace is being deleted".into()));
        }
        if let Some(key) = self.open_stop() {
            let waits = key == label::STOP_FORCE && self.seen.demand.active > 0;
            return (!waits).then(|| (Reason::Requested, format!("{key} was requested")));
        }
        let busy = self.seen.demand.active > 0 || self.seen.demand.waiting > 0;
        match self.desired() {
            DesiredState::Active => None,
            DesiredState::Stopped if self.seen.demand.active > 0 => None,
            DesiredState::Stopped => Some((Reason::DesiredStopped, "spec.desiredState is Stopped".into())),
            DesiredState::Auto if busy => None,
            DesiredState::Auto => self.idle(),
        }
    }

    fn idle(&mut self) -> Option<(Reason, String)> {
        let own = self.seen.spec.idle_timeout.map(std::time::Duration::from);
        let limit = own.unwrap_or(self.seen.settings.environments.idle_timeout.0);
        let due = after(self.last_use(), limit);
        if self.seen.now < due {
            self.wake = self.wake.min(Wake::At(due));
            return None;
        }
        let limit = kube::core::Duration::from(limit);
        Some((Reason::IdleTimeout, format!("nothing used it for {limit:?}")))
    }

    /// When it was last used: the last run that is known, what the status says, or its start.
    fn last_use(&self) -> Timestamp {
        let started = self
            .status
            .transitions
            .iter()
            .rev()
            .find(|t| t.to == ProvisioningState::Active)
            .map(|t| t.time.0);
        let recorded = self.status.last_activity_time.as_ref().map(|t| t.0);
        [started, recorded, self.seen.demand.last_finished]
            .into_iter()
            .flatten()
            .max()
            .unwrap_or(self.seen.now)
    }

    /// Seals, then stops. An agent that has been silent for long, with no run claimed, isn't waited for.
    fn stop(&mut self, pod: &PodFact, reason: Reason, message: String) {
        let facts = &self.seen.agent;
        match facts.seal {
            SealFact::Sealed => return self.step(ProvisioningState::Stopping, reason, message),
            SealFact::RunsActive { .. } if self.open_stop().is_some_and(|k| k != label::STOP_FORCE) => {
                if let Some(key) = self.open_stop() {
                    let message = "the agent has unfinished runs";
                    self.handle(key, RequestResult::Refused, Reason::RunsActive, message);
                }
                return;
            }
            SealFact::Open | SealFact::RunsActive { .. } => {}
        }
        let silent = facts.unreachable_since.map(|since| after(since, SILENCE));
        let unsealable = silent.is_some_and(|at| self.seen.now >= at) && self.seen.demand.active == 0;
        if unsealable || (reason == Reason::OwnerDeleted && facts.hello.is_none()) {
            let message = format!("{message}; its agent doesn't answer");
            return self.step(ProvisioningState::Stopping, reason, message);
        }
        if let Some(at) = silent {
            self.wake = self.wake.min(Wake::At(at));
        }
        let boot = facts.hello.as_ref().map(|h| h.boot_id.clone());
        let boot = boot.or_else(|| self.status.agent.as_ref().and_then(|a| a.boot_id.clone()));
        if let Some(boot_id) = boot {
            self.effects.push(Effect::Agent(AgentCall::Seal { pod: pod.pod.clone(), boot_id }));
        }
        // A seal that was refused is tried again: a run may have come and gone.
        let again = after(self.seen.now, std::time::Duration::from_secs(2));
        self.wake = self.wake.min(Wake::At(again));
    }

    /// A seal whose reason is over is taken back, so that runs start again.
    fn unseal(&mut self, pod: &PodFact) {
        if self.seen.agent.seal != SealFact::Sealed {
            return;
        }
        if let Some(hello) = &self.seen.agent.hello {
            let boot_id = hello.boot_id.clone();
            self.effects.push(Effect::Agent(AgentCall::Unseal { pod: pod.pod.clone(), boot_id }));
        }
    }

    /// The last use, rounded down to a minute, so that the status is written at most once a minute.
    fn note_activity(&mut self) {
        let used =
            if self.seen.demand.active > 0 { Some(self.seen.now) } else { self.seen.demand.last_finished };
        let Some(used) = used else { return };
        let minute = used.as_second() - used.as_second().rem_euclid(60);
        let Ok(rounded) = Timestamp::from_second(minute) else {
            return;
        };
        if self.status.last_activity_time.as_ref().is_none_or(|t| t.0 < rounded) {
            self.status.last_activity_time = Some(Time(rounded));
        }
    }
}

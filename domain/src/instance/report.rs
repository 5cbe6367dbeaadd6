//! What the status says: what it is made from, and the conditions, last.

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::instance::{MountState, ProvisioningState};

use super::Draft;
use crate::blueprint::{Acceptance, Objection};
use crate::condition::{Conditions, Truth};
use crate::reference::unresolved;

impl Draft<'_> {
    /// What it is or would be made from.
    pub(super) fn describe(&mut self) {
        match &self.seen.acceptance {
            Acceptance::Accepted(blueprint) => {
                self.status.devcontainer.clone_from(&blueprint.devcontainer);
                self.status.coherence = blueprint.coherence;
                self.status.volumes.clone_from(&blueprint.volumes);
                self.status.mounts.clone_from(&blueprint.mount_status);
            }
            Acceptance::Waiting(objection)
            | Acceptance::Refused(objection)
            | Acceptance::Orphaned(objection) => {
                if objection.devcontainer.is_some() {
                    self.status.devcontainer.clone_from(&objection.devcontainer);
                }
            }
        }
    }

    /// The conditions, from what is decided.
    pub(super) fn report(&mut self) {
        let state = self.state();
        let running = state == ProvisioningState::Active;
        for mount in &mut self.status.mounts {
            mount.state = if running { MountState::Active } else { MountState::Pending };
        }
        let mut conditions = self.conditions();
        self.state_conditions(&mut conditions);
        self.health(&mut conditions);
        self.up_to_date(&mut conditions);
        self.acceptance(&mut conditions);
        self.status.conditions = conditions.finish();
    }

    fn state_conditions(&self, conditions: &mut Conditions) {
        let (truth, reason) = match self.state() {
            ProvisioningState::Active => (Truth::True, Reason::Active),
            ProvisioningState::Discovered => (Truth::False, Reason::Discovered),
            ProvisioningState::Building => (Truth::False, Reason::Building),
            ProvisioningState::Stopping => (Truth::False, Reason::Stopping),
            ProvisioningState::Stopped => (Truth::False, Reason::Stopped),
            ProvisioningState::Failed => (Truth::False, Reason::StartFailed),
        };
        let last = self.status.transitions.last().map(|t| t.message.clone()).unwrap_or_default();
        conditions.set(ConditionType::Active, truth, reason, last.clone());
        conditions.set(
            ConditionType::HooksSucceeded,
            Truth::True,
            Reason::HooksSucceeded,
            "no hook has failed",
        );
        let unavailable = self.blueprint().and_then(|b| b.needs_build.as_ref());
        match unavailable {
            Some(why) => conditions.set(
                ConditionType::Built,
                Truth::False,
                Reason::BuildUnavailable,
                format!("an image build is needed ({why}) and isn't available in this version"),
            ),
            None if self.blueprint().is_some() => {
                conditions.set(
                    ConditionType::Built,
                    Truth::True,
                    Reason::Built,
                    "no image needs to be built",
                );
            }
            None => conditions.set(
                ConditionType::Built,
                Truth::Unknown,
                Reason::Unknown,
                "nothing is known of its image",
            ),
        }
    }

    fn health(&self, conditions: &mut Conditions) {
        let facts = &self.seen.agent;
        if self.state() != ProvisioningState::Active {
            conditions.set(ConditionType::Healthy, Truth::Unknown, Reason::Unknown, "it doesn't run");
        } else if facts.unreachable_since.is_some() {
            let last = facts.last_error.as_deref().unwrap_or("no answer");
            let message = format!("the agent doesn't answer: {last}");
            conditions.set(ConditionType::Healthy, Truth::False, Reason::AgentUnreachable, message);
        } else if facts.hello.is_some() {
            conditions.set(ConditionType::Healthy, Truth::True, Reason::Healthy, "the agent answers");
        } else {
            // A new controller hasn't spoken to the agent yet: what was known stays.
            let known =
                ConditionType::Healthy.find(&self.seen.status.conditions).is_some_and(|c| c.status == "True");
            let truth = if known { Truth::True } else { Truth::Unknown };
            let reason = if known { Reason::Healthy } else { Reason::Unknown };
            conditions.set(
                ConditionType::Healthy,
                truth,
                reason,
                if known { "the agent answers" } else { "" },
            );
        }
    }

    /// Whether what runs, or failed, is what would be started now. A live environment is left alone.
    fn up_to_date(&self, conditions: &mut Conditions) {
        let (type_, now) = (ConditionType::UpToDate, self.present_inputs());
        match (&self.status.inputs_digest, now, self.state()) {
            (
                Some(was),
                Some(now),
                ProvisioningState::Active | ProvisioningState::Failed | ProvisioningState::Building,
            ) if *was != now => {
                let message = "what it is made from changed: it takes effect at its next start";
                conditions.set(type_, Truth::False, Reason::SpecChanged, message);
            }
            (_, Some(_), _) => {
                conditions.set(type_, Truth::True, Reason::UpToDate, "it is as its source says");
            }
            (_, None, _) => {
                conditions.set(type_, Truth::Unknown, Reason::Unknown, "its source can't be used now");
            }
        }
    }

    fn acceptance(&mut self, conditions: &mut Conditions) {
        match &self.seen.acceptance {
            Acceptance::Accepted(_) => {
                conditions.set(ConditionType::Accepted, Truth::True, Reason::Accepted, "it can be started");
                conditions.set(
                    ConditionType::Orphaned,
                    Truth::False,
                    Reason::Owned,
                    "what it belongs to is there",
                );
                self.readiness(conditions);
            }
            Acceptance::Refused(objection) => {
                let Objection { reason, message, .. } = objection;
                conditions.set(ConditionType::Accepted, Truth::False, *reason, message.clone());
                conditions.set(
                    ConditionType::Orphaned,
                    Truth::False,
                    Reason::Owned,
                    "what it belongs to is there",
                );
                conditions.stalled(*reason, message.clone());
            }
            Acceptance::Waiting(objection) => {
                conditions.set(
                    ConditionType::Orphaned,
                    Truth::False,
                    Reason::Owned,
                    "what it belongs to is there",
                );
                self.await_reference(conditions, objection);
            }
            Acceptance::Orphaned(objection) => {
                conditions.set(
                    ConditionType::Orphaned,
                    Truth::True,
                    objection.reason,
                    objection.message.clone(),
                );
                self.await_reference(conditions, objection);
            }
        }
    }

    fn await_reference(&mut self, conditions: &mut Conditions, objection: &Objection) {
        let Objection { reason, message, .. } = objection;
        if *reason == Reason::WaitingForReference {
            conditions.set(ConditionType::Accepted, Truth::Unknown, *reason, message.clone());
            return conditions.progressing(Truth::False, *reason, message.clone());
        }
        let present = &self.seen.status.conditions;
        let generation = self.seen.identity.generation;
        let wake = unresolved(conditions, present, generation, self.seen.now, *reason, message);
        self.wake = self.wake.min(wake);
    }

    fn readiness(&self, conditions: &mut Conditions) {
        let last = self.status.transitions.last();
        let message = last.map(|t| t.message.clone()).unwrap_or_default();
        match self.state() {
            ProvisioningState::Failed => {
                let reason = last.and_then(|t| t.reason.parse().ok()).unwrap_or(Reason::StartFailed);
                conditions.stalled(reason, message);
            }
            ProvisioningState::Building | ProvisioningState::Stopping => {
                let (reason, message) = self.waiting.clone().unwrap_or((Reason::Progressing, message));
                conditions.progressing(Truth::False, reason, message);
            }
            ProvisioningState::Active => conditions.ready(Reason::Active, message),
            ProvisioningState::Discovered => {
                conditions
                    .ready(Reason::Discovered, "known; nothing is built or started before it is needed");
            }
            ProvisioningState::Stopped => conditions.ready(Reason::Stopped, message),
        }
    }
}

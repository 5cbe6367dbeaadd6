//! Claimed: what the agent, or the loss of it, says of the attempt.

use std::time::Duration;

use drydock_crds::condition::Reason;
use drydock_crds::tool_run::{Claim, Outcome};

use super::{ClaimedPod, Draft};
use crate::agent::{AgentCall, AttemptFact, RefusedAttempt};
use crate::decision::{Effect, Wake, after};
use crate::pod::{End, PodFact};
use crate::tool_run::start;

/// How long after its time limit a run whose agent doesn't answer is waited for.
const LOST_AFTER: Duration = Duration::from_secs(30);

impl Draft<'_> {
    pub(super) fn executing(&mut self) {
        let Some(claim) = self.status.claim.clone() else {
            return;
        };
        match self.seen.attempt.clone() {
            AttemptFact::Finished(result) => self.finish(&result),
            AttemptFact::Refused(RefusedAttempt::CancelledBeforeStart) => {
                self.end(Outcome::Cancelled, Reason::Cancelled, "cancelled before it was started");
            }
            // Its agent has journalled that it never runs there, so another attempt may be made.
            AttemptFact::Refused(RefusedAttempt::Sealed) => {
                let message = "its environment was stopping: it will be started again";
                self.pending(Reason::WaitingForEnvironment, message);
                self.wake = Wake::Again;
            }
            AttemptFact::Unsendable(why) => self.end(Outcome::Rejected, Reason::Rejected, why),
            AttemptFact::OtherBoot => {
                self.end(Outcome::Lost, Reason::Lost, "its environment was started anew under the tool");
            }
            AttemptFact::Unknown => self.send(&claim, false),
            AttemptFact::Running => self.send(&claim, true),
        }
    }

    /// Starts the attempt, or asks for it again (the agent starts an attempt once), as long as its pod is there.
    fn send(&mut self, claim: &Claim, known: bool) {
        match self.seen.claimed_pod.clone() {
            ClaimedPod::None | ClaimedPod::Gone => {
                self.end(Outcome::Lost, Reason::Lost, "its pod is gone: what became of the tool is unknown");
            }
            ClaimedPod::Ended(_, end) => self.pod_ended(&end),
            ClaimedPod::Present(pod) => self.in_pod(claim, &pod, known),
        }
    }

    fn in_pod(&mut self, claim: &Claim, pod: &PodFact, known: bool) {
        let name = self.status.route.as_ref().and_then(|r| r.target.as_ref());
        let name = name.map(|t| format!("{} {}", t.kind, t.name)).unwrap_or_default();
        self.pending(Reason::Running, format!("running in {name}"));
        if let Some(lost) = self.lost_at() {
            let silent = self.seen.target.as_ref().is_none_or(|t| t.agent.unreachable_since.is_some());
            if self.seen.now >= lost && silent {
                let message =
                    "its agent doesn't answer, and its time is over: what became of the tool is unknown";
                return self.end(Outcome::Lost, Reason::Lost, message);
            }
            let again = after(self.seen.now, LOST_AFTER);
            self.wake = self.wake.min(Wake::At(if self.seen.now >= lost { again } else { lost }));
        }
        if self.cancellation().is_some() {
            self.effects.push(Effect::Agent(AgentCall::Cancel {
                pod: pod.pod.clone(),
                run_uid: self.seen.run.metadata.uid.clone().unwrap_or_default(),
                attempt: u32::try_from(claim.attempt).unwrap_or_default(),
            }));
        }
        if known {
            return;
        }
        let call = self.seen.target.as_ref().and_then(|t| start::call(self.seen, t, &pod.pod, claim));
        match call {
            Some(call) if self.cancellation().is_none() => {
                self.effects.push(Effect::Agent(AgentCall::Start(Box::new(call))));
            }
            _ => self.effects.push(Effect::Agent(AgentCall::Connect(pod.pod.clone()))),
        }
    }

    fn pod_ended(&mut self, end: &End) {
        let (outcome, reason) = match end.reason {
            Reason::OutOfMemory => (Outcome::OutOfMemory, Reason::OutOfMemory),
            Reason::Evicted => (Outcome::Evicted, Reason::Evicted),
            _ => (Outcome::Lost, Reason::Lost),
        };
        self.end(outcome, reason, format!("its environment ended under it: {}", end.message));
    }

    /// When a run whose agent doesn't answer is given up.
    fn lost_at(&self) -> Option<jiff::Timestamp> {
        let started = self.status.started_at.as_ref()?.0;
        let seconds = self.status.effective.as_ref()?.timeout_seconds?;
        let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        Some(after(after(started, limit), LOST_AFTER))
    }
}

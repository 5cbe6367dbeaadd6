//! What becomes of a Plan: it is at work, or it has ended.

use std::collections::BTreeMap;
use std::time::Duration;

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::instance::{HandledRequest, RequestResult};
use drydock_crds::label;
use drydock_crds::plan::{BranchEnd, Checkpoint, Plan, PlanSpec, PlanState, PlanStatus, RunCounts, Sandbox};
use drydock_crds::tool_run::Outcome;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::condition::{Conditions, Truth};
use crate::decision::{Decision, Deletion, Effect, Wake, after, resource_of};
use crate::reference::unresolved;

/// Everything a Plan is decided by.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub plan: Plan,
    /// Whether the project or workspace it names exists.
    pub scope_exists: bool,
    /// The outcomes of its runs; `None` for those that aren't finished.
    pub runs: Vec<Option<Outcome>>,
    /// When it was observed.
    pub now: Timestamp,
}

/// Whether a plan has ended.
#[must_use]
pub fn has_ended(plan: &Plan) -> bool {
    !matches!(plan.spec.state.unwrap_or_default(), PlanState::Active)
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed) -> Decision<PlanStatus> {
    let generation = seen.plan.metadata.generation.unwrap_or_default();
    let mut status = seen.plan.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&status.conditions, generation, seen.now);
    status.observed_generation = generation;
    status.runs = Some(counts(&seen.runs));
    refuse_requests(&seen.plan, &mut status);
    let mut effects = Vec::new();
    let wake = match seen.plan.spec.state.unwrap_or_default() {
        PlanState::Active => active(seen, generation, &status, &mut conditions),
        ended => {
            let finished_at = status.finished_at.get_or_insert(Time(seen.now)).0;
            set_ended(&mut conditions, ended);
            expire(seen, finished_at, &mut effects)
        }
    };
    status.conditions = conditions.finish();
    Decision { effects, wake, ..Decision::status(status) }
}

fn active(seen: &Observed, generation: i64, status: &PlanStatus, conditions: &mut Conditions) -> Wake {
    conditions.set(ConditionType::Succeeded, Truth::Unknown, Reason::PlanActive, "the plan is at work");
    let missing = not_implemented(&seen.plan.spec);
    if !missing.is_empty() {
        conditions.stalled(
            Reason::NotImplemented,
            format!("not implemented in this version: {}", missing.join(", ")),
        );
        return Wake::OnChange;
    }
    if !seen.scope_exists {
        let message = "the project or workspace of the plan isn't there";
        let (present, now) = (&status.conditions, seen.now);
        return unresolved(conditions, present, generation, now, Reason::ReferenceNotFound, message);
    }
    conditions.set(ConditionType::Accepted, Truth::True, Reason::Accepted, "the plan is valid");
    conditions.ready(Reason::PlanActive, "runs of the plan are taken");
    Wake::OnChange
}

fn set_ended(conditions: &mut Conditions, state: PlanState) {
    let (truth, reason, message) = match state {
        PlanState::Active | PlanState::Completed => {
            (Truth::True, Reason::PlanCompleted, "the plan is completed")
        }
        PlanState::Failed => (Truth::False, Reason::PlanFailed, "the plan has failed"),
        PlanState::Cancelled => (Truth::False, Reason::PlanCancelled, "the plan was cancelled"),
    };
    conditions.set(ConditionType::Succeeded, truth, reason, message);
    conditions.ready(reason, message);
}

fn expire(seen: &Observed, finished_at: Timestamp, effects: &mut Vec<Effect>) -> Wake {
    let Some(ttl) = seen.plan.spec.ttl_seconds_after_finished else {
        return Wake::OnChange;
    };
    let expiry = after(finished_at, Duration::from_secs(u64::try_from(ttl).unwrap_or_default()));
    let meta = &seen.plan.metadata;
    if seen.now < expiry || meta.deletion_timestamp.is_some() {
        return Wake::At(expiry);
    }
    effects.push(Effect::Delete(Deletion {
        resource: resource_of::<Plan>(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone(),
        grace_seconds: None,
    }));
    Wake::OnChange
}

fn counts(runs: &[Option<Outcome>]) -> RunCounts {
    let mut finished: BTreeMap<String, i32> = BTreeMap::new();
    for outcome in runs.iter().flatten() {
        *finished.entry(outcome.to_string()).or_default() += 1;
    }
    let active = runs.iter().filter(|o| o.is_none()).count();
    RunCounts { active: i32::try_from(active).unwrap_or(i32::MAX), finished }
}

fn refuse_requests(plan: &Plan, status: &mut PlanStatus) {
    let Some(token) = plan.metadata.annotations.as_ref().and_then(|a| a.get(label::RESCAN)) else {
        return;
    };
    let handled = HandledRequest {
        token: token.chars().take(256).collect(),
        result: RequestResult::Refused,
        reason: Reason::NotImplemented.to_string(),
        message: "a plan has no checkout of its own in this version: rescan the Workspace".into(),
    };
    status.handled_requests.insert("rescan".into(), handled);
}

fn not_implemented(spec: &PlanSpec) -> Vec<&'static str> {
    let end = spec.on_end.as_ref().and_then(|e| e.branch).unwrap_or_default();
    let set = [
        ("spec.sandbox: Checkout", spec.sandbox == Some(Sandbox::Checkout)),
        ("spec.branch", spec.branch.is_some()),
        ("spec.onEnd", end != BranchEnd::Keep),
        ("spec.checkpoint", spec.checkpoint == Some(Checkpoint::BeforeEachRun)),
        ("spec.idleTimeout", spec.idle_timeout.is_some()),
    ];
    set.iter().filter(|(_, is_set)| *is_set).map(|(field, _)| *field).collect()
}

//! What becomes of an ExecutionEnvironment: accepted, or why not.

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::execution_environment::{ExecutionEnvironment, ExecutionEnvironmentStatus};
use drydock_crds::instance::ProvisioningState;
use jiff::Timestamp;

use crate::condition::{Conditions, Truth};
use crate::decision::{Decision, Wake};
use crate::reference::unresolved;

/// Everything an ExecutionEnvironment is decided by.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub environment: ExecutionEnvironment,
    /// Whether the project or plan it is for exists.
    pub scope_exists: bool,
    /// What its target is.
    pub target: TargetFact,
    /// The name of the one that goes before it: same scope, same priority, older (then the first by name).
    pub conflicts_with: Option<String>,
    /// When it was observed.
    pub now: Timestamp,
}

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetFact {
    /// An instance that exists and is linked to the scope's project (or belongs to its workspace).
    Linked(ProvisioningState),
    /// An instance that exists and isn't linked.
    NotLinked,
    /// An instance that doesn't exist.
    Missing,
    /// The host runner, or any container: nothing that could be missing.
    Open,
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed) -> Decision<ExecutionEnvironmentStatus> {
    let generation = seen.environment.metadata.generation.unwrap_or_default();
    let present = seen.environment.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&present.conditions, generation, seen.now);
    let wake = match objection(seen) {
        None => {
            conditions.set(ConditionType::Accepted, Truth::True, Reason::Accepted, "runs are routed by it");
            conditions.ready(Reason::Accepted, "runs are routed by it");
            Wake::OnChange
        }
        Some((Reason::Conflicted, message)) => {
            conditions.set(ConditionType::Accepted, Truth::False, Reason::Conflicted, message.clone());
            conditions.stalled(Reason::Conflicted, message);
            Wake::OnChange
        }
        Some((reason, message)) => {
            unresolved(&mut conditions, &present.conditions, generation, seen.now, reason, &message)
        }
    };
    let target_state = match seen.target {
        TargetFact::Linked(state) => Some(state),
        TargetFact::NotLinked | TargetFact::Missing | TargetFact::Open => None,
    };
    let status = ExecutionEnvironmentStatus {
        observed_generation: generation,
        target_state,
        conditions: conditions.finish(),
    };
    Decision { wake, ..Decision::status(status) }
}

fn objection(seen: &Observed) -> Option<(Reason, String)> {
    let target = || {
        let target = &seen.environment.spec.target;
        let dev =
            target.devcontainer_instance_ref.as_ref().map(|r| format!("DevcontainerInstance {}", r.name));
        dev.or_else(|| {
            target.container_instance_ref.as_ref().map(|r| format!("ContainerInstance {}", r.name))
        })
        .unwrap_or_default()
    };
    if let Some(other) = &seen.conflicts_with {
        let message = format!(
            "{other} has the same scope and priority and is older: delete one, or change its priority"
        );
        return Some((Reason::Conflicted, message));
    }
    if !seen.scope_exists {
        return Some((Reason::ScopeNotFound, "its project or plan isn't there".into()));
    }
    match seen.target {
        TargetFact::Linked(_) | TargetFact::Open => None,
        TargetFact::Missing => Some((Reason::TargetNotFound, format!("{} isn't there", target()))),
        TargetFact::NotLinked => Some((
            Reason::TargetNotLinked,
            format!("{} isn't linked: add it to spec.resources of the project", target()),
        )),
    }
}

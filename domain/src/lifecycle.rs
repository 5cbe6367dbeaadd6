//! The state machine of an instance: which transitions are legal, and how one is recorded.

use drydock_crds::condition::Reason;
use drydock_crds::instance::{InstanceStatus, ProvisioningState, Transition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::condition::bounded;

/// How many transitions a status keeps.
pub const KEPT_TRANSITIONS: usize = 20;

/// Whether an instance may go from one state to another. Nothing else is ever written.
#[must_use]
pub fn is_legal(from: ProvisioningState, to: ProvisioningState) -> bool {
    use ProvisioningState::{Active, Building, Discovered, Failed, Stopped, Stopping};
    matches!(
        (from, to),
        (Discovered, Building)
            | (Building, Active | Failed | Stopping)
            | (Active, Stopping | Stopped)
            | (Stopping, Stopped | Failed)
            | (Stopped, Building)
            | (Failed, Building | Stopped)
    )
}

/// Records a transition. An illegal one, or one to the same state, changes nothing and answers `false`.
pub fn step(
    status: &mut InstanceStatus,
    to: ProvisioningState,
    reason: Reason,
    message: impl Into<String>,
    now: Timestamp,
) -> bool {
    let from = status.provisioning_state.unwrap_or_default();
    if !is_legal(from, to) {
        return false;
    }
    status.provisioning_state = Some(to);
    let mut message = bounded(message.into());
    if message.len() > 1024 {
        message.truncate(message.floor_char_boundary(1021));
        message.push('…');
    }
    status.transitions.push(Transition {
        from,
        to,
        reason: reason.as_str().to_owned(),
        message,
        time: Time(now),
    });
    if status.transitions.len() > KEPT_TRANSITIONS {
        let surplus = status.transitions.len() - KEPT_TRANSITIONS;
        status.transitions.drain(..surplus);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented table, written out.
    const LEGAL: [(&str, &str); 11] = [
        ("Discovered", "Building"),
        ("Building", "Active"),
        ("Building", "Failed"),
        ("Building", "Stopping"),
        ("Active", "Stopping"),
        ("Active", "Stopped"),
        ("Stopping", "Stopped"),
        ("Stopping", "Failed"),
        ("Stopped", "Building"),
        ("Failed", "Building"),
        ("Failed", "Stopped"),
    ];

    fn all() -> [ProvisioningState; 6] {
        use ProvisioningState::{Active, Building, Discovered, Failed, Stopped, Stopping};
        [Discovered, Building, Active, Stopping, Stopped, Failed]
    }

    #[test]
    fn exactly_the_documented_transitions_are_legal() {
        for from in all() {
            for to in all() {
                let documented = LEGAL.contains(&(from.into(), to.into()));
                assert_eq!(is_legal(from, to), documented, "{from} -> {to}");
            }
        }
    }

    #[test]
    fn an_illegal_step_changes_nothing_and_history_is_bounded() {
        let mut status = InstanceStatus::default();
        let now = Timestamp::UNIX_EPOCH;
        assert!(!step(&mut status, ProvisioningState::Active, Reason::Active, "", now));
        assert_eq!(status, InstanceStatus::default());
        assert!(step(&mut status, ProvisioningState::Building, Reason::RunPending, "", now));
        for _ in 0..KEPT_TRANSITIONS {
            assert!(step(&mut status, ProvisioningState::Failed, Reason::StartFailed, "é".repeat(2000), now));
            assert!(step(&mut status, ProvisioningState::Building, Reason::Retry, "", now));
        }
        assert_eq!(status.transitions.len(), KEPT_TRANSITIONS);
        assert!(status.transitions.iter().all(|t| t.message.len() <= 1024));
    }
}

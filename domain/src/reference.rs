//! How a reference to something that isn't there is waited for: visibly, for a while, then it needs a person.

use std::time::Duration;

use drydock_crds::condition::{ConditionType, Reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::condition::{Conditions, Truth};
use crate::decision::{Wake, after};

/// How long one `apply` of everything may take to bring what a reference names.
pub const GRACE: Duration = Duration::from_secs(30);

/// Marks an object whose references don't all resolve. `present` are its conditions so far, which tell since when.
pub fn unresolved(
    conditions: &mut Conditions,
    present: &[Condition],
    generation: i64,
    now: Timestamp,
    reason: Reason,
    message: &str,
) -> Wake {
    let deadline = after(waiting_since(present, generation).unwrap_or(now), GRACE);
    conditions.set(ConditionType::Accepted, Truth::False, reason, message);
    if now < deadline {
        conditions.progressing(Truth::False, reason, message);
        Wake::At(deadline)
    } else {
        conditions.stalled(reason, message);
        Wake::OnChange
    }
}

/// Since when this generation isn't accepted.
fn waiting_since(present: &[Condition], generation: i64) -> Option<Timestamp> {
    let accepted = ConditionType::Accepted.find(present)?;
    (accepted.status == "False" && accepted.observed_generation == Some(generation))
        .then_some(accepted.last_transition_time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(present: &[Condition], generation: i64, second: i64) -> (Vec<Condition>, Wake) {
        let now = Timestamp::from_second(second).unwrap();
        let mut conditions = Conditions::new(present, generation, now);
        let wake = unresolved(&mut conditions, present, generation, now, Reason::TargetNotFound, "not there");
        (conditions.finish(), wake)
    }

    #[test]
    fn a_missing_reference_is_waited_for_and_then_needs_a_person() {
        let (first, wake) = decide(&[], 1, 100);
        assert_eq!(wake, Wake::At(Timestamp::from_second(130).unwrap()));
        assert!(ConditionType::Reconciling.is_true(&first));
        let (second, wake) = decide(&first, 1, 129);
        assert_eq!(wake, Wake::At(Timestamp::from_second(130).unwrap()));
        let (third, wake) = decide(&second, 1, 130);
        assert_eq!(wake, Wake::OnChange);
        assert!(ConditionType::Stalled.is_true(&third));
        assert!(ConditionType::Reconciling.find(&third).is_none());
    }
}

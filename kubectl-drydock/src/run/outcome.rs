//! What is said of a run that didn't end well for another reason than its command's own.

use drydock_crds::condition::ConditionType;
use drydock_crds::{Outcome, ToolRun};

use crate::failure::Failure;

/// The failure; none where the command's exit code says it all.
pub(super) fn failure(run: &ToolRun) -> Option<Failure> {
    let status = run.status.as_ref()?;
    let outcome = status.outcome?;
    if matches!(outcome, Outcome::Succeeded | Outcome::NonZeroExit) {
        return None;
    }
    let object = format!("trun/{}", run.metadata.name.as_deref().unwrap_or_default());
    let condition = [ConditionType::Succeeded, ConditionType::Ready]
        .into_iter()
        .find_map(|type_| type_.find(&status.conditions));
    let reason = condition.map_or_else(|| outcome.to_string(), |c| c.reason.clone());
    let message = condition.map(|c| c.message.as_str()).unwrap_or_default();
    let what = match outcome {
        Outcome::Signalled
        | Outcome::TimedOut
        | Outcome::Cancelled
        | Outcome::OutOfMemory
        | Outcome::Evicted => "was ended",
        Outcome::Lost => "is lost",
        _ => "didn't run",
    };
    let mut headline = format!("{object} {what}: {reason}");
    if !message.is_empty() {
        headline.push_str(&format!(": {message}"));
    }
    let mut failure = Failure::new(&reason, headline).object(object.clone());
    let wrote = [&status.stdout, &status.stderr].into_iter().flatten().any(|s| s.bytes > 0);
    if wrote {
        failure.log = Some(format!("kubectl drydock logs {object}"));
    }
    let target = status.route.as_ref().and_then(|r| r.target.as_ref());
    let target = target.map(|t| format!("{}/{}", crate::kinds::short(&t.kind.to_string()), t.name));
    failure.then = match (outcome, target) {
        (Outcome::NoEnvironment | Outcome::Rejected, _) => Some(format!("kubectl get {object} -o yaml")),
        (Outcome::BuildFailed | Outcome::StartFailed, Some(target)) => {
            Some(format!("kubectl get {target} -o yaml"))
        }
        _ => None,
    };
    Some(failure)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(status: serde_json::Value) -> ToolRun {
        serde_json::from_value(json!({
            "apiVersion": "drydock.dev/v1alpha1", "kind": "ToolRun", "metadata": {"name": "shop-x"},
            "spec": {"command": ["x"]}, "status": status
        }))
        .unwrap()
    }

    #[test]
    fn the_commands_own_end_needs_no_words() {
        for outcome in ["Succeeded", "NonZeroExit"] {
            assert_eq!(failure(&run(json!({"outcome": outcome}))), None);
        }
        assert_eq!(failure(&run(json!({}))), None);
    }

    #[test]
    fn others_are_told_with_reason_and_next_step() {
        let condition = |reason: &str, message: &str| json!([{"type": "Succeeded", "status": "False", "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let told = failure(&run(json!({
            "outcome": "TimedOut", "stdout": {"bytes": 3, "lines": 1, "truncated": false},
            "conditions": condition("TimedOut", "timed out after 120s")
        })))
        .unwrap();
        assert_eq!(told.headline, "trun/shop-x was ended: TimedOut: timed out after 120s");
        assert_eq!(told.log.as_deref(), Some("kubectl drydock logs trun/shop-x"));
        let told = failure(&run(json!({
            "outcome": "StartFailed", "conditions": condition("ImagePullFailed", "no such image"),
            "route": {"reason": "r", "target": {"kind": "DevcontainerInstance", "name": "web"}}
        })))
        .unwrap();
        assert_eq!(told.headline, "trun/shop-x didn't run: ImagePullFailed: no such image");
        assert_eq!((told.log.as_deref(), told.then.as_deref()), (None, Some("kubectl get dc/web -o yaml")));
        let told = failure(&run(json!({"outcome": "Lost"}))).unwrap();
        assert_eq!(told.headline, "trun/shop-x is lost: Lost");
    }
}

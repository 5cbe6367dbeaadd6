//! What becomes of a claim whose Workspace is gone: it is kept until it expires, then deleted.

use std::time::Duration;

use drydock_crds::label;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::decision::{Decision, Deletion, Effect, Object, Wake, after, resource_of};

/// How long a claim is kept that nobody gave an expiry.
const KEPT: Duration = Duration::from_secs(168 * 3600);

/// Everything such a claim is decided by.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The claim.
    pub claim: PersistentVolumeClaim,
    /// Whether the Workspace whose it is is there.
    pub workspace_alive: bool,
    /// When it was observed.
    pub now: Timestamp,
}

/// Decides. A claim without our annotation is nobody's business here.
#[must_use]
pub fn decide(seen: &Observed) -> Decision<()> {
    let meta = &seen.claim.metadata;
    let annotations = meta.annotations.clone().unwrap_or_default();
    let ours = annotations.contains_key(label::WORKSPACE_UID);
    if !ours || seen.workspace_alive || meta.deletion_timestamp.is_some() {
        return Decision::nothing();
    }
    let expiry = annotations.get(label::EXPIRES_AT).and_then(|t| t.parse::<Timestamp>().ok());
    let mut decision = Decision::nothing();
    match expiry {
        None => {
            let at = after(seen.now, KEPT);
            decision.effects.push(expire_at(meta, at));
            decision.wake = Wake::At(at);
        }
        Some(at) if seen.now < at => decision.wake = Wake::At(at),
        Some(_) => decision.effects.push(Effect::Delete(Deletion {
            resource: resource_of::<PersistentVolumeClaim>(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            // A claim that somebody takes over in this moment isn't deleted.
            resource_version: meta.resource_version.clone(),
            grace_seconds: None,
        })),
    }
    decision
}

/// Applies what makes the claim ours once more, with an expiry: an apply is the whole of what a manager owns.
fn expire_at(meta: &ObjectMeta, at: Timestamp) -> Effect {
    let own = |k: &String| k.starts_with("drydock.dev/") || k == label::MANAGED_BY;
    let kept = |map: &Option<std::collections::BTreeMap<String, String>>| {
        map.iter().flatten().filter(|(k, _)| own(k)).map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    let mut annotations: std::collections::BTreeMap<String, String> = kept(&meta.annotations);
    annotations.insert(label::EXPIRES_AT.into(), at.to_string());
    let claim = PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            labels: Some(kept(&meta.labels)),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        ..PersistentVolumeClaim::default()
    };
    Effect::Apply(Object::of(&claim, &()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(annotations: &[(&str, &str)], alive: bool, second: i64) -> Observed {
        let annotations = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let metadata = ObjectMeta {
            name: Some("claim".into()),
            namespace: Some("n".into()),
            uid: Some("u".into()),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        Observed {
            claim: PersistentVolumeClaim { metadata, ..PersistentVolumeClaim::default() },
            workspace_alive: alive,
            now: Timestamp::from_second(second).unwrap(),
        }
    }

    #[test]
    fn a_claim_without_workspace_expires_and_no_other_is_touched() {
        let at = Timestamp::from_second(1000).unwrap().to_string();
        let ours = [(label::WORKSPACE_UID, "w"), (label::EXPIRES_AT, at.as_str())];
        assert_eq!(decide(&observed(&[], false, 0)), Decision::nothing());
        assert_eq!(decide(&observed(&ours, true, 5000)), Decision::nothing());
        let waiting = decide(&observed(&ours, false, 999));
        assert!(waiting.effects.is_empty());
        assert_eq!(waiting.wake, Wake::At(Timestamp::from_second(1000).unwrap()));
        assert!(matches!(decide(&observed(&ours, false, 1000)).effects[..], [Effect::Delete(_)]));
        assert!(matches!(decide(&observed(&ours[..1], false, 0)).effects[..], [Effect::Apply(_)]));
    }
}

//! The end of a workspace: its runs are cancelled and its environments stop (they see that it goes), then the claim is kept for a
//! while or deleted, then the object may go. After a minute it goes in any case.

use std::time::Duration;

use drydock_crds::condition::Reason;
use drydock_crds::label;
use drydock_crds::workspace::{ReclaimPolicy, WorkspaceStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::checkout::ours;
use super::{ClaimSeen, Draft, source};
use crate::decision::{Decision, Deletion, Effect, Notice, NoticeKind, Object, Wake, after, resource_of};

/// How long the finalizer may hold the object.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a kept claim is kept where the Workspace doesn't say.
const KEPT: Duration = Duration::from_secs(168 * 3600);

impl Draft<'_> {
    pub(super) fn deleted(mut self) -> Decision<WorkspaceStatus> {
        let meta = &self.seen.workspace.metadata;
        let finalizers = meta.finalizers.as_deref().unwrap_or_default();
        if !finalizers.iter().any(|f| f == label::WORKSPACE_FINALIZER) {
            return Decision::nothing();
        }
        let since = meta.deletion_timestamp.as_ref().map_or(self.seen.now, |t| t.0);
        let limit = after(since, PATIENCE);
        if let Some(checkout) = &self.seen.checkout
            && checkout.pod.deleting_since.is_none()
        {
            let pod = &checkout.pod.pod;
            self.effects.push(Effect::Delete(Deletion {
                resource: resource_of::<Pod>(),
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                resource_version: None,
                grace_seconds: Some(1),
            }));
        }
        let busy = self.seen.pods > 0 || self.seen.checkout.is_some();
        if busy && self.seen.now < limit {
            self.conditions.progressing(
                crate::condition::Truth::False,
                Reason::Terminating,
                format!("{} pods of its environments are being stopped", self.seen.pods),
            );
            self.status.conditions = self.conditions.finish();
            return Decision {
                effects: self.effects,
                status: Some(self.status),
                notices: self.notices,
                wake: Wake::At(limit),
            };
        }
        if busy {
            self.notices.push(Notice {
                kind: NoticeKind::Warning,
                reason: Reason::Terminating.to_string(),
                message: "gave up waiting for its pods after 60 s".into(),
            });
        }
        self.reclaim();
        self.effects.push(Effect::ReleaseFinalizer(label::WORKSPACE_FINALIZER));
        Decision { effects: self.effects, status: None, notices: self.notices, wake: Wake::OnChange }
    }

    /// Deletes the claim, or writes down until when it is kept. One that the source names is never touched.
    fn reclaim(&mut self) {
        let spec = &self.seen.workspace.spec;
        if spec.source.persistent_volume_claim.is_some() {
            return;
        }
        let own = |c: &&ClaimSeen| c.workspace_uid.as_deref() == Some(self.uid()) && !c.deleting;
        let Some(claim) = self.seen.claim.as_ref().filter(own) else {
            return;
        };
        let reclaim = spec.storage.as_ref().and_then(|s| s.reclaim.clone()).unwrap_or_default();
        if reclaim.policy == Some(ReclaimPolicy::Delete) {
            self.effects.push(Effect::Delete(Deletion {
                resource: resource_of::<PersistentVolumeClaim>(),
                namespace: self.namespace().to_owned(),
                name: claim.claim.name.clone(),
                uid: claim.claim.uid.clone(),
                resource_version: None,
                grace_seconds: None,
            }));
            return;
        }
        if claim.expires_at.is_some() {
            return;
        }
        let kept = reclaim.after.map_or(KEPT, Duration::from);
        let origin = source::origin(spec);
        let mut object = ours(self.namespace(), &claim.claim.name, self.name(), self.uid(), &origin);
        let expiry = after(self.seen.now, kept);
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert(label::EXPIRES_AT.into(), expiry.to_string());
        self.effects.push(Effect::Apply(Object::of(&object, &())));
    }
}

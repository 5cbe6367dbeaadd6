//! Claims that a Workspace left: whether it is there.

use std::sync::Arc;

use domain::Decision;
use domain::retained_claim::{Observed, decide};
use drydock_crds::{Workspace, label};
use drydock_domain as domain;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::uid;
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::{Kind, Watches};
use crate::store::{ObjectRef, index_name};

/// The kind: claims with our annotation; of others nothing is ever decided.
pub struct RetainedClaims;

impl Kind for RetainedClaims {
    type Object = PersistentVolumeClaim;
    type Observed = Observed;
    type Status = ();

    async fn observe(claim: Arc<PersistentVolumeClaim>, context: &Context) -> Result<Observed, Error> {
        let annotations = claim.metadata.annotations.as_ref();
        let workspace = annotations.and_then(|a| a.get(label::WORKSPACE_UID));
        let workspace_alive = workspace.is_some_and(|uid| context.stores.workspaces.with_uid(uid).is_some());
        Ok(Observed { workspace_alive, claim: Arc::unwrap_or_clone(claim), now: context.now() })
    }

    fn decide(observed: &Observed) -> Decision<()> {
        decide(observed)
    }

    fn status(_: &PersistentVolumeClaim) -> Option<&()> {
        None
    }

    fn watches(watches: &mut Watches<'_>) {
        watches.on::<Workspace>(|change, stores| {
            let Some(gone) = change.old.as_ref().filter(|_| change.new.is_none()) else {
                return Vec::new();
            };
            let of = &change.reference.namespace;
            let claims = stores.claims.find(index_name::WORKSPACE_UID, of, uid(&gone.metadata));
            claims.iter().map(|c| ObjectRef::of(c.as_ref())).collect()
        });
    }
}

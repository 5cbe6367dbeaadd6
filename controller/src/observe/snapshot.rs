//! Snapshots: nothing but the object itself.

use std::sync::Arc;

use domain::Decision;
use domain::snapshot::{Observed, decide};
use drydock_crds::{Snapshot, SnapshotStatus};
use drydock_domain as domain;

use crate::context::Context;
use crate::error::Error;
use crate::reconcile::{Kind, Watches};

/// The kind.
pub struct Snapshots;

impl Kind for Snapshots {
    type Object = Snapshot;
    type Observed = Observed;
    type Status = SnapshotStatus;

    async fn observe(snapshot: Arc<Snapshot>, context: &Context) -> Result<Observed, Error> {
        Ok(Observed { snapshot: Arc::unwrap_or_clone(snapshot), now: context.now() })
    }

    fn decide(observed: &Observed) -> Decision<SnapshotStatus> {
        decide(observed)
    }

    fn status(object: &Snapshot) -> Option<&SnapshotStatus> {
        object.status.as_ref()
    }

    fn watches(_: &mut Watches<'_>) {}
}

//! What becomes of a Snapshot: the kind is in the API, its behaviour isn't there yet, and its status says so.

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::snapshot::{Snapshot, SnapshotStatus};
use jiff::Timestamp;

use crate::condition::{Conditions, Truth};
use crate::decision::Decision;

/// Everything a Snapshot is decided by.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub snapshot: Snapshot,
    /// When it was observed.
    pub now: Timestamp,
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed) -> Decision<SnapshotStatus> {
    let generation = seen.snapshot.metadata.generation.unwrap_or_default();
    let present = seen.snapshot.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&present.conditions, generation, seen.now);
    let message = "snapshots aren't implemented in this version: nothing was taken";
    conditions.set(ConditionType::Succeeded, Truth::False, Reason::NotImplemented, message);
    conditions.stalled(Reason::NotImplemented, message);
    Decision::status(SnapshotStatus {
        observed_generation: generation,
        conditions: conditions.finish(),
        ..present
    })
}

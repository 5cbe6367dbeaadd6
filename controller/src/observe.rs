//! What each kind reads before it is decided upon, and which changes wake it: one file a kind.

use crate::reconcile::Loops;

/// Names every kind, so that its loop is started.
pub fn kinds(_loops: &mut Loops<'_>) {}

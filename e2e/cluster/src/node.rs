//! One node.

/// The folders of the machine that a node has for itself: below the node's folder, and where it sees them.
pub(crate) const MOUNTS: &[(&str, &str)] = &[];

//! The link between the host and a cluster.

/// The host's end of the link.
pub(crate) fn host_interface(slot: u8) -> String {
    format!("drydock{slot}")
}

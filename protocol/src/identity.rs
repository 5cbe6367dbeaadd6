//! The one line that `drydock-agent identity` prints: how a client recognises the agent on its first contact over TLS.

use serde::{Deserialize, Serialize};

/// One JSON object on one line of stdout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// [`crate::PROTOCOL_VERSION`] of the agent.
    pub protocol_version: u32,
    /// Semantic version of the agent.
    pub agent_version: String,
    /// Random, one for each start of the container.
    pub boot_id: String,
    /// SHA-256 of the server certificate's DER bytes, lower-case hex, 64 characters. Constant within one boot.
    pub fingerprint: String,
    /// The TLS port; absent when the agent serves on its unix socket alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub port: Option<u16>,
}

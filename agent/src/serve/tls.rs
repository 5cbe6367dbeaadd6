//! The server's key: made at the first start in a boot, kept in the agent's folder (0600) so that the fingerprint that a
//! client has pinned stays right when `serve` is restarted, made anew in the next boot. Clients are verified against a CA.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::paths::{read_json, write_whole};

/// Name in the certificate. Clients go by the fingerprint.
pub const SERVER_NAME: &str = "drydock-agent";

/// A key with its self-signed certificate.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerKey {
    boot_id: String,
    key_pem: String,
    certificate_pem: String,
    fingerprint: String,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It can't be made.
    #[error("cannot make a key: {0}")]
    Make(#[from] rcgen::Error),
    /// It can't be written.
    #[error("cannot write the key: {0}")]
    Write(#[from] io::Error),
    /// It can't be written.
    #[error("cannot write the key: {0}")]
    Encode(#[from] serde_json::Error),
}

impl ServerKey {
    /// The key of this boot.
    ///
    /// # Errors
    /// It can't be made, or not written.
    pub fn open(file: &Path, boot_id: &str) -> Result<Self, KeyError> {
        if let Some(found) = read_json::<Self>(file).filter(|found| found.boot_id == boot_id) {
            return Ok(found);
        }
        let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
        let key = Self {
            boot_id: boot_id.to_owned(),
            key_pem: made.signing_key.serialize_pem(),
            certificate_pem: made.cert.pem(),
            fingerprint: fingerprint(made.cert.der()),
        };
        // The old one may be readable for nobody; it is replaced, never reused.
        let _ = fs::remove_file(file);
        write_whole(file, &serde_json::to_vec(&key)?)?;
        Ok(key)
    }

    /// SHA-256 of the certificate's DER bytes, lower-case hex.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Mutual TLS: a client needs a certificate that the CA has signed.
    #[must_use]
    pub fn server_config(&self, client_ca_pem: &str) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(Identity::from_pem(&self.certificate_pem, &self.key_pem))
            .client_ca_root(Certificate::from_pem(client_ca_pem))
            .client_auth_optional(false)
    }
}

/// SHA-256 in lower-case hex.
#[must_use]
pub fn fingerprint(der: &[u8]) -> String {
    crate::shim::capture::to_hex(&Sha256::digest(der))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_lives_as_long_as_its_boot() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tls");
        let first = ServerKey::open(&file, "one").unwrap();
        assert_eq!(first.fingerprint().len(), 64);
        assert_eq!(ServerKey::open(&file, "one").unwrap().fingerprint(), first.fingerprint());
        assert_ne!(ServerKey::open(&file, "two").unwrap().fingerprint(), first.fingerprint());
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}

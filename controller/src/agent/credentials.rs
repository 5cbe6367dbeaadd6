//! The controller's own authority: made once, kept in a Secret of the operator's namespace, the same for every replica. Agents take
//! clients alone that it has signed. The client's own key is made at each start and never leaves the memory.

use std::collections::BTreeMap;

use drydock_crds::label;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::time::timeout;

use crate::act::DEADLINE;

/// The Secret's name.
const NAME: &str = "drydock-client-ca";
const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";

/// The authority.
pub struct Credentials {
    certificate: String,
    key: KeyPair,
}

/// Why there is no authority.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// It can't be made.
    #[error("the authority for agents can't be made")]
    Make(#[from] rcgen::Error),
    /// The Secret can't be read or created.
    #[error("the Secret {NAME} can't be read or created")]
    Api(#[from] kube::Error),
    /// The API server doesn't answer.
    #[error("the Secret {NAME}: no answer in time")]
    Deadline,
    /// The Secret isn't what it should be.
    #[error(
        "the Secret {NAME} has no {0}: delete it, and a new one is made (running environments are then reached through pods/exec)"
    )]
    Incomplete(&'static str),
}

impl Credentials {
    /// Makes an authority that nobody else knows.
    ///
    /// # Errors
    /// When the machine can't make keys.
    pub fn make() -> Result<Self, CredentialsError> {
        let key = KeyPair::generate()?;
        let certificate = authority().self_signed(&key)?.pem();
        Ok(Self { certificate, key })
    }

    /// Reads the authority, or makes it where there is none yet. Of two controllers that do so at once one wins.
    ///
    /// # Errors
    /// When the Secret can't be read, created or understood.
    pub async fn load(client: &Client, namespace: &str) -> Result<Self, CredentialsError> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        if let Some(found) = bounded(secrets.get_opt(NAME)).await? {
            return Self::read(&found);
        }
        let made = Self::make()?;
        match bounded(secrets.create(&PostParams::default(), &made.secret(namespace))).await {
            Ok(_) => Ok(made),
            Err(CredentialsError::Api(kube::Error::Api(status))) if status.code == 409 => {
                Self::read(&bounded(secrets.get(NAME)).await?)
            }
            Err(error) => Err(error),
        }
    }

    /// The authority's certificate in PEM, which environment pods are told.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A new certificate of the controller with its key.
    pub(super) fn client(
        &self,
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), CredentialsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name("drydock-controller");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2120, 1, 1));
        let certificate = params.signed_by(&key, &Issuer::new(authority(), &self.key))?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((certificate.der().clone(), key.into()))
    }

    fn read(secret: &Secret) -> Result<Self, CredentialsError> {
        let text = |name: &'static str| {
            let bytes = secret.data.as_ref().and_then(|d| d.get(name));
            let text = bytes.and_then(|b| String::from_utf8(b.0.clone()).ok());
            text.filter(|t| !t.is_empty()).ok_or(CredentialsError::Incomplete(name))
        };
        Ok(Self { certificate: text(CERTIFICATE)?, key: KeyPair::from_pem(&text(KEY)?)? })
    }

    fn secret(&self, namespace: &str) -> Secret {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        Secret {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(namespace.to_owned()),
                labels: Some(BTreeMap::from([(label::MANAGED_BY.to_owned(), label::MANAGER.to_owned())])),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([
                (CERTIFICATE.to_owned(), bytes(&self.certificate)),
                (KEY.to_owned(), bytes(&self.key.serialize_pem())),
            ])),
            immutable: Some(true),
            ..Secret::default()
        }
    }
}

/// Dates don't count: who wants another authority deletes the Secret.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("drydock-agent-client-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2120, 1, 1));
    params
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, CredentialsError> {
    let answer = timeout(DEADLINE, call).await.map_err(|_| CredentialsError::Deadline)?;
    answer.map_err(CredentialsError::Api)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_back_signs_for_the_same_authority() {
        let made = Credentials::make().unwrap();
        let read = Credentials::read(&made.secret("ns")).unwrap();
        assert_eq!(read.certificate(), made.certificate());
        assert!(read.client().is_ok());
        assert!(matches!(Credentials::read(&Secret::default()), Err(CredentialsError::Incomplete("ca.crt"))));
    }
}

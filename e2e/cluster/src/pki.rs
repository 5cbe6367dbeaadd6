//! The certificates of a cluster: one authority, and a certificate for each of those who speak to each other.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

use crate::{Error, Result};

/// The authority of one cluster and the folder its files go to.
pub(crate) struct Pki {
    folder: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

/// Whom a certificate is for.
pub(crate) struct Subject<'a> {
    /// The user's name.
    pub(crate) common_name: &'a str,
    /// The user's group, if any.
    pub(crate) organization: Option<&'a str>,
    /// Host names and addresses, for those who serve.
    pub(crate) alternative_names: Vec<String>,
}

impl<'a> Subject<'a> {
    /// A client.
    pub(crate) fn client(common_name: &'a str, organization: Option<&'a str>) -> Self {
        Self { common_name, organization, alternative_names: Vec::new() }
    }
}

impl Pki {
    /// Makes a new authority, and the key that signs service account tokens.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        let name = "drydock-cluster";
        let failed = |source| Error::Certificate { subject: name.to_owned(), source };
        let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(failed)?;
        let key_pem = key.serialize_pem();
        let authority = CertifiedIssuer::self_signed(params, key).map_err(failed)?;
        write_private(&folder.join("ca.crt"), &authority.pem())?;
        write_private(&folder.join("ca.key"), &key_pem)?;
        let tokens = KeyPair::generate().map_err(failed)?;
        write_private(&folder.join("service-accounts.key"), &tokens.serialize_pem())?;
        write_private(&folder.join("service-accounts.pub"), &tokens.public_key_pem())?;
        Ok(Self { folder: folder.to_owned(), authority })
    }

    /// A file of the authority's folder, as a program's argument.
    pub(crate) fn path(&self, file: &str) -> String {
        self.folder.join(file).display().to_string()
    }

    /// Makes `FILE.crt` and `FILE.key`, usable by clients and servers.
    pub(crate) fn issue(&self, file: &str, subject: &Subject<'_>) -> Result<()> {
        let failed = |source| Error::Certificate { subject: subject.common_name.to_owned(), source };
        let mut params = CertificateParams::new(subject.alternative_names.clone()).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, subject.common_name);
        if let Some(organization) = subject.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.authority).map_err(failed)?;
        write_private(&self.folder.join(format!("{file}.crt")), &certificate.pem())?;
        write_private(&self.folder.join(format!("{file}.key")), &key.serialize_pem())
    }

    /// As [`issue`](Self::issue) for a client, and a kubeconfig for it at `target`, everything embedded.
    pub(crate) fn kubeconfig(
        &self,
        file: &str,
        subject: &Subject<'_>,
        server: &str,
        target: &Path,
    ) -> Result<()> {
        self.issue(file, subject)?;
        let data = |name: String| -> Result<String> {
            let path = self.folder.join(name);
            fs::read(&path).map(|bytes| STANDARD.encode(bytes)).map_err(Error::file("read", &path))
        };
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "drydock",
            "clusters": [{"name": "drydock", "cluster": {
                "server": server,
                "certificate-authority-data": data("ca.crt".to_owned())?,
            }}],
            "users": [{"name": "drydock", "user": {
                "client-certificate-data": data(format!("{file}.crt"))?,
                "client-key-data": data(format!("{file}.key"))?,
            }}],
            "contexts": [{"name": "drydock", "context": {"cluster": "drydock", "user": "drydock"}}],
        });
        write_private(target, &format!("{config:#}\n"))
    }
}

/// Writes a file that its owner alone may read.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(Error::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_holds_what_the_authority_issued() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::create(folder.path()).unwrap();
        let target = folder.path().join("kubeconfig");
        let subject = Subject::client("admin", Some("system:masters"));
        pki.kubeconfig("admin", &subject, "https://127.0.0.1:1", &target).unwrap();

        let config: serde_json::Value = serde_json::from_slice(&fs::read(&target).unwrap()).unwrap();
        let user = &config["users"][0]["user"];
        let decode = |value: &serde_json::Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
        assert_eq!(
            decode(&user["client-certificate-data"]),
            fs::read(folder.path().join("admin.crt")).unwrap()
        );
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:1");
    }

    #[test]
    fn keys_are_readable_by_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::create(folder.path()).unwrap();
        pki.issue("server", &Subject::client("server", None)).unwrap();
        for file in ["ca.key", "service-accounts.key", "server.key"] {
            let mode = fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
    }
}

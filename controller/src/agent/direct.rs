//! TLS to the pod's address. The agent is known by the fingerprint of its certificate, the controller by a certificate that its own
//! authority signed. Names and dates in the agent's certificate mean nothing.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

use super::credentials::{Credentials, CredentialsError};

/// A pod's network answers at once or not at all.
const CONNECT: Duration = Duration::from_secs(2);
const PING: Duration = Duration::from_secs(10);
const WINDOW: u32 = 1024 * 1024;

/// Why an agent isn't reached directly.
#[derive(Debug, thiserror::Error)]
pub(super) enum DirectError {
    #[error("no connection to {address}")]
    Unreachable {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("no answer from {0} in time")]
    Silent(SocketAddr),
    #[error("{0} isn't the agent that is known")]
    Identity(SocketAddr),
    #[error("no TLS with {address}")]
    Tls {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("no HTTP/2 with the agent")]
    Http(#[from] tonic::transport::Error),
}

impl DirectError {
    /// Whether the pod's address can't be reached from here.
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Silent(_))
    }
}

/// Dials agents.
pub(super) struct Direct {
    credentials: Arc<Parts>,
    provider: Arc<CryptoProvider>,
}

struct Parts {
    certificate: CertificateDer<'static>,
    key: rustls::pki_types::PrivateKeyDer<'static>,
}

impl Direct {
    pub(super) fn new(credentials: &Credentials) -> Result<Self, CredentialsError> {
        let (certificate, key) = credentials.client()?;
        Ok(Self {
            credentials: Arc::new(Parts { certificate, key }),
            provider: Arc::new(rustls::crypto::ring::default_provider()),
        })
    }

    /// Opens a channel to the agent with that fingerprint. It never dials again by itself.
    pub(super) async fn dial(
        &self,
        ip: IpAddr,
        port: u16,
        fingerprint: &str,
    ) -> Result<Channel, DirectError> {
        let address = SocketAddr::new(ip, port);
        let stream = self.tls(address, fingerprint).await?;
        let once = Arc::new(Mutex::new(Some(TokioIo::new(stream))));
        let connector = tower::service_fn(move |_: http::Uri| {
            let stream = once.lock().unwrap_or_else(PoisonError::into_inner).take();
            std::future::ready(stream.ok_or_else(|| std::io::Error::other("the connection has ended")))
        });
        let channel = Endpoint::from_static("http://agent")
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(4 * WINDOW)
            .connect_with_connector(connector)
            .await?;
        Ok(channel)
    }

    async fn tls(&self, address: SocketAddr, fingerprint: &str) -> Result<TlsStream<TcpStream>, DirectError> {
        let tcp = timeout(CONNECT, TcpStream::connect(address)).await;
        let tcp = tcp.map_err(|_| DirectError::Silent(address))?;
        let tcp = tcp.map_err(|source| DirectError::Unreachable { address, source })?;
        // Without it a small frame would wait for the answer to the one before.
        tcp.set_nodelay(true).map_err(|source| DirectError::Unreachable { address, source })?;
        let config = self
            .config(fingerprint)
            .map_err(|error| DirectError::Tls { address, source: std::io::Error::other(error) })?;
        let name = ServerName::IpAddress(address.ip().into());
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, tcp);
        match timeout(CONNECT, handshake).await {
            Err(_) => Err(DirectError::Silent(address)),
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(source)) if is_other_certificate(&source) => Err(DirectError::Identity(address)),
            Ok(Err(source)) => Err(DirectError::Tls { address, source }),
        }
    }

    fn config(&self, fingerprint: &str) -> Result<ClientConfig, rustls::Error> {
        let verifier = Pinned { fingerprint: fingerprint.to_owned(), provider: self.provider.clone() };
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(
                vec![self.credentials.certificate.clone()],
                self.credentials.key.clone_key(),
            )?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

fn is_other_certificate(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    matches!(
        inner,
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure))
    )
}

/// Takes one certificate and no other.
#[derive(Debug)]
struct Pinned {
    fingerprint: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if fingerprint(certificate) == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// SHA-256 of a certificate, in lower-case hex.
fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    Sha256::digest(certificate.as_ref()).iter().map(|b| format!("{b:02x}")).collect()
}

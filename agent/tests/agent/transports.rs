//! The two ways in: mutual TLS with a pinned fingerprint, and HTTP/2 over the standard streams of `session`.

use std::process::Stdio;
use std::sync::Arc;

use drydock_protocol::agent::HelloRequest;
use drydock_protocol::agent::agent_client::AgentClient;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::Endpoint;

use crate::harness::{Agent, BINARY, identity};

/// Accepts the certificate with this fingerprint alone.
#[derive(Debug)]
struct Pinned(String, Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        if drydock_agent::serve::tls::fingerprint(end_entity) == self.0 {
            Ok(rustls::client::danger::ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::General("another agent".into()))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.1.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.1.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.1.signature_verification_algorithms.supported_schemes()
    }
}

struct Ca {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn ca() -> Ca {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    Ca { pem, issuer: Issuer::new(params, key) }
}

async fn hello(port: u16, fingerprint: &str, signed_by: Option<&Ca>) -> Result<String, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned(fingerprint.to_owned(), provider)));
    let mut config = match signed_by {
        Some(ca) => {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["controller".to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &ca.issuer).unwrap();
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let connect = tower::service_fn(move |_| {
        let connector = connector.clone();
        async move {
            let tcp = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
            let name = ServerName::try_from("drydock-agent").unwrap();
            connector.connect(name, tcp).await.map(TokioIo::new)
        }
    });
    let channel = Endpoint::from_static("http://agent").connect_with_connector(connect).await;
    let channel = channel.map_err(|error| format!("{error:?}"))?;
    let answer = AgentClient::new(channel).hello(HelloRequest { epoch: 1 }).await;
    answer.map(|answer| answer.into_inner().boot_id).map_err(|error| format!("{error:?}"))
}

#[tokio::test]
async fn tls_is_mutual_pinned_and_outlives_a_serve() {
    let (ours, theirs) = (ca(), ca());
    let agent = Agent::start_with(&["--port", "0"], &[("DRYDOCK_CLIENT_CA", &ours.pem)]).await;
    let first = identity(agent.path());
    let port = first.port.unwrap();
    assert_eq!(hello(port, &first.fingerprint, Some(&ours)).await, Ok(agent.boot_id.clone()));
    assert!(hello(port, &first.fingerprint, Some(&theirs)).await.is_err());
    assert!(hello(port, &first.fingerprint, None).await.is_err());
    assert!(hello(port, &"0".repeat(64), Some(&ours)).await.unwrap_err().contains("another agent"));

    let serve = agent.serve_pid().await;
    nix::sys::signal::kill(serve, nix::sys::signal::Signal::SIGKILL).unwrap();
    let agent = crate::at_most_once::reconnect(agent, serve).await;
    let second = identity(agent.path());
    assert_eq!(second.fingerprint, first.fingerprint);
    assert_eq!(hello(second.port.unwrap(), &first.fingerprint, Some(&ours)).await, Ok(agent.boot_id.clone()));
}

#[tokio::test]
async fn a_session_carries_http2_and_nothing_else() {
    let agent = Agent::start().await;
    let mut session = tokio::process::Command::new(&*BINARY)
        .arg("--dir")
        .arg(agent.path())
        .arg("session")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let streams = tokio::io::join(session.stdout.take().unwrap(), session.stdin.take().unwrap());
    let mut streams = Some(streams);
    let connect = tower::service_fn(move |_| {
        let streams = streams.take();
        async move {
            streams.map(TokioIo::new).ok_or_else(|| std::io::Error::other("asked for a second connection"))
        }
    });
    let channel = Endpoint::from_static("http://agent").connect_with_connector(connect).await.unwrap();
    let hello = AgentClient::new(channel).hello(HelloRequest { epoch: 0 }).await.unwrap().into_inner();
    assert_eq!(hello.boot_id, agent.boot_id);
    assert!(hello.executables.contains(&"sh".to_owned()) && hello.executables.is_sorted());
}

#[tokio::test]
async fn the_health_port_answers() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _agent = Agent::start_with(&["--health-port", &port.to_string()], &[]).await;
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok\n"), "{answer}");
}

#[tokio::test]
async fn install_puts_the_binary_where_it_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("bin");
    let folder = format!("1000:1000:2775:{}", dir.path().join("tree").display());
    let mut install = std::process::Command::new(&*BINARY);
    install.arg("install").arg("--to").arg(&to).args(["--mkdir", &folder]);
    assert!(install.status().unwrap().success());
    let version = std::process::Command::new(to.join("drydock-agent")).arg("version").output().unwrap();
    assert_eq!(version.stdout, concat!(env!("CARGO_PKG_VERSION"), "\n").as_bytes());
}

#[tokio::test]
async fn identity_gives_up_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(&*BINARY)
        .arg("--dir")
        .arg(dir.path())
        .args(["identity", "--timeout", "0"])
        .output()
        .unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("did not answer"));
}

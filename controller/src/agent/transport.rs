//! The two ways to an agent behind one face: TLS to the pod's address, or HTTP/2 over one `pods/exec`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use domain::agent::PodRef;
use drydock_domain as domain;
use drydock_protocol::agent::agent_client::AgentClient;
use drydock_protocol::limits;
use kube::Client;
use tonic::transport::Channel;

use super::credentials::{Credentials, CredentialsError};
use super::direct::{Direct, DirectError};
use super::exec::{self, ExecFailure};

/// Failures of the direct way, of any pod and in a row, after which it isn't tried for a while.
const DIRECT_FAILURES: u32 = 3;
/// One dial in so many tries the direct way all the same.
const DIRECT_RETRY: u32 = 20;

/// Which way is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// Directly where the pod's address can be reached, else through `pods/exec`.
    #[default]
    Auto,
    /// TLS to the pod's address alone.
    Direct,
    /// `pods/exec` alone.
    Exec,
}

/// Where an agent is found.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// Its pod.
    pub(super) pod: PodRef,
    /// The pod's address, once it has one.
    pub(super) ip: Option<std::net::IpAddr>,
    /// The fingerprint that is known of its certificate.
    pub(super) fingerprint: Option<String>,
    /// Its TLS port, where it differs from the usual.
    pub(super) port: u16,
}

/// An open channel.
pub(super) struct Connection {
    pub(super) client: AgentClient<Channel>,
    /// `direct` or `exec`.
    pub(super) transport: &'static str,
    /// The certificate's fingerprint, where there is one.
    pub(super) fingerprint: Option<String>,
    /// The TLS port that was used or told.
    pub(super) port: Option<u16>,
}

/// Why there is no channel.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("the pod has no address yet")]
    NoAddress,
    #[error("the agent serves on no port")]
    NoPort,
    #[error(transparent)]
    Direct(#[from] DirectError),
    #[error(transparent)]
    Exec(#[from] ExecFailure),
}

/// Opens channels.
pub(super) struct Dialer {
    kube: Client,
    direct: Direct,
    transport: Transport,
    failures: AtomicU32,
}

impl Dialer {
    pub(super) fn new(
        kube: Client,
        credentials: &Credentials,
        transport: Transport,
    ) -> Result<Self, CredentialsError> {
        Ok(Self { kube, direct: Direct::new(credentials)?, transport, failures: AtomicU32::new(0) })
    }

    /// Opens a channel, within a bound.
    pub(super) async fn dial(&self, address: &Address) -> Result<Connection, DialError> {
        match self.transport {
            Transport::Direct => self.direct(address).await,
            Transport::Exec => self.exec(address).await,
            Transport::Auto if self.skips_direct() => self.exec(address).await,
            Transport::Auto => match self.direct(address).await {
                Ok(connection) => {
                    self.failures.store(0, Ordering::Relaxed);
                    Ok(connection)
                }
                // The API server didn't let us in: it won't by the other way either.
                Err(DialError::Exec(error)) => Err(error.into()),
                Err(error) => {
                    if matches!(&error, DialError::Direct(e) if e.is_unreachable()) {
                        self.failures.fetch_add(1, Ordering::Relaxed);
                    }
                    let error = crate::reconcile::chain(&error);
                    tracing::debug!(pod = address.pod.name, error, "not reached directly: trying pods/exec");
                    self.exec(address).await
                }
            },
        }
    }

    /// Where the pods' network can't be reached, each dial would cost its deadline: then the direct way is tried now and then only.
    fn skips_direct(&self) -> bool {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures < DIRECT_FAILURES {
            return false;
        }
        !self.failures.fetch_add(1, Ordering::Relaxed).is_multiple_of(DIRECT_RETRY)
    }

    async fn direct(&self, address: &Address) -> Result<Connection, DialError> {
        let ip = address.ip.ok_or(DialError::NoAddress)?;
        if let Some(fingerprint) = &address.fingerprint {
            match self.direct.dial(ip, address.port, fingerprint).await {
                // Another certificate than was pinned: who is there is asked anew, through the API server.
                Err(DirectError::Identity(_)) => {}
                answer => return Ok(connection(answer?, Some(fingerprint.clone()), Some(address.port))),
            }
        }
        let identity = exec::identity(&self.kube, &address.pod).await?;
        let port = identity.port.ok_or(DialError::NoPort)?;
        let channel = self.direct.dial(ip, port, &identity.fingerprint).await?;
        Ok(connection(channel, Some(identity.fingerprint), Some(port)))
    }

    async fn exec(&self, address: &Address) -> Result<Connection, DialError> {
        let channel = exec::channel(&self.kube, &address.pod).await?;
        Ok(connection(channel, None, None))
    }
}

fn connection(channel: Channel, fingerprint: Option<String>, port: Option<u16>) -> Connection {
    let client = AgentClient::new(channel)
        .max_decoding_message_size(limits::MESSAGE)
        .max_encoding_message_size(limits::MESSAGE);
    Connection { client, transport: if fingerprint.is_some() { "direct" } else { "exec" }, fingerprint, port }
}

/// How long a dial may take on each step.
pub(super) const DIAL: Duration = Duration::from_secs(10);

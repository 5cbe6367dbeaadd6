//! Answers the contract: on a unix socket in the agent's folder (the plugin and the controller reach it through
//! `drydock-agent session`), and with mutual TLS on a port (the controller, directly). Beside them a plain HTTP port says
//! whether it is ready. May be killed at any moment: everything it knows is in the runs' folders.

pub mod executables;
pub mod fence;
pub mod health;
pub mod memory_guard;
pub mod read;
pub mod service;
pub mod tls;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use drydock_protocol::agent::agent_server::AgentServer;
use drydock_protocol::identity::Identity;
use drydock_protocol::{PROTOCOL_VERSION, limits};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::Server;

use crate::paths::{AgentDir, write_whole};
use crate::runs::registry::{Registry, Settings};
use service::Service;

/// Environment variable with the boot id, set by `supervise`.
pub const BOOT_ID_ENV: &str = "DRYDOCK_BOOT_ID";

/// How long runs may take to end when the agent is told to stop; Kubernetes' own grace is 30 s by default.
const STOP_BOUND: Duration = Duration::from_secs(20);
/// A peer that doesn't answer a ping for this long is gone.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// What `serve` is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The agent's folder.
    pub dir: AgentDir,
    /// The runs.
    pub runs: Settings,
    /// The TLS port and the PEM of the CA that signs clients' certificates; absent: the unix socket alone.
    pub tls: Option<(u16, String)>,
    /// The health port; absent: none.
    pub health_port: Option<u16>,
}

/// Why `serve` ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The agent's folder can't be used.
    #[error("cannot use {path}")]
    Folder {
        /// Which part of it.
        path: PathBuf,
        /// Of the file system.
        source: io::Error,
    },
    /// A port is taken, for instance.
    #[error("cannot listen on port {port}")]
    Listen {
        /// Which.
        port: u16,
        /// Of the network.
        source: io::Error,
    },
    /// The key can't be made or read.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// A server ended.
    #[error("the server ended")]
    Transport(#[from] tonic::transport::Error),
    /// A signal handler can't be set up.
    #[error("cannot watch signals")]
    Signals(#[source] io::Error),
}

/// Serves until TERM: then every run is cancelled and waited for, bounded, while questions are still answered.
///
/// # Errors
/// The first part that can't be set up, or ends.
pub async fn serve(options: Options) -> Result<(), ServeError> {
    let Options { dir, runs, tls, health_port } = options;
    let folder = |path: PathBuf| move |source| ServeError::Folder { path, source };
    fs::create_dir_all(dir.path()).map_err(folder(dir.path().into()))?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).map_err(folder(dir.path().into()))?;
    let registry = Registry::open(dir.clone(), runs).await.map_err(folder(dir.runs()))?;
    let key = tls::ServerKey::open(&dir.tls(), registry.boot_id())
        .map_err(|error| ServeError::Tls(error.to_string()))?;
    let socket = bind_socket(&dir).map_err(folder(dir.socket()))?;
    let (stop, stopped) = watch::channel(false);

    let mut servers = tokio::task::JoinSet::new();
    let unix = builder().add_service(service(&registry));
    let incoming = UnixListenerStream::new(socket);
    servers.spawn(unix.serve_with_incoming_shutdown(incoming, wait_for(stopped.clone())));
    let mut port = None;
    if let Some((wanted, client_ca)) = tls {
        let listener = bind_port(wanted).await?;
        port = listener.local_addr().ok().map(|address| address.port());
        let server = builder().tls_config(key.server_config(&client_ca))?.add_service(service(&registry));
        // An answer that is small isn't held back until the one before is acknowledged.
        let incoming = TcpListenerStream::new(listener).map(|stream| {
            if let Ok(stream) = &stream {
                // Without it a peer is only slower.
                let _ = stream.set_nodelay(true);
            }
            stream
        });
        servers.spawn(server.serve_with_incoming_shutdown(incoming, wait_for(stopped.clone())));
    }
    if let Some(health_port) = health_port {
        tokio::spawn(health::answer(bind_port(health_port).await?));
    }
    tokio::spawn(memory_guard::guard(registry.clone()));
    write_identity(&dir, &registry, &key, port).map_err(folder(dir.identity()))?;
    tracing::info!(boot_id = registry.boot_id(), port, "ready");

    let mut term = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    tokio::select! {
        _ = term.recv() => end_runs(&registry).await,
        ended = servers.join_next() => {
            if let Some(Ok(result)) = ended {
                result?;
            }
        }
    }
    stop.send_replace(true);
    Ok(())
}

fn builder() -> Server {
    Server::builder().http2_keepalive_interval(Some(KEEPALIVE)).http2_keepalive_timeout(Some(KEEPALIVE))
}

fn service(registry: &Arc<Registry>) -> AgentServer<Service> {
    AgentServer::new(Service::new(registry.clone()))
        .max_decoding_message_size(limits::MESSAGE)
        .max_encoding_message_size(limits::MESSAGE)
}

async fn wait_for(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn bind_socket(dir: &AgentDir) -> io::Result<UnixListener> {
    let path = dir.socket();
    // What an earlier `serve` said of itself must not stand beside a socket that answers.
    for old in [dir.identity(), path.clone()] {
        match fs::remove_file(&old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Both families where the machine has both.
async fn bind_port(port: u16) -> Result<TcpListener, ServeError> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Ok(listener) => Ok(listener),
        Err(_) => {
            let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
            TcpListener::bind(address).await.map_err(|source| ServeError::Listen { port, source })
        }
    }
}

fn write_identity(
    dir: &AgentDir,
    registry: &Registry,
    key: &tls::ServerKey,
    port: Option<u16>,
) -> io::Result<()> {
    let identity = Identity {
        protocol_version: PROTOCOL_VERSION,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: registry.boot_id().to_owned(),
        fingerprint: key.fingerprint().to_owned(),
        port,
    };
    write_whole(&dir.identity(), &serde_json::to_vec(&identity)?)
}

async fn end_runs(registry: &Arc<Registry>) {
    let active = registry.active();
    tracing::info!(active = active.len(), "told to stop: ending the runs");
    let all = async {
        for (key, run) in active {
            // What can't be cancelled is ended by `supervise`.
            let _ = registry.cancel(&key);
            let _ = run.subscribe().wait_for(Option::is_some).await;
        }
    };
    let _ = tokio::time::timeout(STOP_BOUND, all).await;
}

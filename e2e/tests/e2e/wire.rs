//! The way between a client and the API server, for tests to cut and to silence.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use drydock_e2e::Scene;
use kube::config::Kubeconfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::{Receiver, Sender, channel};

/// What becomes of the connections that there are. New ones always work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    Open,
    /// Closed.
    Cut,
    /// Open, and nothing passes any more.
    Silent,
}

/// A way to the API server, with a kubeconfig that goes over it.
pub(super) struct Wire {
    pub(super) kubeconfig: PathBuf,
    current: Arc<std::sync::Mutex<Sender<Now>>>,
    _folder: tempfile::TempDir,
}

impl Wire {
    pub(super) async fn new(scene: &Scene) -> Result<Self> {
        let mut config = Kubeconfig::read_from(&scene.drydock.kubeconfig)?;
        let cluster = config.clusters.first_mut().and_then(|c| c.cluster.as_mut());
        let server = cluster.context("the kubeconfig has a cluster")?;
        let address = server.server.clone().context("the cluster has a server")?;
        let target = address.trim_start_matches("https://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        server.server = Some(format!("https://{}", listener.local_addr()?));
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, serde_json::to_vec(&config)?)?;
        let current = Arc::new(std::sync::Mutex::new(channel(Now::Open).0));
        tokio::spawn(accept(listener, target, Arc::clone(&current)));
        Ok(Self { kubeconfig, current, _folder: folder })
    }

    /// Closes every connection that there is.
    pub(super) fn cut(&self) {
        self.set(Now::Cut);
    }

    /// Lets nothing pass on the connections that there are, and closes none.
    pub(super) fn silence(&self) {
        self.set(Now::Silent);
    }

    fn set(&self, now: Now) {
        let mut current = self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::replace(&mut *current, channel(Now::Open).0).send_replace(now);
    }
}

async fn accept(listener: TcpListener, target: String, current: Arc<std::sync::Mutex<Sender<Now>>>) {
    while let Ok((client, _)) = listener.accept().await {
        let now = current.lock().unwrap_or_else(std::sync::PoisonError::into_inner).subscribe();
        let target = target.clone();
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(&target).await else {
                return;
            };
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::join!(carry(from_client, to_server, now.clone()), carry(from_server, to_client, now));
        });
    }
}

async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut now: Receiver<Now>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            harm = harmed(&mut now) => {
                if harm == Now::Silent {
                    // Held open until the test's runtime ends.
                    std::future::pending::<()>().await;
                }
                return;
            }
            read = from.read(&mut buffer) => read,
        };
        match read {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if to.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn harmed(now: &mut Receiver<Now>) -> Now {
    // A sender that is gone was forgotten with its test.
    now.wait_for(|now| *now != Now::Open).await.map_or(Now::Cut, |now| *now)
}

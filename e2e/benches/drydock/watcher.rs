//! Sees the ends of tool runs, as any client would: by one watch of the namespace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use drydock_crds::ToolRun;
use futures::TryStreamExt;
use kube::api::{Api, ListParams, Request, WatchParams};
use kube::core::WatchEvent;
use kube::{Client, Resource};
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// The end of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    /// When its final status was seen.
    pub(crate) at: Instant,
    /// How long the tool itself ran, in whole milliseconds.
    pub(crate) tool: Duration,
    /// Its outcome.
    pub(crate) outcome: String,
}

type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<Ended>>>>;

/// A watch that tells who waits for it.
pub(crate) struct Watcher {
    waiting: Waiting,
    task: AbortHandle,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is read of a run; the rest is skipped.
#[derive(Clone, Debug, Deserialize)]
struct Seen {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    outcome: Option<String>,
    container: Container,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    exec_time_ms: u64,
}

impl Watcher {
    /// Watches from now on.
    ///
    /// # Errors
    /// When the runs can't be listed.
    pub(crate) async fn start(client: Client, namespace: &str) -> Result<Self> {
        let runs: Api<ToolRun> = Api::namespaced(client.clone(), namespace);
        let listed = runs.list_metadata(&ListParams::default().limit(1)).await?;
        let from = listed.metadata.resource_version.context("a list has a version")?;
        let waiting = Waiting::default();
        let url = ToolRun::url_path(&(), Some(namespace));
        let task = tokio::spawn(watch(client, url, from, waiting.clone())).abort_handle();
        Ok(Self { waiting, task })
    }

    /// Tells the end of the run of that name.
    pub(crate) fn expect(&self, name: &str) -> oneshot::Receiver<Ended> {
        let (tell, told) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), tell);
        told
    }
}

/// Watches until it fails; whoever waits learns of it by a closed channel.
async fn watch(client: Client, url: String, mut version: String, waiting: Waiting) {
    let failed = async {
        loop {
            let request = Request::new(url.clone()).watch(&WatchParams::default(), &version)?;
            let mut events = std::pin::pin!(client.request_events::<Seen>(request).await?);
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(run) | WatchEvent::Modified(run) => {
                        version.clone_from(&run.metadata.resource_version);
                        tell(run, &waiting);
                    }
                    WatchEvent::Deleted(run) => version = run.metadata.resource_version,
                    WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                    WatchEvent::Error(status) => return Err(anyhow::anyhow!("{status:?}")),
                }
            }
        }
    };
    let failed: Result<()> = failed.await;
    if let Err(error) = failed {
        eprintln!("   the watch failed: {error:#}");
    }
    waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn tell(run: Seen, waiting: &Waiting) {
    let Some(outcome) = run.status.outcome else {
        return;
    };
    let waits = waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&run.metadata.name);
    if let Some(waits) = waits {
        let tool = Duration::from_millis(run.status.container.exec_time_ms);
        // Whoever waited may have given up.
        let _ = waits.send(Ended { at: Instant::now(), tool, outcome });
    }
}

//! Following one object: what it is, and each change of it.

use std::time::Duration;

use drydock_crds::ToolRun;
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{WatchEvent, WatchParams};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::connection::Connection;
use crate::failure::{Failure, chain};

/// How long one watch call lasts, in seconds.
const WATCH_SECONDS: u32 = 60;
/// How long an API server that can't be reached is tried again.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What was seen of a run.
#[derive(Debug)]
pub(crate) enum Seen {
    /// As it is now.
    Run(Box<ToolRun>),
    /// It was deleted.
    Gone,
    /// It can't be followed any more.
    Failed(Failure),
}

/// Follows a run until it is gone, can't be followed, or the receiver is dropped.
pub(crate) fn follow(connection: &Connection, name: &str) -> mpsc::Receiver<Seen> {
    let (sender, receiver) = mpsc::channel(16);
    let (connection, name) = (connection.clone(), name.to_owned());
    tokio::spawn(async move {
        let last = follow_to(&connection, &name, &sender).await;
        // A receiver that is gone wants to know nothing.
        let _ = sender.send(last).await;
    });
    receiver
}

async fn follow_to(connection: &Connection, name: &str, sender: &mpsc::Sender<Seen>) -> Seen {
    let api = connection.api::<ToolRun>();
    let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
    let mut good = Instant::now();
    let mut pause = Duration::from_millis(100);
    loop {
        let found = connection.call::<ToolRun, _>("get", Some(name), api.get_opt(name)).await;
        let result = match found {
            Ok(None) => return Seen::Gone,
            Ok(Some(run)) => {
                let version = run.resource_version().unwrap_or_default();
                if sender.send(Seen::Run(Box::new(run))).await.is_err() {
                    return Seen::Gone;
                }
                watch(connection, &params, version, sender, &mut good).await
            }
            Err(failure) => Err(failure),
        };
        match result {
            Ok(Some(last)) => return last,
            Ok(None) => pause = Duration::from_millis(100),
            Err(failure) if final_for_good(&failure) || good.elapsed() > PATIENCE => {
                return Seen::Failed(failure);
            }
            Err(_) => {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

/// What another try can't mend.
fn final_for_good(failure: &Failure) -> bool {
    matches!(failure.reason.as_str(), "Forbidden" | "Unauthorized" | "NotInstalled")
}

/// One watch call: the last thing to say, or none where the object has to be read again.
async fn watch(
    connection: &Connection,
    params: &WatchParams,
    version: String,
    sender: &mpsc::Sender<Seen>,
    good: &mut Instant,
) -> Result<Option<Seen>, Failure> {
    let api = connection.api::<ToolRun>();
    let events = connection.call::<ToolRun, _>("watch", None, api.watch(params, &version)).await?;
    let mut events = std::pin::pin!(events);
    *good = Instant::now();
    // The server ends the call by itself; a connection that died silently is noticed here.
    let silence = Duration::from_secs(u64::from(WATCH_SECONDS) + 15);
    loop {
        let event = match timeout(silence, events.next()).await {
            Err(_) | Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => {
                return Err(Failure::new("NoCluster", "the watch broke off").why(chain(&error)));
            }
            Ok(Some(Ok(event))) => event,
        };
        *good = Instant::now();
        match event {
            WatchEvent::Added(run) | WatchEvent::Modified(run) => {
                if sender.send(Seen::Run(Box::new(run))).await.is_err() {
                    return Ok(Some(Seen::Gone));
                }
            }
            WatchEvent::Deleted(_) => return Ok(Some(Seen::Gone)),
            WatchEvent::Bookmark(_) => {}
            // Too old a version, most of all: read it again.
            WatchEvent::Error(_) => return Ok(None),
        }
    }
}

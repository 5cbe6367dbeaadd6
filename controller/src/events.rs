//! Events for people: written off the path of a pass, through a queue that drops when it is full, and never many of one kind.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use drydock_domain::decision::{Notice, NoticeKind};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::act::{DEADLINE, Subject};

/// Events that may wait to be written.
const QUEUE: usize = 1024;
/// Events of one reason and object that may come at once; then one each [`REFILL`].
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);
/// How many objects and reasons are remembered.
const REMEMBERED: usize = 4096;
/// Longest note, in bytes, that the API takes.
const NOTE: usize = 1024;
const CONTROLLER: &str = "drydock.dev/controller";

/// The sender's side.
pub struct Events {
    queue: mpsc::Sender<Event>,
    buckets: Mutex<HashMap<(String, String), Bucket>>,
    instance: String,
}

#[derive(Clone, Copy)]
struct Bucket {
    left: u32,
    since: Instant,
}

/// The writer's side.
pub struct Writer(mpsc::Receiver<Event>);

/// Makes both sides; `instance` is the name of this controller's pod.
pub fn channel(instance: String) -> (Events, Writer) {
    let (queue, receiver) = mpsc::channel(QUEUE);
    let events = Events { queue, buckets: Mutex::default(), instance };
    (events, Writer(receiver))
}

impl Events {
    /// Sends an Event about `subject`, unless there were too many of it. Never waits.
    pub fn publish(&self, subject: &Subject, notice: Notice) {
        if !self.allows(&subject.uid, &notice.reason) {
            return;
        }
        if self.queue.try_send(self.event(subject, notice)).is_err() {
            tracing::warn!(object = %subject.reference, "an event was dropped: too many wait to be written");
        }
    }

    fn allows(&self, uid: &str, reason: &str) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if buckets.len() >= REMEMBERED {
            buckets.retain(|_, b| b.since.elapsed() < REFILL);
        }
        if buckets.len() >= REMEMBERED {
            buckets.clear();
        }
        let bucket =
            buckets.entry((uid.to_owned(), reason.to_owned())).or_insert(Bucket { left: BURST, since: now });
        let refills = now.duration_since(bucket.since).as_secs() / REFILL.as_secs();
        if let Ok(refills) = u32::try_from(refills)
            && refills > 0
        {
            bucket.left = bucket.left.saturating_add(refills).min(BURST);
            bucket.since = now;
        }
        let allowed = bucket.left > 0;
        bucket.left = bucket.left.saturating_sub(1);
        allowed
    }

    fn event(&self, subject: &Subject, notice: Notice) -> Event {
        let Notice { kind, reason, mut message } = notice;
        if message.len() > NOTE {
            message.truncate(message.floor_char_boundary(NOTE - 3));
            message.push('…');
        }
        let now = Timestamp::now();
        let mut hash = Sha256::new();
        for part in [&subject.uid, &reason, &message, &now.to_string()] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let suffix: String = hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect();
        let namespace = subject.reference.namespace.clone();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{suffix}", subject.reference.name)),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            action: Some(reason.clone()),
            event_time: Some(MicroTime(now)),
            note: Some(message),
            reason: Some(reason),
            regarding: Some(ObjectReference {
                api_version: Some(subject.resource.api_version.clone()),
                kind: Some(subject.resource.kind.clone()),
                name: Some(subject.reference.name.clone()),
                namespace: Some(namespace),
                uid: Some(subject.uid.clone()),
                resource_version: Some(subject.resource_version.clone()),
                ..ObjectReference::default()
            }),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(
                match kind {
                    NoticeKind::Normal => "Normal",
                    NoticeKind::Warning => "Warning",
                }
                .to_owned(),
            ),
            ..Event::default()
        }
    }
}

impl Writer {
    /// Writes Events until every sender is gone. One that can't be written is dropped: the status says the same.
    pub async fn run(mut self, client: Client) {
        while let Some(event) = self.0.recv().await {
            let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
            let api: Api<Event> = Api::namespaced(client.clone(), namespace);
            match timeout(DEADLINE, api.create(&PostParams::default(), &event)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(namespace, %error, "an event wasn't written"),
                Err(_) => tracing::debug!(namespace, "an event wasn't written in time"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reason_of_an_object_comes_in_a_burst_and_then_every_five_minutes() {
        let (events, _writer) = channel("pod".into());
        let allowed = (0..100).filter(|_| events.allows("uid", "Reason")).count();
        assert_eq!(allowed, BURST as usize);
        assert!(events.allows("uid", "Other"));
        tokio::time::advance(REFILL).await;
        assert!(events.allows("uid", "Reason"));
        assert!(!events.allows("uid", "Reason"));
    }
}

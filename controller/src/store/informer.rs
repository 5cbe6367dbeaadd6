//! One informer a kind and namespace: list in pages, then watch from there, for ever. Errors never leave it: it backs off alone and
//! its health tells. It gives the store what it hears and decides nothing.
//!
//! The list and watch are our own rather than the runtime's watcher because the version of a list has to be known (an object that a
//! write returned after it isn't gone for not being in it) and because bookmarks are the sign of life of a quiet watch.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{ObjectRef, Stored, Stores};

/// Objects of one page of a list.
const PAGE: u32 = 500;
/// Deadline of one page, and of the beginning of a watch.
const DEADLINE: Duration = Duration::from_secs(30);
/// How much longer than the server promised a watch may last.
const GRACE: Duration = Duration::from_secs(5);
/// A watch without an event or bookmark for this long is taken for dead. Bookmarks come about once a minute.
const SILENCE: Duration = Duration::from_secs(150);
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const LAST_BACKOFF: Duration = Duration::from_secs(30);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Which namespaces are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All.
    #[default]
    Cluster,
    /// These alone.
    Namespaces(Vec<String>),
}

impl Scope {
    /// Whether objects of that namespace are seen.
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespaces(names) => names.iter().any(|n| n == namespace),
        }
    }
}

/// How an informer fares. Of several (one a namespace) the one that fares worst is told.
#[derive(Debug, Default)]
pub struct Health {
    listed: AtomicBool,
    errors: AtomicU64,
    /// Of each namespace, in milliseconds since [`START`].
    lives: std::sync::RwLock<BTreeMap<String, Life>>,
}

#[derive(Debug)]
struct Life {
    /// The last sign of life of the API server.
    heard: AtomicU64,
    /// The last time that the informer did anything.
    acted: AtomicU64,
}

impl Health {
    /// Whether the first list is complete, in every namespace.
    pub fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed)
    }

    /// How many requests and streams failed.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// How long ago the API server gave a sign of life: a list, an event, a bookmark, or the end of a watch in time.
    pub fn silence(&self) -> Duration {
        self.longest(|life| &life.heard)
    }

    /// How long ago the informer heard something or failed: one that does neither hangs.
    pub fn inaction(&self) -> Duration {
        self.longest(|life| &life.acted)
    }

    fn longest(&self, of: impl Fn(&Life) -> &AtomicU64) -> Duration {
        let lives = self.lives.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let last = lives.values().map(|life| of(life).load(Ordering::Relaxed)).min();
        let now = Duration::from_millis(elapsed());
        last.map(|last| now.saturating_sub(Duration::from_millis(last))).unwrap_or_default()
    }

    fn expect(&self, namespace: &str) {
        let mut lives = self.lives.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let life = Life { heard: AtomicU64::new(elapsed()), acted: AtomicU64::new(elapsed()) };
        lives.insert(namespace.to_owned(), life);
    }

    fn sign(&self, namespace: &str) {
        self.act(namespace, true);
    }

    fn failed(&self, namespace: &str) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.act(namespace, false);
    }

    fn act(&self, namespace: &str, heard: bool) {
        let lives = self.lives.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(life) = lives.get(namespace) {
            life.acted.store(elapsed(), Ordering::Relaxed);
            if heard {
                life.heard.store(elapsed(), Ordering::Relaxed);
            }
        }
    }
}

fn elapsed() -> u64 {
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Starts the informers of a kind.
pub(super) fn start<K: Stored>(stores: &Arc<Stores>, client: &Client, tasks: &mut JoinSet<()>) {
    let namespaces = match &stores.scope {
        Scope::Cluster => vec![String::new()],
        Scope::Namespaces(names) => names.clone(),
    };
    let pending = Arc::new(AtomicU64::new(namespaces.len() as u64));
    for namespace in namespaces {
        K::store(stores).health.expect(&namespace);
        let informer = Informer::<K> {
            api: match namespace.as_str() {
                "" => Api::all(client.clone()),
                name => Api::namespaced(client.clone(), name),
            },
            stores: stores.clone(),
            namespace,
            pending: pending.clone(),
            listed: false,
        };
        tasks.spawn(informer.run());
    }
}

struct Informer<K: Stored> {
    api: Api<Guarded<K>>,
    stores: Arc<Stores>,
    /// Empty: all.
    namespace: String,
    /// How many informers of this kind have no list yet.
    pending: Arc<AtomicU64>,
    listed: bool,
}

/// Why a list or watch ended before its time.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the API server didn't answer in time")]
    Silent,
    #[error("the resource version is too old")]
    Gone,
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl<K: Stored> Informer<K> {
    async fn run(mut self) {
        let mut version: Option<String> = None;
        let mut backoff = FIRST_BACKOFF;
        loop {
            let result = match version.take() {
                None => self.list().await,
                Some(from) => {
                    let mut at = from;
                    let ended = self.watch(&mut at).await;
                    match ended {
                        // The version is no longer there: a new list is due, at once.
                        Err(Failure::Gone) => {
                            tracing::info!(kind = %K::kind(&()), "a watch fell behind: listing again");
                            continue;
                        }
                        Err(error) => {
                            version = Some(at);
                            Err(error)
                        }
                        Ok(()) => Ok(at),
                    }
                }
            };
            match result {
                Ok(at) => {
                    self.health().sign(&self.namespace);
                    version = Some(at);
                    backoff = FIRST_BACKOFF;
                }
                Err(error) => {
                    self.health().failed(&self.namespace);
                    let kind = K::kind(&());
                    tracing::warn!(%kind, namespace = %self.namespace, %error, "a list or watch failed");
                    tokio::time::sleep(jittered(backoff)).await;
                    backoff = (backoff * 2).min(LAST_BACKOFF);
                }
            }
        }
    }

    fn health(&self) -> &super::Health {
        &K::store(&self.stores).health
    }

    /// Lists everything and answers its version.
    async fn list(&mut self) -> Result<String, Failure> {
        let mut all = Vec::new();
        let mut params = ListParams {
            label_selector: K::SELECTOR.map(str::to_owned),
            limit: Some(PAGE),
            ..ListParams::default()
        };
        let version = loop {
            let page = timeout(DEADLINE, self.api.list(&params)).await;
            let page = page.map_err(|_| Failure::Silent)??;
            self.health().sign(&self.namespace);
            all.extend(page.items.into_iter().filter_map(Guarded::object));
            let next = page.metadata.continue_.filter(|c| !c.is_empty());
            match next {
                Some(next) => params.continue_token = Some(next),
                None => break page.metadata.resource_version.unwrap_or_default(),
            }
        };
        let store = K::store(&self.stores);
        store.replace(&self.namespace, all, version.parse().unwrap_or(0));
        if !self.listed {
            self.listed = true;
            if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
                store.health.listed.store(true, Ordering::Relaxed);
                store.ready.send_replace(true);
            }
        }
        Ok(version)
    }

    /// Watches from `version` on, which follows what was seen. `Ok` when the server ended it in time.
    async fn watch(&self, version: &mut String) -> Result<(), Failure> {
        let params = WatchParams {
            label_selector: K::SELECTOR.map(str::to_owned),
            timeout: Some(K::WATCH_SECONDS),
            ..WatchParams::default()
        };
        let started = timeout(DEADLINE, self.api.watch(&params, version)).await;
        let stream = started.map_err(|_| Failure::Silent)?.map_err(gone)?;
        let mut stream = std::pin::pin!(stream);
        let end = Instant::now() + Duration::from_secs(K::WATCH_SECONDS.into()) + GRACE;
        loop {
            let next = tokio::time::timeout_at(end.min(Instant::now() + SILENCE), stream.try_next()).await;
            let Some(event) = next.map_err(|_| Failure::Silent)?.map_err(gone)? else {
                return Ok(());
            };
            self.take(event, version)?;
            self.health().sign(&self.namespace);
        }
    }

    fn take(&self, event: WatchEvent<Guarded<K>>, version: &mut String) -> Result<(), Failure> {
        let store = K::store(&self.stores);
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                advance(version, object.meta());
                if let Some(object) = object.object() {
                    store.put(object);
                }
            }
            WatchEvent::Deleted(object) => {
                advance(version, object.meta());
                store.remove(&ObjectRef::of(&object), object.meta());
            }
            WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
            WatchEvent::Error(status) => return Err(gone(kube::Error::Api(status))),
        }
        Ok(())
    }
}

fn advance(version: &mut String, meta: &ObjectMeta) {
    if let Some(next) = &meta.resource_version {
        version.clone_from(next);
    }
}

fn gone(error: kube::Error) -> Failure {
    match &error {
        kube::Error::Api(status) if status.code == 410 => Failure::Gone,
        _ => Failure::Api(error),
    }
}

/// Between half and the whole of it, so that many informers don't come back at once.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(0.5 + 0.5 * crate::reconcile::jitter())
}

/// An object that may not be what its kind says: one bad object must not hide all others.
#[derive(Clone, Debug)]
struct Guarded<K> {
    meta: ObjectMeta,
    object: Option<K>,
}

impl<K: Stored> Guarded<K> {
    fn object(self) -> Option<K> {
        self.object
    }
}

impl<'de, K: Stored> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut json = Value::deserialize(deserializer)?;
        if let Some(meta) = json.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("managedFields");
        }
        let meta: ObjectMeta =
            json.get("metadata").and_then(|meta| ObjectMeta::deserialize(meta).ok()).unwrap_or_default();
        let object = K::deserialize(&json);
        if let Err(error) = &object {
            let name = meta.name.as_deref().unwrap_or_default();
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            tracing::warn!(kind = %K::kind(&()), namespace, name, %error, "an object isn't what its kind says: it is left alone");
        }
        Ok(Self { meta, object: object.ok() })
    }
}

impl<K: Stored> Resource for Guarded<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

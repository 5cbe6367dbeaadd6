//! What the API server has, in memory: one store a kind, fed by one informer, never by a scan.
//!
//! A store takes an object only when its resourceVersion is newer than the one it has, so it may also be given what a write
//! returned: a pass never sees less than what was written before it. Each accepted change is told to the subscribers at once, with
//! the old and the new object. Nothing here writes to the cluster.

mod index;
mod informer;
mod kinds;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

pub use index::{IndexKey, name as index_name};
pub use informer::{Health, Scope};
pub use kinds::Stores;

/// An object of a known kind: namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectRef {
    /// A reference to `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// A reference to `object`.
    pub fn of<K: kube::Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A kind that has a store.
pub trait Stored:
    kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
    + Clone
    + fmt::Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The label selector of its informer; objects that don't match it aren't there.
    const SELECTOR: Option<&'static str>;
    /// Seconds after which the API server ends a watch, so that a dead connection is noticed.
    const WATCH_SECONDS: u32;

    /// The store of this kind.
    fn store(stores: &Stores) -> &Store<Self>;

    /// Takes away what no decision reads, so that it isn't kept in memory. `managedFields` are gone already.
    fn strip(&mut self) {}

    /// What it can be looked up by, beside uid, owner and namespace, which every kind has.
    fn keys(&self) -> Vec<IndexKey> {
        Vec::new()
    }

    /// Where it stands in each index: lower ranks first, equal ones in the order of their arrival.
    fn rank(&self) -> i64 {
        0
    }
}

/// An accepted change of one object.
#[derive(Clone, Debug)]
pub struct Change<K> {
    /// The object.
    pub reference: ObjectRef,
    /// As it was; absent when it is new.
    pub old: Option<Arc<K>>,
    /// As it is; absent when it is gone.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The old and the new object, as far as they are there: what both name has to be woken.
    pub fn both(&self) -> impl Iterator<Item = &Arc<K>> {
        self.old.iter().chain(self.new.iter())
    }
}

type Subscriber<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// All objects of one kind that the controller may see.
pub struct Store<K> {
    content: RwLock<Content<K>>,
    subscribers: RwLock<Vec<Subscriber<K>>>,
    ready: watch::Sender<bool>,
    health: Health,
}

impl<K: Stored> Default for Store<K> {
    fn default() -> Self {
        Self {
            content: RwLock::new(Content::default()),
            subscribers: RwLock::new(Vec::new()),
            ready: watch::Sender::new(false),
            health: Health::default(),
        }
    }
}

impl<K: Stored> Store<K> {
    /// The object of that name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.read().get(namespace, name)
    }

    /// The objects that have that value of that index, by rank and then in the order in which they arrived.
    pub fn find(&self, index: &'static str, namespace: &str, value: &str) -> Vec<Arc<K>> {
        self.read().find(index, namespace, value)
    }

    /// The object with that uid.
    pub fn with_uid(&self, uid: &str) -> Option<Arc<K>> {
        self.find(index::name::UID, "", uid).pop()
    }

    /// The objects whose controller has that uid, in the order in which they arrived.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.find(index::name::OWNER, "", uid)
    }

    /// All objects of a namespace, in the order in which they arrived.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.find(index::name::NAMESPACE, namespace, "")
    }

    /// All objects, in no order.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.read().0.entries.values().map(|e| e.object.clone()).collect()
    }

    /// A consistent view for several queries. Nothing changes while it is held: never hold it over an `await`.
    pub fn read(&self) -> View<'_, K> {
        View(self.content.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read().0.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first list is complete.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Waits until the first list is complete.
    pub async fn wait_ready(&self) {
        // The sender lives in `self`, so waiting can't fail.
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// How the informer fares.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Calls `subscriber` with each change from now on, in the task that brought it. It must not block.
    pub fn subscribe(&self, subscriber: impl Fn(&Change<K>) + Send + Sync + 'static) {
        let mut subscribers = self.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        subscribers.push(Box::new(subscriber));
    }

    /// Takes an object that a list, a watch or a write returned. Answers whether it was newer than what was known.
    pub fn put(&self, mut object: K) -> bool {
        object.meta_mut().managed_fields = None;
        object.strip();
        let change = self.write().put(object);
        self.publish(change)
    }

    /// As [`Store::put`], for the answer to a write of an object that was there: one that is gone meanwhile isn't brought back.
    pub fn put_if_there(&self, mut object: K) -> bool {
        object.meta_mut().managed_fields = None;
        object.strip();
        let mut content = self.write();
        let uid = object.uid();
        let there = content.entries.get(&ObjectRef::of(&object)).is_some_and(|e| e.object.meta().uid == uid);
        let change = there.then(|| content.put(object)).flatten();
        drop(content);
        self.publish(change)
    }

    /// Takes out what a deletion removed at once. What a late watch event says of the same uid is ignored until its deletion is seen.
    pub fn forget(&self, reference: &ObjectRef, uid: &str) {
        let change = self.write().forget(reference, uid);
        self.publish(change);
    }

    /// Takes a watch's word that an object is gone.
    fn remove(&self, reference: &ObjectRef, last: &ObjectMeta) {
        let change = self.write().remove(reference, last);
        self.publish(change);
    }

    /// Takes a complete list of a namespace (empty: of all) as of `version`; what isn't in it and isn't newer is gone.
    fn replace(&self, namespace: &str, mut list: Vec<K>, version: u64) {
        list.sort_by_cached_key(arrival);
        let listed: HashSet<ObjectRef> = list.iter().map(ObjectRef::of).collect();
        for object in list {
            self.put(object);
        }
        let gone = self.write().retain(namespace, &listed, version);
        for change in gone {
            self.publish(Some(change));
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, Content<K>> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, change: Option<Change<K>>) -> bool {
        let Some(change) = change else {
            return false;
        };
        tracing::trace!(kind = %K::kind(&()), object = %change.reference, "changed");
        let subscribers = self.subscribers.read().unwrap_or_else(PoisonError::into_inner);
        for subscriber in subscribers.iter() {
            if catch_unwind(AssertUnwindSafe(|| subscriber(&change))).is_err() {
                tracing::error!(object = %change.reference, kind = %K::kind(&()), "a subscriber of a store panicked");
            }
        }
        true
    }
}

/// A consistent view of a store.
pub struct View<'a, K>(RwLockReadGuard<'a, Content<K>>);

impl<K: Stored> View<'_, K> {
    /// The object of that name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let entry = self.0.entries.get(&ObjectRef::new(namespace, name))?;
        Some(entry.object.clone())
    }

    /// The objects that have that value of that index, by rank and then in the order in which they arrived.
    pub fn find(&self, index: &'static str, namespace: &str, value: &str) -> Vec<Arc<K>> {
        let key = IndexKey::new(index, namespace, value);
        let found = self.0.indexes.get(&key);
        found.map(|m| m.values().cloned().collect()).unwrap_or_default()
    }

    /// The last of the objects that have that value of that index: of the highest rank, and of those the one that arrived last.
    pub fn last(&self, index: &'static str, namespace: &str, value: &str) -> Option<Arc<K>> {
        let found = self.0.indexes.get(&IndexKey::new(index, namespace, value))?;
        found.last_key_value().map(|(_, object)| object.clone())
    }

    /// How many objects have that value of that index.
    pub fn count(&self, index: &'static str, namespace: &str, value: &str) -> usize {
        let key = IndexKey::new(index, namespace, value);
        self.0.indexes.get(&key).map_or(0, BTreeMap::len)
    }

    /// How many of the objects with that value of that index stand before this one; `None` when it isn't among them.
    pub fn position(&self, index: &'static str, value: &str, object: &ObjectRef) -> Option<usize> {
        let place = self.0.entries.get(object)?.place;
        let found = self.0.indexes.get(&IndexKey::new(index, &object.namespace, value))?;
        found.contains_key(&place).then(|| found.range(..place).count())
    }

    /// The number of an object's arrival: later ones have higher numbers, and it stays over updates.
    pub fn arrival(&self, object: &ObjectRef) -> Option<u64> {
        self.0.entries.get(object).map(|e| e.place.1)
    }
}

/// A rank, then the number of the arrival.
type Place = (i64, u64);

struct Entry<K> {
    object: Arc<K>,
    version: u64,
    place: Place,
    keys: Vec<IndexKey>,
}

struct Content<K> {
    entries: HashMap<ObjectRef, Entry<K>>,
    indexes: HashMap<IndexKey, BTreeMap<Place, Arc<K>>>,
    /// Uids that a deletion of ours removed and whose end the watch hasn't told yet.
    removed: HashMap<ObjectRef, String>,
    next_sequence: u64,
}

impl<K> Default for Content<K> {
    fn default() -> Self {
        Self { entries: HashMap::new(), indexes: HashMap::new(), removed: HashMap::new(), next_sequence: 0 }
    }
}

impl<K: Stored> Content<K> {
    fn put(&mut self, object: K) -> Option<Change<K>> {
        let reference = ObjectRef::of(&object);
        let version = version_of(object.meta());
        let uid = object.uid();
        if self.is_removed(&reference, object.meta()) {
            return None;
        }
        let last = self.entries.get(&reference);
        if last.is_some_and(|last| last.version >= version) {
            return None;
        }
        let last = self.take(&reference);
        let sequence = match &last {
            Some(last) if last.object.uid() == uid => last.place.1,
            _ => {
                self.next_sequence += 1;
                self.next_sequence
            }
        };
        let keys = index::all_keys(&object);
        let place = (object.rank(), sequence);
        let object = Arc::new(object);
        for key in &keys {
            let found = self.indexes.entry(key.clone()).or_default();
            found.insert(place, object.clone());
        }
        let entry = Entry { object: object.clone(), version, place, keys };
        self.entries.insert(reference.clone(), entry);
        Some(Change { reference, old: last.map(|e| e.object), new: Some(object) })
    }

    fn forget(&mut self, reference: &ObjectRef, uid: &str) -> Option<Change<K>> {
        let there = self.entries.get(reference)?;
        if there.object.meta().uid.as_deref() != Some(uid) {
            return None;
        }
        self.removed.insert(reference.clone(), uid.to_owned());
        self.drop_entry(reference)
    }

    fn remove(&mut self, reference: &ObjectRef, last: &ObjectMeta) -> Option<Change<K>> {
        if self.is_removed(reference, last) {
            self.removed.remove(reference);
        }
        let there = self.entries.get(reference)?;
        let same = there.object.meta().uid == last.uid || there.version <= version_of(last);
        same.then(|| self.drop_entry(reference)).flatten()
    }

    fn is_removed(&self, reference: &ObjectRef, meta: &ObjectMeta) -> bool {
        let removed = self.removed.get(reference);
        removed.is_some() && removed == meta.uid.as_ref()
    }

    fn retain(&mut self, namespace: &str, listed: &HashSet<ObjectRef>, version: u64) -> Vec<Change<K>> {
        let elsewhere = |r: &ObjectRef| !namespace.is_empty() && r.namespace != namespace;
        self.removed.retain(|r, _| elsewhere(r) || listed.contains(r));
        let gone: Vec<ObjectRef> = self
            .entries
            .iter()
            .filter(|(r, entry)| entry.version <= version && !elsewhere(r) && !listed.contains(r))
            .map(|(reference, _)| reference.clone())
            .collect();
        gone.iter().filter_map(|reference| self.drop_entry(reference)).collect()
    }

    fn drop_entry(&mut self, reference: &ObjectRef) -> Option<Change<K>> {
        let entry = self.take(reference)?;
        Some(Change { reference: reference.clone(), old: Some(entry.object), new: None })
    }

    fn take(&mut self, reference: &ObjectRef) -> Option<Entry<K>> {
        let entry = self.entries.remove(reference)?;
        for key in &entry.keys {
            if let Some(found) = self.indexes.get_mut(key) {
                found.remove(&entry.place);
                if found.is_empty() {
                    self.indexes.remove(key);
                }
            }
        }
        Some(entry)
    }
}

/// Before the first list there was no order: objects count as arrived in the order of their creation.
fn arrival<K: Stored>(object: &K) -> (Option<jiff::Timestamp>, String, String) {
    (object.creation_timestamp().map(|t| t.0), object.namespace().unwrap_or_default(), object.name_any())
}

/// The resourceVersion as the number it is by contract; 0 when it isn't one, so that such an object is never newer.
fn version_of(meta: &ObjectMeta) -> u64 {
    let version = meta.resource_version.as_deref();
    version.and_then(|v| v.parse().ok()).unwrap_or(0)
}

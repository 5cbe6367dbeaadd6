//! Names that are taken by objects that aren't ours: a fact that an observation reads, never a reason to adopt.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::ObjectRef;

/// How long a conflict is remembered; then the name is tried again.
const KEPT: Duration = Duration::from_secs(60);
/// How many are remembered.
const MOST: usize = 4096;

/// The names that were found taken.
#[derive(Debug, Default)]
pub struct Conflicts(Mutex<HashMap<(String, ObjectRef), Instant>>);

impl Conflicts {
    /// Whether this name was found taken by an object that isn't ours, less than a minute ago.
    pub fn is_foreign(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let key = (kind.to_owned(), ObjectRef::new(namespace, name));
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key).is_some_and(|since| since.elapsed() < KEPT)
    }

    pub(crate) fn remember(&self, kind: &str, object: &ObjectRef) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, since| since.elapsed() < KEPT);
        if known.len() < MOST {
            known.insert((kind.to_owned(), object.clone()), Instant::now());
        }
    }

    pub(crate) fn forget(&self, kind: &str, object: &ObjectRef) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.is_empty() {
            known.remove(&(kind.to_owned(), object.clone()));
        }
    }
}

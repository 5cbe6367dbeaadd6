//! What the API server refused to create, and in which words: a fact that an observation reads, so that a status can say it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Class, Error};
use crate::store::ObjectRef;

/// How long a refusal is remembered: longer than the longest pause between two tries.
const KEPT: Duration = Duration::from_secs(900);
/// How many are remembered.
const MOST: usize = 4096;

/// What was refused.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<HashMap<(String, ObjectRef), (Instant, String)>>);

impl Refusals {
    /// What the API server said when it last refused to create this object.
    pub fn of(&self, kind: &str, namespace: &str, name: &str) -> Option<String> {
        let key = (kind.to_owned(), ObjectRef::new(namespace, name));
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key).filter(|(since, _)| since.elapsed() < KEPT).map(|(_, said)| said.clone())
    }

    /// Takes in how a try to create an object ended.
    pub(crate) fn learn(&self, kind: &str, object: &ObjectRef, ended: Option<&Error>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind.to_owned(), object.clone());
        match ended {
            None if known.is_empty() => {}
            None => drop(known.remove(&key)),
            Some(error) => {
                let Some(said) = words(error) else { return };
                known.retain(|_, (since, _)| since.elapsed() < KEPT);
                if known.len() < MOST {
                    known.insert(key, (Instant::now(), said));
                }
            }
        }
    }
}

/// The server's own words; none where it didn't refuse.
fn words(error: &Error) -> Option<String> {
    match error {
        Error::Api { source, .. } if error.class() == Class::Refused => match source.as_ref() {
            kube::Error::Api(status) => Some(status.message.clone()),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16, message: &str) -> Error {
        let status = kube::core::Status { code, message: message.into(), ..kube::core::Status::default() };
        Error::Api {
            verb: "create",
            kind: "Pod".into(),
            object: ObjectRef::new("team", "p"),
            source: Box::new(kube::Error::Api(Box::new(status))),
        }
    }

    #[test]
    fn a_refusal_is_known_in_the_server_s_words_until_the_object_is_made() {
        let (refusals, pod) = (Refusals::default(), ObjectRef::new("team", "p"));
        refusals.learn("Pod", &pod, Some(&api(503, "later")));
        assert_eq!(refusals.of("Pod", "team", "p"), None);
        refusals.learn("Pod", &pod, Some(&api(403, "exceeded quota: none")));
        assert_eq!(refusals.of("Pod", "team", "p").as_deref(), Some("exceeded quota: none"));
        assert_eq!(refusals.of("PersistentVolumeClaim", "team", "p"), None);
        refusals.learn("Pod", &pod, None);
        assert_eq!(refusals.of("Pod", "team", "p"), None);
    }
}

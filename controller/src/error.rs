//! What can go wrong while effects are carried out. A user's mistake is never here: it is data in a status.

use domain::decision::Deletion;
use drydock_domain as domain;

use crate::store::ObjectRef;

/// What an observation or an effect failed with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused, or couldn't be reached.
    #[error("{verb} {kind} {object} failed")]
    Api {
        /// What was tried, such as `apply`.
        verb: &'static str,
        /// Kind of the object.
        kind: String,
        /// The object.
        object: ObjectRef,
        /// What the client said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server didn't answer in time.
    #[error("{verb} {kind} {object}: no answer in time")]
    Deadline {
        /// What was tried.
        verb: &'static str,
        /// Kind of the object.
        kind: String,
        /// The object.
        object: ObjectRef,
    },
    /// The name is taken by an object that isn't ours. It is a fact of the next observation.
    #[error("{kind} {object} is there already and isn't ours")]
    Foreign {
        /// Kind of the object.
        kind: String,
        /// The object.
        object: ObjectRef,
    },
    /// A whole pass took too long.
    #[error("the pass took longer than {0:?}")]
    PassDeadline(std::time::Duration),
    /// Something that an observation reads isn't what it must be.
    #[error("{0}")]
    Observe(String),
}

/// How an error is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// What was seen is no longer so: look again soon.
    Conflict,
    /// The name is taken: decide again with that fact.
    Foreign,
    /// It may pass by itself.
    Transient,
    /// It won't pass by itself, or is a bug.
    Refused,
}

impl Class {
    /// The value of the metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Foreign => "foreign",
            Self::Transient => "transient",
            Self::Refused => "refused",
        }
    }
}

impl Error {
    /// How it is met.
    pub fn class(&self) -> Class {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => match status.code {
                    409 => Class::Conflict,
                    429 | 500..=599 => Class::Transient,
                    _ => Class::Refused,
                },
                _ => Class::Transient,
            },
            Self::Deadline { .. } | Self::PassDeadline(_) => Class::Transient,
            Self::Foreign { .. } => Class::Foreign,
            Self::Observe(_) => Class::Refused,
        }
    }

    /// Whether the API server said that there is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api { source, .. } if matches!(source.as_ref(), kube::Error::Api(s) if s.code == 404))
    }
}

/// The object that a deletion means.
pub(crate) fn deleted(deletion: &Deletion) -> ObjectRef {
    ObjectRef::new(&deletion.namespace, &deletion.name)
}

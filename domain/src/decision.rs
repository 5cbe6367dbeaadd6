//! What a decision is made of: effects, a status, notices, and when to look again.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use crate::agent::AgentCall;

/// What `decide` returns. `act` carries the effects out in order, stops at the first failure, writes the status when it differs
/// from the observed one, then publishes the notices.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<S> {
    /// What is to be done, in order.
    pub effects: Vec<Effect>,
    /// The status as it should stand; a function of what was observed, never of what the effects will do.
    /// `None` leaves it alone (an object that is about to go).
    pub status: Option<S>,
    /// Events for people, on transitions only.
    pub notices: Vec<Notice>,
    /// When to look again.
    pub wake: Wake,
}

impl<S> Decision<S> {
    /// A decision that only writes a status.
    pub fn status(status: S) -> Self {
        Self { effects: Vec::new(), status: Some(status), notices: Vec::new(), wake: Wake::OnChange }
    }

    /// A decision that does nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self { effects: Vec::new(), status: None, notices: Vec::new(), wake: Wake::OnChange }
    }
}

/// When an object is looked at again. The last pass decides: each returns its own nearest deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// When something it was decided by changes.
    OnChange,
    /// At this time, or when something changes.
    At(Timestamp),
    /// At once, with what this pass wrote: the second half of a write-ahead.
    Again,
}

impl Wake {
    /// The earlier of the two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        match (self, other) {
            (Self::Again, _) | (_, Self::Again) => Self::Again,
            (Self::At(a), Self::At(b)) => Self::At(a.min(b)),
            (Self::At(a), Self::OnChange) | (Self::OnChange, Self::At(a)) => Self::At(a),
            (Self::OnChange, Self::OnChange) => Self::OnChange,
        }
    }
}

/// One thing that `act` does. Complete in itself: nothing is left to choose.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Server-side apply under the one field manager, forcing what Drydock owns. Creates the object when it isn't there.
    Apply(Object),
    /// Creates an object. If the name is taken, the existing object is read: ours by owner uid (or, for a claim without an owner
    /// reference, by [`drydock_crds::label::WORKSPACE_UID`]) is success, a foreign one is refused and remembered as a fact.
    Create(Object),
    /// Deletes an object with preconditions. One that is gone is success.
    Delete(Deletion),
    /// Adds this finalizer to the object that was decided upon.
    AddFinalizer(&'static str),
    /// Takes this finalizer off the object that was decided upon.
    ReleaseFinalizer(&'static str),
    /// Asks an agent for something; the answer is a fact of the next observation.
    Agent(AgentCall),
    /// Writes one structured log line of the audit, before the status.
    Audit(Box<AuditRecord>),
}

/// An object as it is sent: complete JSON with `apiVersion`, `kind` and `metadata`.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its API.
    pub resource: ApiResource,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its JSON, without nulls.
    pub json: Value,
}

impl Object {
    /// Makes an object of a typed value. Fields that are absent stay absent.
    ///
    /// # Panics
    /// Never for Kubernetes types: they serialise to JSON without fail.
    pub fn of<K>(object: &K, dynamic: &K::DynamicType) -> Self
    where
        K: kube::Resource + serde::Serialize,
    {
        let resource = ApiResource::erase::<K>(dynamic);
        let mut json = serde_json::to_value(object).expect("Kubernetes types serialise to JSON");
        if let Some(map) = json.as_object_mut() {
            map.insert("apiVersion".into(), resource.api_version.clone().into());
            map.insert("kind".into(), resource.kind.clone().into());
            map.remove("status");
        }
        Self {
            resource,
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            name: object.meta().name.clone().unwrap_or_default(),
            json,
        }
    }
}

/// A deletion with preconditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// API of the object.
    pub resource: ApiResource,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The uid it must have.
    pub uid: String,
    /// The resourceVersion it must have, where deleting a changed object would be wrong.
    pub resource_version: Option<String>,
    /// Grace of a pod, in seconds; `None`: the object's own.
    pub grace_seconds: Option<u32>,
}

/// An Event for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether it tells of trouble.
    pub kind: NoticeKind,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// Whether an Event tells of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// All is well.
    Normal,
    /// Trouble.
    Warning,
}

/// What the controller's audit log says of a finished run: no content, only who, where and how it ended.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// Namespace of the run.
    pub namespace: String,
    /// Name of the run.
    pub name: String,
    /// Uid of the run.
    pub uid: String,
    /// Who asked, as admission recorded it, or `unknown`.
    pub requested_by: String,
    /// The rule that routed it.
    pub rule: Option<String>,
    /// Kind and name of the instance.
    pub target: Option<String>,
    /// How it ended.
    pub outcome: String,
    /// Exit code of the tool.
    pub exit_code: Option<i32>,
    /// How long it took, in milliseconds.
    pub duration_ms: Option<i64>,
    /// Where it was executed.
    pub container: Option<drydock_crds::tool_run::ContainerRecord>,
}

/// The owner reference that makes `child` ours: controller, blocking nothing.
pub fn owner_reference<K>(owner: &K) -> Option<OwnerReference>
where
    K: kube::Resource<DynamicType = ()>,
{
    Some(OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone()?,
        uid: owner.meta().uid.clone()?,
        controller: Some(true),
        block_owner_deletion: Some(false),
    })
}

/// The API of a built-in or own kind that is known by type.
#[must_use]
pub fn resource_of<K: kube::Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// The API of a kind that is known by name.
#[must_use]
pub fn resource_named(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// `duration` after `time`, at most the end of time.
#[must_use]
pub fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_add(jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX))
        .unwrap_or(Timestamp::MAX)
}

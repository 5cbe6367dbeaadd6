//! Carries effects out: the operator's only writer. It knows effects, not kinds.
//!
//! What a write returned goes into the store, so that the next pass sees it although its watch event is still under way. Each call has
//! a deadline; nothing is repeated here: the loop decides again.

use std::time::Duration;

use domain::decision::{AuditRecord, Deletion, Effect, Object};
use drydock_crds::label;
use drydock_domain as domain;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, Request};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::context::Context;
use crate::error::{Error, deleted};
use crate::store::{ObjectRef, Stored};

/// How long one call of the API server may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// The object that a decision is about, as far as a write needs it.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its API.
    pub resource: ApiResource,
    /// Its namespace and name.
    pub reference: ObjectRef,
    /// Its uid.
    pub uid: String,
    /// The version that the decision was made upon, or that a write of this pass made of it.
    pub resource_version: String,
    finalizers: Vec<String>,
    is_deleted: bool,
    is_gone: bool,
}

impl Subject {
    /// What a write needs to know of `object`.
    pub fn of<O: Stored>(object: &O) -> Self {
        Self {
            resource: ApiResource::erase::<O>(&()),
            reference: ObjectRef::of(object),
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            finalizers: object.finalizers().to_vec(),
            is_deleted: object.meta().deletion_timestamp.is_some(),
            is_gone: false,
        }
    }

    /// Whether a write of this pass made an end of it.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }
}

/// Carries effects out in order and stops at the first that fails.
///
/// # Errors
/// Of that effect.
pub(crate) async fn effects(
    context: &Context,
    subject: &mut Subject,
    effects: Vec<Effect>,
) -> Result<(), Error> {
    for effect in effects {
        match effect {
            Effect::Apply(object) => apply(context, &object).await?,
            Effect::Create(object) => create(context, &object).await?,
            Effect::Delete(deletion) => delete(context, &deletion).await?,
            Effect::AddFinalizer(finalizer) => add_finalizer(context, subject, finalizer).await?,
            Effect::ReleaseFinalizer(finalizer) => release_finalizer(context, subject, finalizer).await?,
            Effect::Agent(call) => context.agents.call(call),
            Effect::Audit(record) => audit(&record),
        }
    }
    Ok(())
}

/// Whether a decided status says something else than the one that the object has.
pub(crate) fn status_differs<S: Serialize>(present: Option<&S>, decided: &S) -> bool {
    let decided = serde_json::to_value(decided).ok();
    let present = present.and_then(|status| serde_json::to_value(status).ok());
    decided != present
}

/// Writes a status over the version that it was decided upon and puts the answer into the store.
///
/// # Errors
/// A conflict when the object has changed meanwhile: the view was stale, and its change wakes the object.
pub(crate) async fn write_status<O: Stored>(
    context: &Context,
    subject: &Subject,
    status: &impl Serialize,
) -> Result<(), Error> {
    let body = json!({
        "apiVersion": subject.resource.api_version,
        "kind": subject.resource.kind,
        "metadata": {
            "namespace": subject.reference.namespace,
            "name": subject.reference.name,
            "uid": subject.uid,
            "resourceVersion": subject.resource_version,
        },
        "status": status,
    });
    let params = PostParams { field_manager: Some(label::FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let call = Call::new("update the status of", &subject.resource, &subject.reference);
    let bytes = body.to_string().into_bytes();
    let request = call.request().replace_subresource("status", &call.object.name, &params, bytes);
    let object: O = match call.send(context, request).await {
        // It is gone, and with it whatever its status would have said.
        Err(error) if error.is_not_found() => return Ok(()),
        answer => answer?,
    };
    O::store(&context.stores).put_if_there(object);
    Ok(())
}

async fn apply(context: &Context, object: &Object) -> Result<(), Error> {
    let reference = ObjectRef::new(&object.namespace, &object.name);
    let call = Call::new("apply", &object.resource, &reference);
    let params = PatchParams::apply(label::FIELD_MANAGER).force();
    let request = call.request().patch(&object.name, &params, &Patch::Apply(&object.json));
    let answer: Value = call.send(context, request).await?;
    context.stores.absorb(&object.resource, &answer);
    context.conflicts.forget(&object.resource.kind, &reference);
    Ok(())
}

async fn create(context: &Context, object: &Object) -> Result<(), Error> {
    let reference = ObjectRef::new(&object.namespace, &object.name);
    let created = try_to_create(context, object, &reference).await;
    context.refusals.learn(&object.resource.kind, &reference, created.as_ref().err());
    created
}

async fn try_to_create(context: &Context, object: &Object, reference: &ObjectRef) -> Result<(), Error> {
    let call = Call::new("create", &object.resource, reference);
    let params = PostParams { field_manager: Some(label::FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let request = call.request().create(&params, object.json.to_string().into_bytes());
    let answer: Value = match call.send(context, request).await {
        Err(error) if is_taken(&error) => read_back(context, object, reference).await?,
        answer => answer?,
    };
    context.stores.absorb(&object.resource, &answer);
    context.conflicts.forget(&object.resource.kind, reference);
    Ok(())
}

/// The name is taken. By us when the first answer to the same create was lost: that is success.
async fn read_back(context: &Context, object: &Object, reference: &ObjectRef) -> Result<Value, Error> {
    let call = Call::new("read", &object.resource, reference);
    let request = call.request().get(&object.name, &kube::api::GetParams::default());
    let there: Value = call.send(context, request).await?;
    if owner(&there).is_some() && owner(&there) == owner(&object.json) {
        return Ok(there);
    }
    let kind = object.resource.kind.clone();
    context.conflicts.remember(&kind, reference);
    tracing::warn!(kind, object = %reference, "the name is taken by an object that isn't ours: it is left alone");
    Err(Error::Foreign { kind, object: reference.clone() })
}

/// Whose an object is: the uid of its controller, else the workspace in its annotation.
fn owner(object: &Value) -> Option<&str> {
    let meta = object.get("metadata")?;
    let owners = meta.get("ownerReferences").and_then(Value::as_array);
    let controller =
        owners.into_iter().flatten().find(|o| o.get("controller").and_then(Value::as_bool) == Some(true));
    if let Some(controller) = controller {
        return controller.get("uid")?.as_str();
    }
    meta.get("annotations")?.get(label::WORKSPACE_UID)?.as_str()
}

fn is_taken(error: &Error) -> bool {
    matches!(error, Error::Api { source, .. }
        if matches!(source.as_ref(), kube::Error::Api(s) if s.code == 409 && s.reason == "AlreadyExists"))
}

/// Deletes with preconditions. What is gone, or replaced by another of that name, is done.
///
/// # Errors
/// A conflict when the object has another version than the deletion names.
pub(crate) async fn delete(context: &Context, deletion: &Deletion) -> Result<(), Error> {
    let reference = deleted(deletion);
    let call = Call::new("delete", &deletion.resource, &reference);
    let params = DeleteParams {
        grace_period_seconds: deletion.grace_seconds,
        preconditions: Some(Preconditions {
            uid: Some(deletion.uid.clone()),
            resource_version: deletion.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    let request = call.request().delete(&deletion.name, &params);
    let left = match call.send_status(context, request).await {
        Err(error) if error.is_not_found() => None,
        answer => answer?.filter(|left| !is_end(left)),
    };
    match left {
        Some(left) => context.stores.absorb(&deletion.resource, &left),
        None => context.stores.forget(&deletion.resource, &reference, &deletion.uid),
    }
    Ok(())
}

/// Whether the object that a deletion answered with is the last of it.
fn is_end(object: &Value) -> bool {
    let meta = &object["metadata"];
    let held = meta["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    let grace = meta["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    !held && grace == 0
}

async fn add_finalizer(context: &Context, subject: &mut Subject, finalizer: &str) -> Result<(), Error> {
    if subject.is_deleted || subject.finalizers.iter().any(|f| f == finalizer) {
        return Ok(());
    }
    let mut finalizers = subject.finalizers.clone();
    finalizers.push(finalizer.to_owned());
    write_finalizers(context, subject, finalizers).await
}

async fn release_finalizer(context: &Context, subject: &mut Subject, finalizer: &str) -> Result<(), Error> {
    if !subject.finalizers.iter().any(|f| f == finalizer) {
        return Ok(());
    }
    let mut finalizers = subject.finalizers.clone();
    finalizers.retain(|f| f != finalizer);
    write_finalizers(context, subject, finalizers).await
}

async fn write_finalizers(
    context: &Context,
    subject: &mut Subject,
    finalizers: Vec<String>,
) -> Result<(), Error> {
    let call = Call::new("set the finalizers of", &subject.resource, &subject.reference);
    let patch = json!({"metadata": {
        "uid": subject.uid,
        "resourceVersion": subject.resource_version,
        "finalizers": finalizers,
    }});
    let params =
        PatchParams { field_manager: Some(label::FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let request = call.request().patch(&call.object.name, &params, &Patch::Merge(&patch));
    let answer: Value = match call.send(context, request).await {
        Err(error) if error.is_not_found() => {
            subject.is_gone = true;
            return Ok(());
        }
        answer => answer?,
    };
    subject.is_gone = subject.is_deleted && finalizers.is_empty();
    if let Some(version) = answer["metadata"]["resourceVersion"].as_str() {
        version.clone_into(&mut subject.resource_version);
    }
    if subject.is_gone {
        context.stores.forget(&subject.resource, &subject.reference, &subject.uid);
    } else {
        context.stores.absorb(&subject.resource, &answer);
    }
    subject.finalizers = finalizers;
    Ok(())
}

fn audit(record: &AuditRecord) {
    let container = record.container.as_ref();
    tracing::info!(
        target: "audit",
        namespace = record.namespace,
        name = record.name,
        uid = record.uid,
        requested_by = record.requested_by,
        rule = record.rule,
        run_target = record.target,
        outcome = record.outcome,
        exit_code = record.exit_code,
        duration_ms = record.duration_ms,
        pod = container.map(|c| c.pod_name.as_str()),
        pod_uid = container.map(|c| c.pod_uid.as_str()),
        container_id = container.and_then(|c| c.container_id.as_deref()),
        image = container.and_then(|c| c.image.as_deref()),
        workspace_folder = container.and_then(|c| c.workspace_folder.as_deref()),
        exec_time_ms = container.and_then(|c| c.exec_time_ms),
        timed_out = container.and_then(|c| c.timed_out),
        "a tool run ended"
    );
}

/// One call of the API server.
struct Call<'a> {
    verb: &'static str,
    resource: &'a ApiResource,
    object: &'a ObjectRef,
}

type Prepared = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

impl<'a> Call<'a> {
    fn new(verb: &'static str, resource: &'a ApiResource, object: &'a ObjectRef) -> Self {
        Self { verb, resource, object }
    }

    fn request(&self) -> Request {
        Request::new(DynamicObject::url_path(self.resource, Some(&self.object.namespace)))
    }

    async fn send<T: serde::de::DeserializeOwned>(
        &self,
        context: &Context,
        request: Prepared,
    ) -> Result<T, Error> {
        let request = request.map_err(|e| self.error(kube::Error::BuildRequest(e)))?;
        self.bounded(context, context.client.request::<T>(request)).await
    }

    /// Sends a deletion; answers what is left of the object, if that was said.
    async fn send_status(&self, context: &Context, request: Prepared) -> Result<Option<Value>, Error> {
        let request = request.map_err(|e| self.error(kube::Error::BuildRequest(e)))?;
        let answer = self.bounded(context, context.client.request_status::<Value>(request)).await?;
        Ok(answer.left())
    }

    async fn bounded<T>(
        &self,
        context: &Context,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        let writes = async {
            // The semaphore is never closed.
            let _permit = context.writes.acquire().await;
            context.metrics.called(self.verb, &self.resource.kind);
            call.await
        };
        let began = tokio::time::Instant::now();
        let answer = timeout(DEADLINE, writes).await;
        let took = began.elapsed();
        tracing::trace!(verb = self.verb, kind = self.resource.kind, object = %self.object, ?took, "called");
        match answer {
            Ok(answer) => answer.map_err(|source| self.error(source)),
            Err(_) => Err(Error::Deadline {
                verb: self.verb,
                kind: self.resource.kind.clone(),
                object: self.object.clone(),
            }),
        }
    }

    fn error(&self, source: kube::Error) -> Error {
        Error::Api {
            verb: self.verb,
            kind: self.resource.kind.clone(),
            object: self.object.clone(),
            source: Box::new(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_its_controllers_and_a_claim_its_workspaces() {
        let child =
            json!({"metadata": {"ownerReferences": [{"uid": "a"}, {"uid": "b", "controller": true}]}});
        assert_eq!(owner(&child), Some("b"));
        let claim = json!({"metadata": {"annotations": {label::WORKSPACE_UID: "c"}}});
        assert_eq!(owner(&claim), Some("c"));
        assert_eq!(owner(&json!({"metadata": {"ownerReferences": [{"uid": "a"}]}})), None);
    }

    #[test]
    fn a_deletion_is_the_end_without_grace_and_finalizers() {
        assert!(is_end(&json!({"metadata": {"deletionGracePeriodSeconds": 0}})));
        assert!(!is_end(&json!({"metadata": {"deletionGracePeriodSeconds": 30}})));
        assert!(!is_end(&json!({"metadata": {"deletionGracePeriodSeconds": 0, "finalizers": ["x"]}})));
    }
}

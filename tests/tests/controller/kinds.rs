//! Kinds made for tests: what they do is said by the objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drydock_controller::context::Context;
use drydock_controller::error::Error;
use drydock_controller::reconcile::{Kind, Loops, Watches};
use drydock_controller::store::{ObjectRef, index_name};
use drydock_crds::condition::Reason;
use drydock_crds::tool_run::{Claim, Outcome, ToolRunStatus};
use drydock_crds::{ContainerInstance, InstanceStatus, ProvisioningState, ToolRun, label};
use drydock_domain::decision::{self, Decision, Effect, Notice, NoticeKind, Object, Wake};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

/// Adds [`Scripted`].
pub(crate) fn scripted(loops: &mut Loops<'_>) {
    loops.add::<Scripted>();
}

/// Adds [`Instant`].
pub(crate) fn instant(loops: &mut Loops<'_>) {
    loops.add::<Instant>();
}

/// Does what the annotation `test/do` says.
pub(crate) struct Scripted;

pub(crate) struct Seen {
    object: Arc<ContainerInstance>,
    is_foreign: bool,
    children: usize,
    now: Timestamp,
}

impl Kind for Scripted {
    type Object = ContainerInstance;
    type Observed = Seen;
    type Status = InstanceStatus;

    async fn observe(object: Arc<ContainerInstance>, context: &Context) -> Result<Seen, Error> {
        Ok(Seen {
            is_foreign: context.conflicts.is_foreign(
                "ConfigMap",
                &object.namespace().unwrap(),
                &object.name_any(),
            ),
            children: context.stores.config_maps.owned_by(&object.uid().unwrap()).len(),
            now: context.now(),
            object,
        })
    }

    fn decide(seen: &Seen) -> Decision<InstanceStatus> {
        let mut status = seen.object.status.clone().unwrap_or_default();
        status.observed_generation = seen.object.metadata.generation.unwrap_or_default();
        let mut decision = Decision::nothing();
        let what = seen.object.annotations().get("test/do").map(String::as_str);
        match what.unwrap_or_default() {
            "panic" => panic!("told to"),
            "create" if seen.is_foreign => status.pod_name = Some("foreign".into()),
            "create" => {
                if seen.children == 0 {
                    decision.effects.push(Effect::Create(child(&seen.object)));
                } else {
                    status.pod_name = Some("ours".into());
                }
            }
            "apply" => {
                decision.effects.push(Effect::Apply(child(&seen.object)));
                status.pod_name = Some("applied".into());
            }
            "finalizer" if seen.object.metadata.deletion_timestamp.is_some() => {
                decision.effects.push(Effect::ReleaseFinalizer(label::WORKSPACE_FINALIZER));
            }
            "finalizer" => {
                decision.effects.push(Effect::AddFinalizer(label::WORKSPACE_FINALIZER));
                status.pod_name = Some("held".into());
            }
            "write-ahead" if status.pod_uid.is_none() => {
                status.pod_uid = Some("claimed".into());
                decision.wake = Wake::Again;
            }
            "write-ahead" => status.pod_name = Some("started".into()),
            "later" => {
                let due =
                    decision::after(seen.object.creation_timestamp().unwrap().0, Duration::from_secs(2));
                if seen.now >= due {
                    status.pod_name = Some("due".into());
                } else {
                    decision.wake = Wake::At(due);
                }
            }
            "notice" => {
                if status.provisioning_state.is_none() {
                    decision.notices.push(Notice {
                        kind: NoticeKind::Warning,
                        reason: Reason::StartFailed.as_str().to_owned(),
                        message: "it didn't start".into(),
                    });
                }
                status.provisioning_state = Some(ProvisioningState::Failed);
            }
            _ => {}
        }
        decision.status = Some(status);
        decision
    }

    fn status(object: &ContainerInstance) -> Option<&InstanceStatus> {
        object.status.as_ref()
    }

    fn watches(watches: &mut Watches<'_>) {
        watches.on::<ConfigMap>(|change, stores| {
            let owners = change.both().flat_map(|c| c.owner_references()).map(|o| o.uid.clone());
            let found = owners.filter_map(|uid| stores.container_instances.with_uid(&uid));
            found.map(|i| ObjectRef::of(i.as_ref())).collect()
        });
    }
}

fn child(owner: &ContainerInstance) -> Object {
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: owner.metadata.name.clone(),
            namespace: owner.metadata.namespace.clone(),
            labels: Some(BTreeMap::from([(label::MANAGED_BY.to_owned(), label::MANAGER.to_owned())])),
            owner_references: decision::owner_reference(owner).map(|o| vec![o]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("key".to_owned(), "value".to_owned())])),
        ..ConfigMap::default()
    };
    Object::of(&map, &())
}

/// Claims a run and ends it, without an agent: what remains is the loop and the writes.
pub(crate) struct Instant;

impl Kind for Instant {
    type Object = ToolRun;
    type Observed = Arc<ToolRun>;
    type Status = ToolRunStatus;

    const CONCURRENCY: usize = 64;

    async fn observe(object: Arc<ToolRun>, context: &Context) -> Result<Arc<ToolRun>, Error> {
        let of = ObjectRef::of(object.as_ref());
        let view = context.stores.tool_runs.read();
        assert!(view.position(index_name::NAMESPACE, "", &of).is_some(), "every run has its place");
        Ok(object.clone())
    }

    fn decide(run: &Arc<ToolRun>) -> Decision<ToolRunStatus> {
        let mut status = run.status.clone().unwrap_or_default();
        status.observed_generation = run.metadata.generation.unwrap_or_default();
        let mut decision = Decision::nothing();
        if status.outcome.is_some() {
            return decision;
        }
        if status.claim.is_none() {
            status.claim = Some(Claim { attempt: 1, pod_uid: "pod".into(), boot_id: "boot".into() });
            decision.wake = Wake::Again;
        } else {
            status.outcome = Some(Outcome::Succeeded);
        }
        decision.status = Some(status);
        decision
    }

    fn status(object: &ToolRun) -> Option<&ToolRunStatus> {
        object.status.as_ref()
    }

    fn watches(_: &mut Watches<'_>) {}
}

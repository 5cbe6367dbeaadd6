//! Workspaces: claim, checkout pod and its report, Secret, instances, who mounts the tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::Decision;
use domain::name;
use domain::pod::{MAIN_CONTAINER, PodFact, PodStage};
use domain::render::configurations;
use domain::workspace::{CheckoutPod, ClaimSeen, InstanceSeen, Living, Observed, SecretFact, decide};
use drydock_crds::label::{self, Role};
use drydock_crds::reference::{InstanceKind, InstanceRef};
use drydock_crds::{DevcontainerInstance, Plan, ToolRun, Workspace, WorkspaceStatus};
use drydock_domain as domain;
use drydock_protocol::checkout::CheckoutReport;
use drydock_protocol::limits;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::Api;
use kube::api::LogParams;

use super::instance::shared_claim;
use super::{installation, namespace, settings, uid};
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::{Kind, Watches};
use crate::store::{Change, ObjectRef, Stored, Stores, index_name};

/// How long one read of a log or a Secret may take.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(10);

/// How far a workspace may be behind the ends of runs in it.
const COALESCED: std::time::Duration = std::time::Duration::from_millis(500);

/// The kind.
pub struct Workspaces;

impl Kind for Workspaces {
    type Object = Workspace;
    type Observed = Observed;
    type Status = WorkspaceStatus;

    async fn observe(workspace: Arc<Workspace>, context: &Context) -> Result<Observed, Error> {
        let stores = &context.stores;
        let meta = &workspace.metadata;
        let (of, name) = (namespace(meta), super::name(meta));
        let checkout = checkout(&workspace, context).await?;
        let pods = environments(stores, of, name);
        let map = stores.config_maps.get(of, &configurations::name_of(uid(meta)));
        let pod_name = name::child(uid(meta), Role::Checkout);
        let foreign = context.conflicts.is_foreign("Pod", of, &pod_name);
        Ok(Observed {
            claim: claim(stores, of, &workspace),
            secret: secret(&workspace, checkout.is_some(), context).await?,
            checkout,
            kept_files: map.map(|m| m.data.clone().unwrap_or_default()),
            instances: instances(stores, of, &workspace),
            mounted_by: mounted_by(stores, of, &workspace),
            pods: pods.len(),
            living: living(stores, of, name),
            conflict: foreign
                .then(|| format!("Pod {pod_name} is there already and isn't ours: delete or rename it")),
            refused: context
                .refusals
                .of("PersistentVolumeClaim", of, &name::workspace_claim(uid(meta)))
                .or_else(|| context.refusals.of("Pod", of, &pod_name)),
            settings: settings(context, meta),
            installation: installation(context),
            now: context.now(),
            workspace,
        })
    }

    fn decide(observed: &Observed) -> Decision<WorkspaceStatus> {
        decide(observed)
    }

    fn status(object: &Workspace) -> Option<&WorkspaceStatus> {
        object.status.as_ref()
    }

    fn watches(watches: &mut Watches<'_>) {
        watches.on::<Pod>(|change, stores| {
            let mut woken = labelled(change, stores);
            let claims = change.both().flat_map(|p| p.metadata.labels.iter().flatten());
            let uids = claims.filter_map(|(key, _)| key.strip_prefix(label::CLAIM_PREFIX));
            let claims =
                uids.filter_map(|uid| stores.claims.with_uid(uid)).filter_map(|c| c.metadata.name.clone());
            let of = &change.reference.namespace;
            let holders = claims.flat_map(|claim| stores.workspaces.find(index_name::CLAIM, of, &claim));
            woken.extend(holders.map(|w| ObjectRef::of(w.as_ref())));
            woken
        });
        watches.on::<ConfigMap>(labelled);
        watches.on::<DevcontainerInstance>(|change, _| {
            let names = change.both().map(|i| i.spec.workspace_ref.name.clone());
            names.map(|name| ObjectRef::new(&change.reference.namespace, name)).collect()
        });
        watches.on::<PersistentVolumeClaim>(|change, stores| {
            let of = &change.reference;
            let named = stores.workspaces.find(index_name::CLAIM, &of.namespace, &of.name);
            let uids = change.both().flat_map(|c| c.metadata.annotations.iter().flatten());
            let uids = uids.filter(|(key, _)| *key == label::WORKSPACE_UID).map(|(_, uid)| uid.clone());
            let owners = uids.filter_map(|uid| stores.workspaces.with_uid(&uid));
            named.into_iter().chain(owners).map(|w| ObjectRef::of(w.as_ref())).collect()
        });
        watches.on_later::<ToolRun>(COALESCED, finished_run);
    }
}

/// The workspace whose name a changed object has in its label.
fn labelled<K: Stored>(change: &Change<K>, _: &Stores) -> Vec<ObjectRef> {
    let name = change.both().find_map(|o| o.meta().labels.as_ref()?.get(label::WORKSPACE).cloned());
    name.map(|name| ObjectRef::new(&change.reference.namespace, name)).into_iter().collect()
}

/// A run that ended may have been the last one of an instance whose configuration vanished.
fn finished_run(change: &Change<ToolRun>, stores: &Stores) -> Vec<ObjectRef> {
    let open = |run: &Arc<ToolRun>| run.status.as_ref().is_none_or(|s| s.outcome.is_none());
    let ended = change.old.as_ref().is_some_and(open) && !change.new.as_ref().is_some_and(open);
    if !ended {
        return Vec::new();
    }
    let target = change.old.as_ref().and_then(|r| r.status.as_ref()?.route.as_ref()?.target.clone());
    let Some(target) = target.filter(|t| t.kind == InstanceKind::DevcontainerInstance) else {
        return Vec::new();
    };
    let of = &change.reference.namespace;
    let instance = stores.devcontainer_instances.get(of, &target.name);
    instance.map(|i| ObjectRef::new(of, &i.spec.workspace_ref.name)).into_iter().collect()
}

async fn checkout(workspace: &Workspace, context: &Context) -> Result<Option<CheckoutPod>, Error> {
    let stores = &context.stores;
    let role = |p: &Arc<Pod>| p.metadata.labels.as_ref().and_then(|l| l.get(label::ROLE)).cloned();
    let pods = stores.pods.owned_by(uid(&workspace.metadata));
    let own = pods.iter().find(|p| role(p).as_deref() == Some(Role::Checkout.as_str()));
    let Some(pod) = own.and_then(|p| PodFact::of(p)) else {
        return Ok(None);
    };
    let recorded =
        workspace.status.as_ref().and_then(|s| s.last_attempt.as_ref()).and_then(|a| a.pod_uid.clone());
    let ended = matches!(&pod.stage, PodStage::Ended(end) if end.exit_code.is_some());
    let unread = ended && recorded.as_deref() != Some(&pod.pod.uid) && pod.deleting_since.is_none();
    let report = if unread { Some(report(&pod, context).await?) } else { None };
    Ok(Some(CheckoutPod { pod, report }))
}

/// What a checkout pod wrote to its log: one bounded JSON document on stdout.
async fn report(pod: &PodFact, context: &Context) -> Result<Result<CheckoutReport, String>, Error> {
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &pod.pod.namespace);
    let bound = i64::try_from(limits::CHECKOUT_REPORT).unwrap_or(i64::MAX) * 2;
    let params = LogParams {
        container: Some(MAIN_CONTAINER.into()),
        limit_bytes: Some(bound),
        ..LogParams::default()
    };
    let object = ObjectRef::new(&pod.pod.namespace, &pod.pod.name);
    let kind = "Pod".to_owned();
    match tokio::time::timeout(DEADLINE, api.logs(&pod.pod.name, &params)).await {
        Ok(Ok(text)) => Ok(parse(&text)),
        // A container that is gone has no log any more; asking again won't help.
        Ok(Err(kube::Error::Api(status))) if (400..500).contains(&status.code) => {
            Ok(Err(status.message.clone()))
        }
        Ok(Err(source)) => {
            Err(Error::Api { verb: "read the log of", kind, object, source: Box::new(source) })
        }
        Err(_) => Err(Error::Deadline { verb: "read the log of", kind, object }),
    }
}

/// The document is the last line that looks like one: progress goes to the same log.
fn parse(text: &str) -> Result<CheckoutReport, String> {
    let line = text.lines().rev().find(|l| l.starts_with('{') && l.contains("\"protocolVersion\""));
    let line = line.ok_or_else(|| "it wrote no report".to_owned())?;
    serde_json::from_str(line).map_err(|e| e.to_string())
}

async fn secret(workspace: &Workspace, under_way: bool, context: &Context) -> Result<SecretFact, Error> {
    let Some(reference) = workspace.spec.source.git.as_ref().and_then(|g| g.secret_ref.as_ref()) else {
        return Ok(SecretFact::NotNeeded);
    };
    if under_way || workspace.metadata.deletion_timestamp.is_some() {
        return Ok(SecretFact::NotNeeded);
    }
    let of = namespace(&workspace.metadata);
    let api: Api<Secret> = Api::namespaced(context.client.clone(), of);
    let object = ObjectRef::new(of, &reference.name);
    let kind = "Secret".to_owned();
    match tokio::time::timeout(DEADLINE, api.get_opt(&reference.name)).await {
        Ok(Ok(None)) => Ok(SecretFact::Missing),
        Ok(Ok(Some(secret))) => {
            Ok(SecretFact::Present { keys: secret.data.unwrap_or_default().into_keys().collect() })
        }
        Ok(Err(source)) => Err(Error::Api { verb: "get", kind, object, source: Box::new(source) }),
        Err(_) => Err(Error::Deadline { verb: "get", kind, object }),
    }
}

fn claim(stores: &Stores, of: &str, workspace: &Workspace) -> Option<ClaimSeen> {
    let spec = &workspace.spec;
    let borrowed = spec.source.persistent_volume_claim.as_ref().map(|s| s.claim_name.clone());
    let named = spec.storage.as_ref().and_then(|s| s.claim_name.clone());
    let own = || name::workspace_claim(uid(&workspace.metadata));
    let claim = stores.claims.get(of, &borrowed.or(named).unwrap_or_else(own))?;
    let annotation = |key: &str| claim.metadata.annotations.as_ref().and_then(|a| a.get(key)).cloned();
    let workspace_uid = annotation(label::WORKSPACE_UID);
    Some(ClaimSeen {
        claim: shared_claim(&claim)?,
        deleting: claim.metadata.deletion_timestamp.is_some(),
        workspace_alive: workspace_uid.as_ref().is_some_and(|uid| stores.workspaces.with_uid(uid).is_some()),
        workspace_uid,
        origin: annotation(label::ORIGIN_URL),
        expires_at: annotation(label::EXPIRES_AT),
    })
}

fn instances(stores: &Stores, of: &str, workspace: &Workspace) -> Vec<InstanceSeen> {
    let name = super::name(&workspace.metadata);
    let listed = workspace.status.iter().flat_map(|s| &s.devcontainers);
    let mut found: BTreeMap<String, Arc<DevcontainerInstance>> = listed
        .filter_map(|d| Some((d.name.clone(), stores.devcontainer_instances.get(of, &d.name)?)))
        .collect();
    for instance in stores.devcontainer_instances.find(index_name::WORKSPACE, of, name) {
        found.insert(super::name(&instance.metadata).to_owned(), instance);
    }
    found.into_values().map(|i| instance_seen(stores, of, workspace, &i)).collect()
}

fn instance_seen(
    stores: &Stores,
    of: &str,
    workspace: &Workspace,
    instance: &DevcontainerInstance,
) -> InstanceSeen {
    let meta = &instance.metadata;
    let name = super::name(meta);
    let key = format!("{}/{name}", InstanceKind::DevcontainerInstance);
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    InstanceSeen {
        name: name.to_owned(),
        uid: uid(meta).to_owned(),
        automatic: owners.iter().any(|o| o.uid == uid(&workspace.metadata)),
        workspace: instance.spec.workspace_ref.name.clone(),
        config_path: instance.spec.config_path.clone(),
        labels: meta.labels.clone().unwrap_or_default(),
        in_use: stores.tool_runs.read().count(index_name::OPEN_TARGET, of, &key) > 0,
        deleting: meta.deletion_timestamp.is_some(),
    }
}

/// The environment pods of a workspace.
fn environments(stores: &Stores, of: &str, name: &str) -> Vec<Arc<Pod>> {
    let mut pods = stores.pods.find(index_name::WORKSPACE, of, name);
    pods.retain(|p| {
        p.metadata.labels.as_ref().and_then(|l| l.get(label::ROLE)).map(String::as_str) != Some("checkout")
    });
    pods
}

/// The instances whose pods mount the tree now.
fn mounted_by(stores: &Stores, of: &str, workspace: &Workspace) -> Vec<InstanceRef> {
    let Some(claim) = workspace.status.as_ref().and_then(|s| s.claim_name.as_deref()) else {
        return Vec::new();
    };
    let pods = stores.pods.find(index_name::CLAIM, of, claim);
    let holder = |pod: &Arc<Pod>| {
        let labels = pod.metadata.labels.as_ref()?;
        let kind = labels.get(label::INSTANCE_KIND)?.parse().ok()?;
        Some(InstanceRef { kind, name: labels.get(label::INSTANCE)?.clone() })
    };
    let mut holders: Vec<InstanceRef> = pods.iter().filter_map(holder).collect();
    holders.sort();
    holders.dedup();
    holders
}

/// What has, or may have, folders on the claim.
fn living(stores: &Stores, of: &str, name: &str) -> Living {
    let of_workspace = stores.devcontainer_instances.find(index_name::WORKSPACE, of, name);
    let mounting = stores.devcontainer_instances.find(index_name::MOUNTED_WORKSPACE, of, name);
    let containers = stores.container_instances.in_namespace(of);
    let plans: Vec<Arc<Plan>> = stores.plans.in_namespace(of);
    let mut instances: Vec<String> =
        of_workspace.iter().chain(&mounting).map(|i| uid(&i.metadata).to_owned()).collect();
    instances.extend(containers.iter().map(|i| uid(&i.metadata).to_owned()));
    instances.sort();
    instances.dedup();
    Living { plans: plans.iter().map(|p| uid(&p.metadata).to_owned()).collect(), instances }
}

//! What both kinds of instances read: pods, demand, the agent, workspaces and claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::agent::AgentFacts;
use domain::blueprint::{Acceptance, ClaimFact, WorkspaceFact};
use domain::instance::{Demand, Identity, Observed};
use domain::name;
use domain::pod::PodFact;
use domain::render::SharedClaim;
use domain::tool_run::admission::role_of;
use domain::tool_run::waiting::{is_claimed, waits_for_start};
use domain::workspace::source;
use drydock_crds::condition::ConditionType;
use drydock_crds::instance::{InstanceSpec, InstanceStatus};
use drydock_crds::label::Role;
use drydock_crds::reference::InstanceKind;
use drydock_crds::{ToolRun, Workspace};
use drydock_domain as domain;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{installation, namespace, settings, uid};
use crate::context::Context;
use crate::reconcile::{AgentChange, Watches};
use crate::store::{Change, ObjectRef, Stored, Stores, index_name};

/// How many active runs are named.
const NAMED_RUNS: usize = 5;
/// How far an instance may be behind the runs that need nothing of it.
const COALESCED: Duration = Duration::from_millis(200);

/// An instance of either kind, as far as both are the same.
pub(super) struct Instance<'a> {
    pub(super) kind: InstanceKind,
    pub(super) meta: &'a ObjectMeta,
    pub(super) spec: &'a InstanceSpec,
    pub(super) status: Option<&'a InstanceStatus>,
    pub(super) workspace: Option<String>,
    pub(super) owner: k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference,
}

/// Puts together what an instance is decided by.
pub(super) fn observe(instance: &Instance<'_>, acceptance: Acceptance, context: &Context) -> Observed {
    let stores = &context.stores;
    let (meta, of) = (instance.meta, namespace(instance.meta));
    let pods: Vec<PodFact> = stores.pods.owned_by(uid(meta)).iter().filter_map(|p| PodFact::of(p)).collect();
    let agent = present(&pods, instance.status)
        .map_or_else(AgentFacts::default, |p| context.agents.agent(&p.pod.uid));
    let pod_name = name::child(uid(meta), Role::Environment);
    let foreign = context.conflicts.is_foreign("Pod", of, &pod_name);
    let claims = stores.claims.owned_by(uid(meta));
    let volumes = instance.status.iter().flat_map(|s| s.volumes.iter().map(|v| &v.claim_name));
    let refused_volume =
        volumes.into_iter().find_map(|v| context.refusals.of("PersistentVolumeClaim", of, v));
    Observed {
        identity: identity(instance, stores),
        spec: instance.spec.clone(),
        status: instance.status.cloned().unwrap_or_default(),
        acceptance,
        pods,
        conflict: foreign
            .then(|| format!("Pod {pod_name} is there already and isn't ours: delete or rename it")),
        refused: refused_volume.or_else(|| context.refusals.of("Pod", of, &pod_name)),
        volumes: claims.iter().filter_map(|c| c.metadata.name.clone()).collect::<BTreeSet<_>>(),
        demand: demand(stores, of, instance.kind, super::name(meta)),
        agent,
        settings: settings(context, meta),
        installation: installation(context),
        now: context.now(),
    }
}

/// The pod that the agent's facts are about: the one the status names, else the newest.
fn present<'a>(pods: &'a [PodFact], status: Option<&InstanceStatus>) -> Option<&'a PodFact> {
    let recorded = status.and_then(|s| s.pod_uid.as_deref());
    let named = pods.iter().find(|p| Some(p.pod.uid.as_str()) == recorded);
    named.or_else(|| pods.iter().max_by_key(|p| p.created))
}

fn identity(instance: &Instance<'_>, stores: &Stores) -> Identity {
    let meta = instance.meta;
    let workspace = instance.workspace.as_ref().and_then(|w| stores.workspaces.get(namespace(meta), w));
    Identity {
        kind: instance.kind,
        namespace: namespace(meta).to_owned(),
        name: super::name(meta).to_owned(),
        uid: uid(meta).to_owned(),
        generation: meta.generation.unwrap_or_default(),
        annotations: meta.annotations.clone().unwrap_or_default(),
        created: meta.creation_timestamp.as_ref().map_or(jiff::Timestamp::UNIX_EPOCH, |t| t.0),
        deleting: meta.deletion_timestamp.is_some(),
        owner: instance.owner.clone(),
        role: role_of(meta.labels.as_ref()),
        workspace: instance.workspace.clone(),
        workspace_deleting_since: workspace.and_then(|w| w.metadata.deletion_timestamp.as_ref().map(|t| t.0)),
    }
}

fn demand(stores: &Stores, of: &str, kind: InstanceKind, name: &str) -> Demand {
    let key = format!("{kind}/{name}");
    let view = stores.tool_runs.read();
    let open = view.find(index_name::OPEN_TARGET, of, &key);
    let mut demand = Demand::default();
    for run in &open {
        if is_claimed(run) {
            demand.active += 1;
            if demand.active_names.len() < NAMED_RUNS {
                demand.active_names.push(super::name(&run.metadata).to_owned());
            }
        } else if waits_for_start(run) {
            demand.waiting += 1;
        }
    }
    let last = view.last(index_name::TARGET, of, &key);
    demand.last_finished = last.and_then(|run| run.status.as_ref()?.finished_at.as_ref().map(|t| t.0));
    demand
}

/// What is known of a workspace.
pub(super) fn workspace_fact(stores: &Stores, of: &str, name: &str) -> WorkspaceFact {
    let Some(workspace) = stores.workspaces.get(of, name) else {
        return WorkspaceFact { name: name.to_owned(), ..WorkspaceFact::default() };
    };
    let status = workspace.status.clone().unwrap_or_default();
    let claim = status.claim_name.as_deref().and_then(|c| stores.claims.get(of, c));
    let borrowed = workspace.spec.source.persistent_volume_claim.as_ref();
    WorkspaceFact {
        name: name.to_owned(),
        exists: true,
        deleting: workspace.metadata.deletion_timestamp.is_some(),
        claim: claim.as_deref().and_then(shared_claim),
        tree_path: match borrowed {
            Some(source) => source.sub_path.clone().unwrap_or_default(),
            None => source::TREE.to_owned(),
        },
        mountable: !source::is_remote_only(&workspace.spec),
        checked_out: ConditionType::CheckedOut.is_true(&status.conditions),
        scanned: ConditionType::Discovered.is_true(&status.conditions),
        devcontainers: status.devcontainers,
    }
}

/// A claim as pods share it.
pub(super) fn shared_claim(claim: &PersistentVolumeClaim) -> Option<SharedClaim> {
    let modes = claim.spec.as_ref().and_then(|s| s.access_modes.clone()).unwrap_or_default();
    let many = modes.iter().any(|m| m == "ReadWriteMany" || m == "ReadOnlyMany");
    Some(SharedClaim {
        name: claim.metadata.name.clone()?,
        uid: claim.metadata.uid.clone()?,
        single_node: !many,
    })
}

/// The workspaces and claims that the mounts of an instance name.
pub(super) fn mounted(
    stores: &Stores,
    of: &str,
    spec: &InstanceSpec,
) -> (BTreeMap<String, WorkspaceFact>, BTreeMap<String, ClaimFact>) {
    let workspaces = spec.mounts.iter().filter_map(|m| m.workspace_ref.as_ref());
    let workspaces = workspaces.map(|r| (r.name.clone(), workspace_fact(stores, of, &r.name))).collect();
    let named = spec.mounts.iter().filter_map(|m| m.persistent_volume_claim.as_ref());
    let claims = named.filter_map(|source| {
        let claim = stores.claims.get(of, &source.claim_name)?;
        let deleting = claim.metadata.deletion_timestamp.is_some();
        Some((source.claim_name.clone(), ClaimFact { claim: shared_claim(&claim)?, deleting }))
    });
    (workspaces, claims.collect())
}

/// What wakes instances of `kind`, whose store is of `K`.
pub(super) fn watch<K: Stored>(watches: &mut Watches<'_>, kind: InstanceKind) {
    watches.on::<Pod>(move |change, stores| owners::<K, Pod>(change, stores));
    watches.on::<PersistentVolumeClaim>(move |change, stores| {
        let mut woken = owners::<K, PersistentVolumeClaim>(change, stores);
        woken.extend(in_namespace::<K>(&change.reference.namespace, stores).filter(|_| came_or_went(change)));
        woken
    });
    watches.on::<ToolRun>(move |change, _| {
        let is_urgent = change.new.as_ref().is_some_and(|run| waits_for_start(run));
        if is_urgent { of_run(change, kind) } else { Vec::new() }
    });
    // That a run began, ended or went changes no more than what is said of the instance, and since when it is idle.
    watches.on_later::<ToolRun>(COALESCED, move |change, _| of_run(change, kind));
    watches.on::<Workspace>(move |change, stores| {
        let changed = change.old.as_ref().map(|w| relevant(w)) != change.new.as_ref().map(|w| relevant(w));
        let of = &change.reference;
        let mut woken: Vec<ObjectRef> = Vec::new();
        if changed {
            let store = K::store(stores);
            for index in [index_name::WORKSPACE, index_name::MOUNTED_WORKSPACE] {
                woken.extend(
                    store.find(index, &of.namespace, &of.name).iter().map(|o| ObjectRef::of(o.as_ref())),
                );
            }
        }
        woken
    });
    watches.on_agent(move |change, stores| match change {
        AgentChange::Agent(pod) => {
            let pod = stores.pods.with_uid(&pod.uid);
            pod.map(|p| owned_by_kind::<K>(&p.metadata, stores)).unwrap_or_default()
        }
        AgentChange::Attempt(_) => Vec::new(),
    });
}

/// What an instance reads of a workspace.
fn relevant(workspace: &Workspace) -> impl PartialEq + use<> {
    let status = workspace.status.as_ref();
    let condition = |t: ConditionType| status.is_some_and(|s| t.is_true(&s.conditions));
    (
        workspace.metadata.deletion_timestamp.clone(),
        status.and_then(|s| s.claim_name.clone()),
        condition(ConditionType::CheckedOut),
        condition(ConditionType::Discovered),
        status.map(|s| s.devcontainers.clone()),
    )
}

fn came_or_went<K>(change: &Change<K>) -> bool {
    change.old.is_some() != change.new.is_some()
}

fn in_namespace<'a, K: Stored>(of: &str, stores: &'a Stores) -> impl Iterator<Item = ObjectRef> + use<'a, K> {
    K::store(stores).in_namespace(of).into_iter().map(|o| ObjectRef::of(o.as_ref()))
}

/// The instances that own a changed object.
fn owners<K: Stored, C: Stored>(change: &Change<C>, stores: &Stores) -> Vec<ObjectRef> {
    let mut woken: Vec<ObjectRef> =
        change.both().flat_map(|o| owned_by_kind::<K>(o.meta(), stores)).collect();
    woken.dedup();
    woken
}

fn owned_by_kind<K: Stored>(meta: &ObjectMeta, stores: &Stores) -> Vec<ObjectRef> {
    let owners = meta
        .owner_references
        .iter()
        .flatten()
        .filter(|o| o.controller == Some(true) && o.kind == K::kind(&()));
    owners.filter_map(|o| K::store(stores).with_uid(&o.uid)).map(|o| ObjectRef::of(o.as_ref())).collect()
}

/// The instance of `kind` that a run is or was routed to.
fn of_run(change: &Change<ToolRun>, kind: InstanceKind) -> Vec<ObjectRef> {
    let target = |run: &Arc<ToolRun>| {
        let target = run.status.as_ref()?.route.as_ref()?.target.as_ref()?;
        (target.kind == kind).then(|| target.name.clone())
    };
    let mut names: Vec<String> = change.both().filter_map(target).collect();
    names.dedup();
    names.into_iter().map(|name| ObjectRef::new(&change.reference.namespace, name)).collect()
}

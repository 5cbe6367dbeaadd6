//! ToolRuns: what they refer to, the instance they go to, its agent, and who else waits for it.

use std::sync::Arc;

use domain::Decision;
use domain::agent::{AgentFacts, AttemptFact};
use domain::blueprint::{RUN_CONTEXT, RunContext};
use domain::instance::request::open_request;
use domain::pod::{PodFact, PodStage};
use domain::routing::InstanceFacts;
use domain::tool_run::admission::{References, admit};
use domain::tool_run::waiting::{is_claimed, waits_for_start};
use domain::tool_run::{Admission, ClaimedPod, Observed, Queue, TargetFacts, decide};
use drydock_crds::instance::{InstanceSpec, InstanceStatus};
use drydock_crds::label;
use drydock_crds::reference::{InstanceKind, InstanceRef, LocalRef};
use drydock_crds::{
    ContainerInstance, DevcontainerInstance, Plan, Project, Tool, ToolRun, ToolRunStatus, Workspace,
};
use drydock_domain as domain;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{installation, name, namespace, settings, uid};
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::{AgentChange, Kind, Watches};
use crate::store::{Change, ObjectRef, Stored, Stores, index_name};

/// How many waiting runs are woken when a place in their environment becomes free.
const WOKEN: usize = 4;

/// The kind.
pub struct ToolRuns;

impl Kind for ToolRuns {
    type Object = ToolRun;
    type Observed = Observed;
    type Status = ToolRunStatus;

    const CONCURRENCY: usize = 64;

    async fn observe(run: Arc<ToolRun>, context: &Context) -> Result<Observed, Error> {
        Ok(observe(run, context))
    }

    fn decide(observed: &Observed) -> Decision<ToolRunStatus> {
        decide(observed)
    }

    fn status(object: &ToolRun) -> Option<&ToolRunStatus> {
        object.status.as_ref()
    }

    fn watches(watches: &mut Watches<'_>) {
        watches.on::<ToolRun>(next_in_line);
        watches.on::<DevcontainerInstance>(|change, stores| {
            let facts = |i: &Arc<DevcontainerInstance>| {
                (i.metadata.generation, i.metadata.annotations.clone(), i.status.clone())
            };
            routed_to(change, InstanceKind::DevcontainerInstance, facts, stores)
        });
        watches.on::<ContainerInstance>(|change, stores| {
            let facts = |i: &Arc<ContainerInstance>| {
                (i.metadata.generation, i.metadata.annotations.clone(), i.status.clone())
            };
            routed_to(change, InstanceKind::ContainerInstance, facts, stores)
        });
        watches.on::<Pod>(|change, stores| {
            let pod = change.both().next().map(|p| uid(&p.metadata).to_owned()).unwrap_or_default();
            references(&stores.tool_runs.find(index_name::OPEN_POD, &change.reference.namespace, &pod))
        });
        watches.on::<Workspace>(|change, stores| referring(change, index_name::WORKSPACE, stores));
        watches.on::<Project>(|change, stores| referring(change, index_name::PROJECT, stores));
        watches.on::<Tool>(|change, stores| referring(change, index_name::TOOL, stores));
        watches.on::<Plan>(|change, stores| {
            let facts =
                |p: &Arc<Plan>| (p.metadata.generation, p.status.as_ref().map(|s| s.conditions.clone()));
            if change.old.as_ref().map(facts) == change.new.as_ref().map(facts) {
                return Vec::new();
            }
            let of = &change.reference;
            let runs = stores.tool_runs.find(index_name::PLAN, &of.namespace, &of.name);
            references(&runs.into_iter().filter(is_open).collect::<Vec<_>>())
        });
        watches.on_agent(|change, stores| match change {
            AgentChange::Attempt(run) => vec![ObjectRef::new(&run.namespace, &run.name)],
            AgentChange::Agent(pod) => of_pod(&pod.uid, stores),
        });
    }
}

fn observe(run: Arc<ToolRun>, context: &Context) -> Observed {
    let stores = &context.stores;
    let (meta, now) = (&run.metadata, context.now());
    let of = namespace(meta);
    let settings = settings(context, meta);
    let status = run.status.as_ref();
    let routed = status.is_some_and(|s| s.route.is_some() || s.outcome.is_some());
    let plan = run.spec.plan_ref.as_ref().and_then(|p| stores.plans.get(of, &p.name));
    let references = references_of(&run, plan.clone(), routed, stores);
    let admission = if routed { Admission::Settled } else { admit(&run, &references, &settings, now) };
    let instance = match &admission {
        Admission::Go(destination) => Some(destination.instance.clone()),
        _ => status
            .and_then(|s| s.route.as_ref()?.target.as_ref())
            .map(|t| InstanceRef { kind: t.kind, name: t.name.clone() }),
    };
    let target = instance.as_ref().and_then(|i| target(of, i, context));
    let claim = status.and_then(|s| s.claim.as_ref());
    let attempt = claim.map_or(AttemptFact::Unknown, |c| {
        context.agents.attempt(uid(meta), u32::try_from(c.attempt).unwrap_or_default())
    });
    Observed {
        cancelled_by: cancelled_by(
            &run,
            plan.as_deref(),
            references.workspace.as_deref(),
            target.as_ref(),
            stores,
        ),
        claimed_pod: claim.map_or(ClaimedPod::None, |c| claimed_pod(&c.pod_uid, stores)),
        queue: instance.as_ref().map_or_else(Queue::default, |i| queue(&run, i, stores)),
        tool: references.tool.clone(),
        workspace: references.workspace.clone(),
        admission,
        target,
        attempt,
        settings,
        installation: installation(context),
        now,
        run,
    }
}

/// What a run refers to. The environments and instances of the namespace are read only where the run has yet to be routed.
fn references_of(run: &ToolRun, plan: Option<Arc<Plan>>, routed: bool, stores: &Stores) -> References {
    let of = namespace(&run.metadata);
    let spec = &run.spec;
    let from_plan = |f: fn(&Plan) -> Option<LocalRef>| plan.as_deref().and_then(f);
    let workspace = spec.workspace_ref.clone().or_else(|| from_plan(|p| p.spec.workspace_ref.clone()));
    let project = spec.project_ref.clone().or_else(|| from_plan(|p| p.spec.project_ref.clone()));
    let mut references = References {
        tool: spec.tool_ref.as_ref().and_then(|t| stores.tools.get(of, &t.name)),
        workspace: workspace.and_then(|w| stores.workspaces.get(of, &w.name)),
        project: project.and_then(|p| stores.projects.get(of, &p.name)),
        plan,
        ..References::default()
    };
    if !routed {
        references.environments = stores.execution_environments.in_namespace(of);
        let devcontainers = stores.devcontainer_instances.in_namespace(of);
        let containers = stores.container_instances.in_namespace(of);
        references.instances = devcontainers
            .iter()
            .map(|i| (InstanceFacts::from(i.as_ref()), uid(&i.metadata).to_owned()))
            .chain(containers.iter().map(|i| (InstanceFacts::from(i.as_ref()), uid(&i.metadata).to_owned())))
            .collect();
    }
    references
}

/// Why a run is to be cancelled that doesn't say so itself.
fn cancelled_by(
    run: &ToolRun,
    plan: Option<&Plan>,
    workspace: Option<&Workspace>,
    target: Option<&TargetFacts>,
    stores: &Stores,
) -> Option<String> {
    if let Some(plan) = plan.filter(|p| domain::plan::has_ended(p) || p.metadata.deletion_timestamp.is_some())
    {
        return Some(format!("Plan {} has ended", name(&plan.metadata)));
    }
    if let Some(workspace) = workspace.filter(|w| w.metadata.deletion_timestamp.is_some()) {
        return Some(format!("Workspace {} is being deleted", name(&workspace.metadata)));
    }
    let target = target?;
    let annotations = annotations_of(namespace(&run.metadata), &target.instance, stores)?;
    let forced = open_request(&annotations, &target.status.handled_requests, label::STOP_FORCE);
    forced.map(|_| {
        format!("{} was set on {} {}", label::STOP_FORCE, target.instance.kind, target.instance.name)
    })
}

fn annotations_of(
    of: &str,
    instance: &InstanceRef,
    stores: &Stores,
) -> Option<std::collections::BTreeMap<String, String>> {
    let meta = match instance.kind {
        InstanceKind::DevcontainerInstance => {
            stores.devcontainer_instances.get(of, &instance.name)?.metadata.clone()
        }
        InstanceKind::ContainerInstance => {
            stores.container_instances.get(of, &instance.name)?.metadata.clone()
        }
    };
    meta.annotations
}

fn target(of: &str, instance: &InstanceRef, context: &Context) -> Option<TargetFacts> {
    let stores = &context.stores;
    match instance.kind {
        InstanceKind::DevcontainerInstance => {
            let object = stores.devcontainer_instances.get(of, &instance.name)?;
            Some(facts(instance, &object.metadata, &object.spec.instance, object.status.as_ref(), context))
        }
        InstanceKind::ContainerInstance => {
            let object = stores.container_instances.get(of, &instance.name)?;
            let facts =
                facts(instance, &object.metadata, &object.spec.instance, object.status.as_ref(), context);
            let host_runner = InstanceFacts::from(object.as_ref()).host_runner;
            Some(TargetFacts { host_image: host_runner.then(|| object.spec.image.clone()), ..facts })
        }
    }
}

/// What both kinds of instances tell of themselves.
fn facts(
    instance: &InstanceRef,
    meta: &ObjectMeta,
    spec: &InstanceSpec,
    status: Option<&InstanceStatus>,
    context: &Context,
) -> TargetFacts {
    let recorded = status.and_then(|s| s.pod_uid.as_deref());
    let pod = recorded.and_then(|uid| context.stores.pods.with_uid(uid));
    let said = pod.as_ref().and_then(|p| p.metadata.annotations.as_ref()?.get(RUN_CONTEXT));
    let run_context: RunContext = said.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let pod = pod.and_then(|p| PodFact::of(&p));
    TargetFacts {
        instance: instance.clone(),
        uid: uid(meta).to_owned(),
        generation: meta.generation.unwrap_or_default(),
        spec: spec.clone(),
        status: status.cloned().unwrap_or_default(),
        agent: pod.as_ref().map_or_else(AgentFacts::default, |p| context.agents.agent(&p.pod.uid)),
        pod,
        context: run_context,
        deleting: meta.deletion_timestamp.is_some(),
        host_image: None,
    }
}

fn claimed_pod(pod_uid: &str, stores: &Stores) -> ClaimedPod {
    let Some(fact) = stores.pods.with_uid(pod_uid).and_then(|p| PodFact::of(&p)) else {
        return ClaimedPod::Gone;
    };
    match fact.stage.clone() {
        PodStage::Ended(end) => ClaimedPod::Ended(Box::new(fact), end),
        PodStage::Starting(_) | PodStage::Running => ClaimedPod::Present(Box::new(fact)),
    }
}

/// One consistent view: two runs that look at it at once never both take the last place.
fn queue(run: &ToolRun, instance: &InstanceRef, stores: &Stores) -> Queue {
    let of = namespace(&run.metadata);
    let view = stores.tool_runs.read();
    let own = view.arrival(&ObjectRef::of(run)).unwrap_or(u64::MAX);
    let mut queue = Queue::default();
    for other in view.find(index_name::OPEN_TARGET, of, &format!("{}/{}", instance.kind, instance.name)) {
        if uid(&other.metadata) == uid(&run.metadata) {
            continue;
        }
        if is_claimed(&other) {
            queue.active += 1;
        } else if view.arrival(&ObjectRef::of(other.as_ref())).is_some_and(|arrival| arrival < own) {
            queue.ahead += 1;
        }
    }
    queue
}

fn is_open(run: &Arc<ToolRun>) -> bool {
    run.status.as_ref().is_none_or(|s| s.outcome.is_none())
}

fn references(runs: &[Arc<ToolRun>]) -> Vec<ObjectRef> {
    runs.iter().map(|r| ObjectRef::of(r.as_ref())).collect()
}

/// A run that ended, or went, makes room for the next of its environment.
fn next_in_line(change: &Change<ToolRun>, stores: &Stores) -> Vec<ObjectRef> {
    let held = change.old.as_ref().is_some_and(is_open);
    let holds = change.new.as_ref().is_some_and(is_open);
    let target = change.old.as_ref().and_then(|r| r.status.as_ref()?.route.as_ref()?.target.clone());
    let (true, false, Some(target)) = (held, holds, target) else {
        return Vec::new();
    };
    let key = format!("{}/{}", target.kind, target.name);
    let open = stores.tool_runs.find(index_name::OPEN_TARGET, &change.reference.namespace, &key);
    let waiting: Vec<Arc<ToolRun>> = open.into_iter().filter(|r| !is_claimed(r)).take(WOKEN).collect();
    references(&waiting)
}

/// The open runs that are routed to a changed instance, and those that are still to be routed in its namespace when one comes or goes.
fn routed_to<K: Stored, F: PartialEq>(
    change: &Change<K>,
    kind: InstanceKind,
    facts: impl Fn(&Arc<K>) -> F,
    stores: &Stores,
) -> Vec<ObjectRef> {
    if change.old.as_ref().map(&facts) == change.new.as_ref().map(&facts) {
        return Vec::new();
    }
    let of = &change.reference;
    let key = format!("{kind}/{}", of.name);
    let mut concerned = stores.tool_runs.find(index_name::OPEN_TARGET, &of.namespace, &key);
    if change.old.is_some() != change.new.is_some() {
        concerned.extend(stores.tool_runs.find(index_name::UNROUTED, &of.namespace, ""));
    }
    references(&concerned)
}

fn referring<K: Stored>(change: &Change<K>, index: &'static str, stores: &Stores) -> Vec<ObjectRef> {
    let of = &change.reference;
    let mut woken = references(&stores.tool_runs.find(index, &of.namespace, &of.name));
    // Runs of plans name the workspace or project through their plan.
    let plans = stores.plans.find(index, &of.namespace, &of.name);
    for plan in plans {
        let runs = stores.tool_runs.find(index_name::PLAN, &of.namespace, name(&plan.metadata));
        woken.extend(references(&runs.into_iter().filter(is_open).collect::<Vec<_>>()));
    }
    woken
}

/// The open runs whose environment is this pod.
fn of_pod(pod_uid: &str, stores: &Stores) -> Vec<ObjectRef> {
    let Some(pod) = stores.pods.with_uid(pod_uid) else {
        return Vec::new();
    };
    let of = namespace(&pod.metadata);
    let labels = pod.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|l| l.get(key)).cloned().unwrap_or_default();
    let key = format!("{}/{}", label(label::INSTANCE_KIND), label(label::INSTANCE));
    let open = stores.tool_runs.find(index_name::OPEN_TARGET, of, &key);
    let concerned: Vec<Arc<ToolRun>> =
        open.into_iter().filter(|r| is_claimed(r) || waits_for_start(r)).collect();
    references(&concerned)
}

//! ExecutionEnvironments: whether scope and target exist and are linked, and who else claims the same place.

use std::sync::Arc;

use domain::Decision;
use domain::execution_environment::{Observed, TargetFact, decide};
use domain::routing::{InstanceFacts, TargetState, links, target_state};
use drydock_crds::instance::InstanceStatus;
use drydock_crds::reference::{InstanceKind, InstanceRef, LocalRef};
use drydock_crds::{
    ContainerInstance, DevcontainerInstance, ExecutionEnvironment, ExecutionEnvironmentStatus, Plan, Project,
};
use drydock_domain as domain;

use super::{name, namespace};
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::{Kind, Watches};
use crate::store::{Change, ObjectRef, Stored, Stores, index_name};

/// The kind.
pub struct ExecutionEnvironments;

impl Kind for ExecutionEnvironments {
    type Object = ExecutionEnvironment;
    type Observed = Observed;
    type Status = ExecutionEnvironmentStatus;

    async fn observe(environment: Arc<ExecutionEnvironment>, context: &Context) -> Result<Observed, Error> {
        let stores = &context.stores;
        let of = namespace(&environment.metadata);
        let scope = &environment.spec.scope;
        let plan = scope.plan_ref.as_ref().map(|p| stores.plans.get(of, &p.name));
        let named = scope.project_ref.clone();
        let of_plan = plan.as_ref().and_then(|p| p.as_ref()).and_then(|p| p.spec.project_ref.clone());
        let project_ref = named.or(of_plan);
        let project = project_ref.as_ref().map(|p| stores.projects.get(of, &p.name));
        let scope_exists =
            plan.as_ref().is_none_or(Option::is_some) && project.as_ref().is_none_or(Option::is_some);
        Ok(Observed {
            scope_exists,
            target: target(stores, of, &environment, project.flatten().as_deref()),
            conflicts_with: rival(stores, of, &environment),
            environment: Arc::unwrap_or_clone(environment),
            now: context.now(),
        })
    }

    fn decide(observed: &Observed) -> Decision<ExecutionEnvironmentStatus> {
        decide(observed)
    }

    fn status(object: &ExecutionEnvironment) -> Option<&ExecutionEnvironmentStatus> {
        object.status.as_ref()
    }

    fn watches(watches: &mut Watches<'_>) {
        watches.on::<ExecutionEnvironment>(|change, stores| {
            let all = stores.execution_environments.in_namespace(&change.reference.namespace);
            let same = |e: &Arc<ExecutionEnvironment>| change.both().any(|c| c.spec.scope == e.spec.scope);
            let others = all.iter().filter(|e| same(e) && ObjectRef::of(e.as_ref()) != change.reference);
            others.map(|e| ObjectRef::of(e.as_ref())).collect()
        });
        watches.on::<Project>(in_namespace);
        watches.on::<Plan>(|change, stores| {
            let came_or_went = change.old.is_some() != change.new.is_some();
            if came_or_went { in_namespace(change, stores) } else { Vec::new() }
        });
        watches.on::<DevcontainerInstance>(|change, stores| {
            let state = |i: &Arc<DevcontainerInstance>| state_of(i.status.as_ref());
            if change.old.as_ref().map(state) == change.new.as_ref().map(state) {
                return Vec::new();
            }
            that_name(InstanceKind::DevcontainerInstance, &change.reference, stores)
        });
        watches.on::<ContainerInstance>(|change, stores| {
            let state = |i: &Arc<ContainerInstance>| state_of(i.status.as_ref());
            if change.old.as_ref().map(state) == change.new.as_ref().map(state) {
                return Vec::new();
            }
            that_name(InstanceKind::ContainerInstance, &change.reference, stores)
        });
    }
}

fn state_of(status: Option<&InstanceStatus>) -> Option<drydock_crds::ProvisioningState> {
    status.and_then(|s| s.provisioning_state)
}

fn in_namespace<K: Stored>(change: &Change<K>, stores: &Stores) -> Vec<ObjectRef> {
    let all = stores.execution_environments.in_namespace(&change.reference.namespace);
    all.iter().map(|e| ObjectRef::of(e.as_ref())).collect()
}

fn that_name(kind: InstanceKind, instance: &ObjectRef, stores: &Stores) -> Vec<ObjectRef> {
    let key = format!("{kind}/{}", instance.name);
    let found = stores.execution_environments.find(index_name::NAMED, &instance.namespace, &key);
    found.iter().map(|e| ObjectRef::of(e.as_ref())).collect()
}

fn target(
    stores: &Stores,
    of: &str,
    environment: &ExecutionEnvironment,
    project: Option<&Project>,
) -> TargetFact {
    let spec = &environment.spec.target;
    let (reference, facts, status) = if let Some(LocalRef { name }) = &spec.devcontainer_instance_ref {
        let found = stores.devcontainer_instances.get(of, name);
        let facts = found.as_ref().map(|i| InstanceFacts::from(i.as_ref()));
        let reference = InstanceRef { kind: InstanceKind::DevcontainerInstance, name: name.clone() };
        (reference, facts, found.and_then(|i| i.status.clone()))
    } else if let Some(LocalRef { name }) = &spec.container_instance_ref {
        let found = stores.container_instances.get(of, name);
        let facts = found.as_ref().map(|i| InstanceFacts::from(i.as_ref()));
        let reference = InstanceRef { kind: InstanceKind::ContainerInstance, name: name.clone() };
        (reference, facts, found.and_then(|i| i.status.clone()))
    } else {
        return TargetFact::Open;
    };
    let all: Vec<InstanceFacts> = facts.iter().cloned().collect();
    let links = project.map(|p| links(&p.spec.resources, &all));
    let usable = facts.as_ref().is_some_and(|f| !f.host_runner);
    match target_state(&reference, usable, links.as_deref()) {
        TargetState::NotFound => TargetFact::Missing,
        TargetState::NotLinked => TargetFact::NotLinked,
        TargetState::Usable => TargetFact::Linked(state_of(status.as_ref()).unwrap_or_default()),
    }
}

/// The environment of the same scope and priority that goes before this one: the older, then the first by name.
fn rival(stores: &Stores, of: &str, environment: &ExecutionEnvironment) -> Option<String> {
    let age = |e: &ExecutionEnvironment| {
        (e.metadata.creation_timestamp.as_ref().map(|t| t.0), name(&e.metadata).to_owned())
    };
    let own = age(environment);
    let all = stores.execution_environments.in_namespace(of);
    all.iter()
        .filter(|e| e.metadata.deletion_timestamp.is_none() && e.spec.scope == environment.spec.scope)
        .filter(|e| e.spec.priority.unwrap_or_default() == environment.spec.priority.unwrap_or_default())
        .filter(|e| age(e) < own)
        .min_by_key(|e| age(e))
        .map(|e| name(&e.metadata).to_owned())
}

//! Projects: which of the linked resources exist.

use std::sync::Arc;

use domain::Decision;
use domain::project::{Observed, decide};
use drydock_crds::project::ResourceKind;
use drydock_crds::{ContainerInstance, DevcontainerInstance, Project, ProjectStatus, Workspace};
use drydock_domain as domain;

use super::namespace;
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::{Kind, Watches};
use crate::store::{Change, ObjectRef, Stored, Stores, index_name};

/// The kind.
pub struct Projects;

impl Kind for Projects {
    type Object = Project;
    type Observed = Observed;
    type Status = ProjectStatus;

    async fn observe(project: Arc<Project>, context: &Context) -> Result<Observed, Error> {
        let stores = &context.stores;
        let of = namespace(&project.metadata);
        let exists = project
            .spec
            .resources
            .iter()
            .map(|r| match r.kind {
                ResourceKind::Workspace => stores.workspaces.get(of, &r.name).is_some(),
                ResourceKind::ContainerInstance => stores.container_instances.get(of, &r.name).is_some(),
                ResourceKind::DevcontainerInstance => {
                    stores.devcontainer_instances.get(of, &r.name).is_some()
                }
            })
            .collect();
        Ok(Observed { exists, project: Arc::unwrap_or_clone(project), now: context.now() })
    }

    fn decide(observed: &Observed) -> Decision<ProjectStatus> {
        decide(observed)
    }

    fn status(object: &Project) -> Option<&ProjectStatus> {
        object.status.as_ref()
    }

    fn watches(watches: &mut Watches<'_>) {
        watches.on::<Workspace>(|change, stores| that_link(change, ResourceKind::Workspace, stores));
        watches.on::<ContainerInstance>(|change, stores| {
            that_link(change, ResourceKind::ContainerInstance, stores)
        });
        watches.on::<DevcontainerInstance>(|change, stores| {
            that_link(change, ResourceKind::DevcontainerInstance, stores)
        });
    }
}

/// The projects that link an object which came or went.
fn that_link<K: Stored>(change: &Change<K>, kind: ResourceKind, stores: &Stores) -> Vec<ObjectRef> {
    if change.old.is_some() == change.new.is_some() {
        return Vec::new();
    }
    let of = &change.reference;
    let key = format!("{kind}/{}", of.name);
    let projects = stores.projects.find(index_name::NAMED, &of.namespace, &key);
    projects.iter().map(|p| ObjectRef::of(p.as_ref())).collect()
}

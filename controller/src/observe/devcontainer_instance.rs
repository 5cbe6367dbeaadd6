//! DevcontainerInstances.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::Decision;
use domain::decision::owner_reference;
use domain::devcontainer_instance::{Source, acceptance};
use domain::instance::{Observed, decide};
use domain::render::configurations;
use drydock_crds::reference::InstanceKind;
use drydock_crds::{DevcontainerInstance, InstanceStatus};
use drydock_domain as domain;
use k8s_openapi::api::core::v1::ConfigMap;

use super::instance::{self, Instance};
use super::{namespace, uid};
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::{Kind, Watches};
use crate::store::{ObjectRef, Stores, index_name};

/// The kind.
pub struct DevcontainerInstances;

impl Kind for DevcontainerInstances {
    type Object = DevcontainerInstance;
    type Observed = Observed;
    type Status = InstanceStatus;

    async fn observe(object: Arc<DevcontainerInstance>, context: &Context) -> Result<Observed, Error> {
        let of = namespace(&object.metadata);
        let stores = &context.stores;
        let (workspaces, claims) = instance::mounted(stores, of, &object.spec.instance);
        let name = &object.spec.workspace_ref.name;
        let workspace = instance::workspace_fact(stores, of, name);
        let files = files(stores, of, name, workspace.devcontainers.iter().map(|d| d.config_path.as_str()));
        let source = Source { workspace, files, workspaces, claims };
        let acceptance = acceptance(uid(&object.metadata), &object.spec, &source);
        let instance = Instance {
            kind: InstanceKind::DevcontainerInstance,
            meta: &object.metadata,
            spec: &object.spec.instance,
            status: object.status.as_ref(),
            workspace: Some(name.clone()),
            owner: owner_reference(object.as_ref())
                .ok_or_else(|| Error::Observe("the object has no name or uid".into()))?,
        };
        Ok(instance::observe(&instance, acceptance, context))
    }

    fn decide(observed: &Observed) -> Decision<InstanceStatus> {
        decide(observed)
    }

    fn status(object: &DevcontainerInstance) -> Option<&InstanceStatus> {
        object.status.as_ref()
    }

    fn watches(watches: &mut Watches<'_>) {
        instance::watch::<DevcontainerInstance>(watches, InstanceKind::DevcontainerInstance);
        watches.on::<ConfigMap>(|change, stores| {
            let owners = change.both().flat_map(|m| m.metadata.owner_references.iter().flatten());
            let workspaces = owners.filter_map(|o| stores.workspaces.with_uid(&o.uid));
            let names = workspaces.filter_map(|w| w.metadata.name.clone());
            let of = &change.reference.namespace;
            let instances =
                names.flat_map(|name| stores.devcontainer_instances.find(index_name::WORKSPACE, of, &name));
            instances.map(|i| ObjectRef::of(i.as_ref())).collect()
        });
    }
}

/// The configuration files that are kept of a workspace, by path.
fn files<'a>(
    stores: &Stores,
    of: &str,
    workspace: &str,
    paths: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, String> {
    let Some(workspace) = stores.workspaces.get(of, workspace) else {
        return BTreeMap::new();
    };
    let Some(map) = stores.config_maps.get(of, &configurations::name_of(uid(&workspace.metadata))) else {
        return BTreeMap::new();
    };
    let data = map.data.as_ref();
    let text = |path: &str| data.and_then(|d| d.get(&configurations::key_of(path))).cloned();
    paths.filter_map(|path| Some((path.to_owned(), text(path)?))).collect()
}

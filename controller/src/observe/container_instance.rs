//! ContainerInstances.

use std::sync::Arc;

use domain::Decision;
use domain::container_instance::{Source, acceptance};
use domain::decision::owner_reference;
use domain::instance::{Observed, decide};
use drydock_crds::label;
use drydock_crds::reference::InstanceKind;
use drydock_crds::{ContainerInstance, InstanceStatus};
use drydock_domain as domain;

use super::instance::{self, Instance};
use super::namespace;
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::{Kind, Watches};

/// The kind.
pub struct ContainerInstances;

impl Kind for ContainerInstances {
    type Object = ContainerInstance;
    type Observed = Observed;
    type Status = InstanceStatus;

    async fn observe(object: Arc<ContainerInstance>, context: &Context) -> Result<Observed, Error> {
        let of = namespace(&object.metadata);
        let (workspaces, claims) = instance::mounted(&context.stores, of, &object.spec.instance);
        let acceptance = acceptance(&object.spec, &Source { workspaces, claims });
        let labels = object.metadata.labels.as_ref();
        let instance = Instance {
            kind: InstanceKind::ContainerInstance,
            meta: &object.metadata,
            spec: &object.spec.instance,
            status: object.status.as_ref(),
            workspace: labels.and_then(|l| l.get(label::WORKSPACE)).cloned(),
            owner: owner_reference(object.as_ref())
                .ok_or_else(|| Error::Observe("the object has no name or uid".into()))?,
        };
        Ok(instance::observe(&instance, acceptance, context))
    }

    fn decide(observed: &Observed) -> Decision<InstanceStatus> {
        decide(observed)
    }

    fn status(object: &ContainerInstance) -> Option<&InstanceStatus> {
        object.status.as_ref()
    }

    fn watches(watches: &mut Watches<'_>) {
        instance::watch::<ContainerInstance>(watches, InstanceKind::ContainerInstance);
    }
}

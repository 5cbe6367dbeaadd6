//! Claims: the one that holds a workspace's tree, and those of named volumes.

use std::collections::BTreeMap;

use drydock_crds::label::{self, Role};
use drydock_crds::workspace::{AccessMode, Storage};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::labels;

/// The size of a claim where a Workspace names none.
pub const DEFAULT_SIZE: &str = "10Gi";

/// The claim of a workspace. It has no owner reference, as it may outlive the Workspace: annotations make it ours.
#[must_use]
pub fn workspace_claim(
    namespace: &str,
    claim: &str,
    workspace: (&str, &str),
    origin: &str,
    storage: Option<&Storage>,
) -> PersistentVolumeClaim {
    let (workspace_name, workspace_uid) = workspace;
    let size = storage.and_then(|s| s.size.clone()).unwrap_or_else(|| Quantity(DEFAULT_SIZE.into()));
    let mode: &'static str = storage.and_then(|s| s.access_mode).unwrap_or_default().into();
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([
                (label::MANAGED_BY.to_owned(), label::MANAGER.to_owned()),
                (label::WORKSPACE.to_owned(), super::label_value(workspace_name)),
            ])),
            annotations: Some(BTreeMap::from([
                (label::WORKSPACE_UID.to_owned(), workspace_uid.to_owned()),
                (label::WORKSPACE_NAME.to_owned(), workspace_name.to_owned()),
                (label::ORIGIN_URL.to_owned(), origin.to_owned()),
            ])),
            ..ObjectMeta::default()
        },
        spec: Some(claim_spec(size, mode, storage.and_then(|s| s.storage_class_name.clone()))),
        status: None,
    }
}

/// The claim of a named volume: owned by its instance, kept over stop and rebuild.
#[must_use]
pub fn volume_claim(
    namespace: &str,
    claim: &str,
    instance: &str,
    owner: OwnerReference,
) -> PersistentVolumeClaim {
    let mode: &'static str = AccessMode::ReadWriteOnce.into();
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels(Role::Environment, &[(label::INSTANCE, instance)])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(claim_spec(Quantity(DEFAULT_SIZE.into()), mode, None)),
        status: None,
    }
}

fn claim_spec(size: Quantity, mode: &str, class: Option<String>) -> PersistentVolumeClaimSpec {
    PersistentVolumeClaimSpec {
        access_modes: Some(vec![mode.to_owned()]),
        storage_class_name: class,
        resources: Some(VolumeResourceRequirements {
            requests: Some(BTreeMap::from([("storage".to_owned(), size)])),
            limits: None,
        }),
        ..PersistentVolumeClaimSpec::default()
    }
}

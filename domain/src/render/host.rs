//! The host runner of a workspace: a ContainerInstance that Drydock makes, with the operator's image and the workspace's claim.

use drydock_crds::container_instance::{ContainerInstance, ContainerInstanceSpec};
use drydock_crds::instance::{InstanceSpec, Mount};
use drydock_crds::label::{self, Role};
use drydock_crds::reference::LocalRef;
use drydock_crds::workspace::Owner;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::labels;
use crate::name::{HostScope, host_runner};

/// The host runner of `workspace`, owned by the Workspace.
#[must_use]
pub fn runner(
    namespace: &str,
    workspace: &str,
    owner: OwnerReference,
    files: Owner,
    image: &str,
) -> ContainerInstance {
    let folder = format!("/workspaces/{workspace}");
    ContainerInstance {
        metadata: ObjectMeta {
            name: Some(host_runner(workspace, HostScope::Workspace)),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels(Role::Host, &[(label::WORKSPACE, workspace)])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: ContainerInstanceSpec {
            image: image.to_owned(),
            user: Some(format!("{}:{}", files.uid, files.gid)),
            workspace_folder: Some(folder.clone()),
            instance: InstanceSpec {
                mounts: vec![Mount {
                    mount_path: folder,
                    workspace_ref: Some(LocalRef::new(workspace)),
                    ..Mount::default()
                }],
                ..InstanceSpec::default()
            },
            ..ContainerInstanceSpec::default()
        },
        status: None,
    }
}

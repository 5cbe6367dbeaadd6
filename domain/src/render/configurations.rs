//! The config map that keeps the configuration files of a workspace as they were scanned, so that a restarted controller needn't scan
//! again. Its owner is the Workspace.

use std::collections::BTreeMap;

use drydock_crds::label::{self, Role};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::labels;
use crate::name;

/// The name of the config map of a workspace.
#[must_use]
pub fn name_of(workspace_uid: &str) -> String {
    format!("{}-configurations", name::child(workspace_uid, Role::Checkout))
}

/// The key under which a configuration's file is kept.
#[must_use]
pub fn key_of(config_path: &str) -> String {
    name::digest(config_path, 40)
}

/// The config map with these files, by path.
#[must_use]
pub fn config_map(
    namespace: &str,
    workspace: (&str, &str),
    owner: OwnerReference,
    files: &BTreeMap<String, String>,
) -> ConfigMap {
    let (workspace_name, workspace_uid) = workspace;
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name_of(workspace_uid)),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels(Role::Checkout, &[(label::WORKSPACE, workspace_name)])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(files.iter().map(|(path, text)| (key_of(path), text.clone())).collect()),
        ..ConfigMap::default()
    }
}

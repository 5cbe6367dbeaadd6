//! Which features a configuration asks for, and whether each reference can name one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reader::{Node, Reader};
use crate::diagnostic::{Reason, quote};
use crate::discover::Place;
use crate::path;

/// Old names without a registry that the reference tool still knows.
pub const LEGACY_FEATURES: &[&str] = &[
    "aws-cli",
    "azure-cli",
    "common",
    "desktop-lite",
    "docker-from-docker",
    "docker-in-docker",
    "dotnet",
    "git",
    "git-lfs",
    "github-cli",
    "golang",
    "gradle",
    "java",
    "jupyterlab",
    "kubectl-helm-minikube",
    "maven",
    "node",
    "powershell",
    "python",
    "ruby",
    "rust",
    "sshd",
    "terraform",
];

/// A feature as a configuration asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeatureRequest {
    /// As written.
    pub reference: String,
    /// Where it is to be found.
    pub kind: FeatureKind,
    /// As written: an object, or a string, number, true or false in its place.
    pub options: Value,
}

/// Where a feature is to be found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FeatureKind {
    /// In a folder of the workspace.
    Local {
        /// From the root of the workspace.
        path: String,
    },
    /// In an archive at an `https` address.
    Tarball,
    /// In a registry.
    Registry,
    /// In a registry, by one of [`LEGACY_FEATURES`].
    Legacy,
}

/// The features in the order written.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node<'_>) -> Vec<FeatureRequest> {
    let Some(object) = reader.object(root, "features") else {
        return Vec::new();
    };
    let mut features = Vec::new();
    for (reference, node) in object.members() {
        if node.value.is_array() {
            reader.wrong_type(&node, "an object of options");
            continue;
        }
        if let Some(kind) = kind(reader, reference, &node) {
            features.push(FeatureRequest {
                reference: reference.to_owned(),
                kind,
                options: node.value.clone(),
            });
        }
    }
    features
}

fn kind(reader: &mut Reader<'_>, reference: &str, node: &Node<'_>) -> Option<FeatureKind> {
    if reference.starts_with("./") || reference.starts_with("../") {
        return local(reader, reference, node);
    }
    if reference.starts_with('/') {
        let message = format!("{} is an absolute path", quote(reference));
        reader.key_error(Reason::PathEscapesWorkspace, node, message, local_fix());
        return None;
    }
    if reference.starts_with("https://") {
        return Some(FeatureKind::Tarball);
    }
    if reference.contains("://") {
        let message = format!("{} isn't fetched: only https is", quote(reference));
        reader.key_error(
            Reason::UnresolvableFeature,
            node,
            message,
            "write an https address or a registry reference",
        );
        return None;
    }
    if LEGACY_FEATURES.contains(&reference) {
        let message = format!("{} is an old name", quote(reference));
        let fix = format!("write ghcr.io/devcontainers/features/{}:1", successor(reference));
        reader.hint(|reader| reader.key_error(Reason::Deprecated, node, message, fix));
        return Some(FeatureKind::Legacy);
    }
    if !reference.contains('/') {
        let message = format!(
            "the feature {} can't be resolved: it is neither a path nor a registry reference",
            quote(reference)
        );
        let fix = format!(
            "write {} for a folder beside this file, or REGISTRY/NAMESPACE/ID:VERSION",
            quote(&format!("./{reference}"))
        );
        reader.key_error(Reason::UnresolvableFeature, node, message, fix);
        return None;
    }
    Some(FeatureKind::Registry)
}

/// A local feature lies in the `.devcontainer` folder of the configuration's own folder (specification, `devcontainer-features`).
fn local(reader: &mut Reader<'_>, reference: &str, node: &Node<'_>) -> Option<FeatureKind> {
    let file = reader.file().to_owned();
    let directory = Place::of(&file).map_or_else(|| path::parent(&file).to_owned(), |place| place.directory);
    let home = path::join(&directory, ".devcontainer");
    match path::resolve(&file, reference) {
        Ok(path) if path != home && path::is_within(&path, &home) => Some(FeatureKind::Local { path }),
        _ => {
            let message = format!("{} isn't in the folder {}", quote(reference), quote(&home));
            reader.key_error(Reason::PathEscapesWorkspace, node, message, local_fix());
            None
        }
    }
}

fn local_fix() -> &'static str {
    "put the feature into .devcontainer and write its path from this file, beginning with ./"
}

fn successor(legacy: &str) -> &str {
    match legacy {
        "golang" => "go",
        "common" => "common-utils",
        "gradle" | "maven" => "java",
        "jupyterlab" => "python",
        same => same,
    }
}

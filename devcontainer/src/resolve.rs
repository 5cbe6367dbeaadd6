//! A configuration with every variable replaced that is known before its container exists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::{self, Config};
use crate::diagnostic::{Diagnostic, has_errors};
use crate::discover::Place;
use crate::jsonc::Document;
use crate::path::parent;
use crate::substitute::{Context, substitute_document};
use crate::workspace;

/// What a configuration is resolved with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Inputs {
    /// What the workspace is called: the last component of its default place.
    pub workspace_name: String,
    /// What `${localEnv:X}` may see.
    pub local_env: BTreeMap<String, String>,
    /// What `${localWorkspaceFolder}` is; absent: it stays as written.
    pub local_workspace_folder: Option<String>,
    /// What `${devcontainerId}` is; absent: it stays as written.
    pub devcontainer_id: Option<String>,
    /// A folder in the container that stands above the configuration's own `workspaceFolder`.
    pub workspace_folder: Option<String>,
}

/// A resolved configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// The document, variables replaced; `${containerEnv:X}` stays for a later pass.
    pub document: Document,
    /// The configuration; none where a diagnostic is an error.
    pub config: Option<Config>,
    /// The workspace's folder in the container; none where there is no configuration.
    pub workspace_folder: Option<String>,
    /// About the variables, then about the values.
    pub diagnostics: Vec<Diagnostic>,
}

/// Resolves the configuration that was read from `file`, its path from the root of the workspace.
#[must_use]
pub fn resolve(file: &str, document: &Document, inputs: &Inputs) -> Resolution {
    let context = Context {
        local_env: Some(inputs.local_env.clone()),
        local_workspace_folder: inputs.local_workspace_folder.clone(),
        container_workspace_folder: None,
        devcontainer_id: inputs.devcontainer_id.clone(),
        container_env: None,
    };
    let (written, diagnostics) = config::read(file, document);
    let Some(written) = written else {
        return Resolution { document: document.clone(), config: None, workspace_folder: None, diagnostics };
    };
    let directory = Place::of(file).map_or_else(|| parent(file).to_owned(), |place| place.directory);
    let folder = match inputs.workspace_folder.clone() {
        Some(folder) => folder,
        None => workspace::folder(&written, &inputs.workspace_name, &directory, &context),
    };
    let context = Context { container_workspace_folder: Some(folder.clone()), ..context };
    let (document, mut diagnostics) = substitute_document(file, document, &context);
    let failed = has_errors(&diagnostics);
    let (config, about_values) = config::read(file, &document);
    diagnostics.extend(about_values);
    let config = config.filter(|_| !failed);
    let workspace_folder = config.as_ref().map(|_| folder);
    Resolution { document, config, workspace_folder, diagnostics }
}

#[cfg(test)]
mod tests;

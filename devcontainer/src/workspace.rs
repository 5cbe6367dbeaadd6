//! Where the workspace is in the container.

use crate::config::{Config, Source};
use crate::path::join;
use crate::substitute::{Context, substitute_text};

/// Where a workspace of that name is mounted where the configuration says nothing: `/workspaces/NAME`.
#[must_use]
pub fn default_mount_target(workspace_name: &str) -> String {
    format!("/workspaces/{workspace_name}")
}

/// The workspace folder where the configuration says nothing: the folder that the configuration belongs to (`directory`, from the
/// root of the workspace), below [`default_mount_target`]. A compose configuration's is `/`, as the reference tool has it.
#[must_use]
pub fn default_folder(source: &Source, workspace_name: &str, directory: &str) -> String {
    match source {
        Source::Compose { .. } => "/".to_owned(),
        _ if directory.is_empty() => default_mount_target(workspace_name),
        _ => join(&default_mount_target(workspace_name), directory),
    }
}

/// The workspace folder: what the configuration says, its variables replaced once, else the default. A `workspaceFolder` that
/// names itself sees its own text as written, as in the reference tool.
#[must_use]
pub fn folder(config: &Config, workspace_name: &str, directory: &str, context: &Context) -> String {
    let written = match config.workspace_folder.as_deref() {
        Some(folder) if !folder.is_empty() => folder.to_owned(),
        _ => default_folder(&config.source, workspace_name, directory),
    };
    let context = Context { container_workspace_folder: Some(written.clone()), ..context.clone() };
    substitute_text(&written, &context).0
}

//! A `devcontainer.json` as types, with a diagnostic for whatever in it isn't as the specification says.
//!
//! What makes the container (source, environment, mounts, users, commands) has to be right, or there is no [`Config`]. What only
//! hints at tools (port attributes, secrets' descriptions, host requirements' GPU details) costs a warning and is left out. Unknown
//! keys are collected, never an error. `null` is the same as an absent property. Nothing is merged, defaulted or replaced here.

mod environment;
mod feature;
mod lifecycle;
mod mount;
mod port;
mod property;
mod reader;
mod requirement;
mod source;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::diagnostic::{Diagnostic, Reason, has_errors};
use crate::jsonc::{self, Document};
use crate::path::basename;

pub use environment::is_environment_name;
pub use feature::{FeatureKind, FeatureRequest, LEGACY_FEATURES};
pub use lifecycle::{Command, LifecycleCommand, LifecycleHook, NamedCommand};
pub use mount::{Mount, MountError, MountType};
pub use port::{AppPort, ForwardPort, OnAutoForward, PortAttributes, PortProtocol};
pub use property::{KNOWN_PROPERTIES, known_members};
use reader::{Node, Reader};
pub use requirement::{Gpu, HostRequirements, parse_bytes};
pub use source::{Build, Source};

/// A usable configuration. Fields are named and documented by the specification's properties; absent ones are `None` or empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// Where the container comes from.
    pub source: Source,
    /// For display.
    pub name: Option<String>,
    /// In the order written.
    pub features: Vec<FeatureRequest>,
    /// Feature ids without version.
    pub override_feature_install_order: Vec<String>,
    /// For every process of the container.
    pub container_env: IndexMap<String, String>,
    /// For tools and lifecycle commands; `None` unsets the variable.
    pub remote_env: IndexMap<String, Option<String>>,
    /// Who the container runs as; absent: the image's user.
    pub container_user: Option<String>,
    /// Who tools and lifecycle commands run as; absent: the container's user.
    pub remote_user: Option<String>,
    /// Absent: on.
    #[serde(rename = "updateRemoteUserUID")]
    pub update_remote_user_uid: Option<bool>,
    /// Absent: `LoginInteractiveShell`.
    pub user_env_probe: Option<UserEnvProbe>,
    /// Absent: true, for compose false.
    pub override_command: Option<bool>,
    /// A hint for tools.
    pub shutdown_action: Option<ShutdownAction>,
    /// Absent: false.
    pub init: Option<bool>,
    /// Absent: false.
    pub privileged: Option<bool>,
    /// Capabilities as written.
    pub cap_add: Vec<String>,
    /// Options as Docker has them.
    pub security_opt: Vec<String>,
    /// In the order written.
    pub mounts: Vec<Mount>,
    /// What is mounted as the workspace.
    pub workspace_mount: WorkspaceMount,
    /// As written; see [`workspace::folder`](crate::workspace::folder) for what it means.
    pub workspace_folder: Option<String>,
    /// Arguments of `docker run`; never of compose.
    pub run_args: Vec<String>,
    /// Old: published ports.
    pub app_port: Vec<AppPort>,
    /// Ports that tools can reach.
    pub forward_ports: Vec<ForwardPort>,
    /// By port, range, `host:port` or regular expression.
    pub ports_attributes: IndexMap<String, PortAttributes>,
    /// For every other port.
    pub other_ports_attributes: Option<PortAttributes>,
    /// What the container needs.
    pub host_requirements: Option<HostRequirements>,
    /// Recommended secrets, by the name of their environment variable.
    pub secrets: IndexMap<String, SecretHint>,
    /// The commands that are there, in the order in which they run.
    pub lifecycle: IndexMap<LifecycleHook, LifecycleCommand>,
    /// Absent: `UpdateContentCommand`.
    pub wait_for: Option<LifecycleHook>,
    /// By tool; the old `extensions`, `settings` and `devPort` are in it, under `vscode`.
    pub customizations: Map<String, Value>,
    /// Keys that the specification doesn't have, in the order written; at most [`MAX_UNKNOWN`].
    pub unknown: Vec<String>,
}

/// The most unknown keys that a configuration lists.
pub const MAX_UNKNOWN: usize = 100;

/// Which shell a user's environment is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UserEnvProbe {
    /// None.
    None,
    /// A login shell.
    LoginShell,
    /// An interactive shell.
    InteractiveShell,
    /// One that is both.
    LoginInteractiveShell,
}

/// What a tool does with the container when it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ShutdownAction {
    /// Nothing.
    None,
    /// Stops it.
    StopContainer,
    /// Stops all containers of the compose project.
    StopCompose,
}

/// What is mounted as the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkspaceMount {
    /// Nothing is said: the workspace at its default place.
    #[default]
    Default,
    /// The empty string: nothing.
    Nothing,
    /// This.
    Mount(Mount),
}

/// What a recommended secret is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretHint {
    /// For people.
    pub description: Option<String>,
    /// Where to read on.
    pub documentation_url: Option<String>,
}

/// What became of a file's bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The document; none where it isn't one.
    pub document: Option<Document>,
    /// The configuration; none where a diagnostic is an error.
    pub config: Option<Config>,
    /// In order of their place in the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a configuration from its bytes, variables as written. An empty file isn't an absent one: it is an error.
///
/// `file` is its path from the root of the workspace: diagnostics name it, and paths in it are relative to its folder.
#[must_use]
pub fn parse(file: &str, bytes: &[u8]) -> Reading {
    match jsonc::parse_object(bytes) {
        Ok(document) => {
            let (config, diagnostics) = read(file, &document);
            Reading { document: Some(document), config, diagnostics }
        }
        Err(error) => Reading { document: None, config: None, diagnostics: vec![error.diagnostic(file)] },
    }
}

/// Reads a configuration from its document. As long as variables aren't replaced in it, a value that needs them to be judged costs
/// a warning ([`Reason::UnresolvedVariable`]) and is left out.
///
/// The configuration is there if no diagnostic is an error.
#[must_use]
pub fn read(file: &str, document: &Document) -> (Option<Config>, Vec<Diagnostic>) {
    let mut reader = Reader::new(file, document);
    let root = Node::root(document);
    for duplicate in document.duplicates() {
        let name = duplicate.pointer.rsplit('/').next().unwrap_or_default();
        let message = format!("{} stands twice, the last one counts", crate::diagnostic::quote(name));
        reader.warn_at(
            Reason::DuplicateKey,
            &duplicate.pointer,
            duplicate.position,
            message,
            "remove one of them",
        );
    }
    let source = source::read(&mut reader, &root);
    let config = source.map(|source| properties(&mut reader, &root, source));
    let diagnostics = reader.finish();
    (config.filter(|_| !has_errors(&diagnostics)), diagnostics)
}

fn properties(reader: &mut Reader<'_>, root: &Node<'_>, source: Source) -> Config {
    Config {
        source,
        name: reader.hint(|reader| reader.string(root, "name")),
        features: feature::read(reader, root),
        override_feature_install_order: reader.strings(root, "overrideFeatureInstallOrder"),
        container_env: environment::container(reader, root, "containerEnv"),
        remote_env: environment::remote(reader, root, "remoteEnv"),
        container_user: reader.filled_string(root, "containerUser"),
        remote_user: reader.filled_string(root, "remoteUser"),
        update_remote_user_uid: reader.boolean(root, "updateRemoteUserUID"),
        user_env_probe: reader.choice(root, "userEnvProbe"),
        override_command: reader.boolean(root, "overrideCommand"),
        shutdown_action: reader.hint(|reader| reader.choice(root, "shutdownAction")),
        init: reader.boolean(root, "init"),
        privileged: reader.boolean(root, "privileged"),
        cap_add: reader.strings(root, "capAdd"),
        security_opt: reader.strings(root, "securityOpt"),
        mounts: mount::read(reader, root),
        workspace_mount: mount::read_workspace(reader, root),
        workspace_folder: workspace_folder(reader, root),
        run_args: reader.strings(root, "runArgs"),
        app_port: port::app_ports(reader, root),
        forward_ports: port::forward_ports(reader, root),
        ports_attributes: reader.hint(|reader| port::attributes(reader, root)),
        other_ports_attributes: reader.hint(|reader| port::other_attributes(reader, root)),
        host_requirements: requirement::read(reader, root),
        secrets: reader.hint(|reader| environment::secrets(reader, root)),
        lifecycle: lifecycle::read(reader, root),
        wait_for: lifecycle::wait_for(reader, root),
        customizations: customizations(reader, root),
        unknown: property::unknown(root.value).take(MAX_UNKNOWN).collect(),
    }
}

fn workspace_folder(reader: &mut Reader<'_>, root: &Node<'_>) -> Option<String> {
    let folder = reader.filled_string(root, "workspaceFolder")?;
    if reader.is_settled(&folder) && !folder.starts_with('/') {
        let node = root.member("workspaceFolder")?;
        let fix = format!("write an absolute path, such as /workspaces/{}", basename(&folder));
        reader.error(Reason::InvalidValue, &node, "expected an absolute path", fix);
        return None;
    }
    Some(folder)
}

/// With the old properties of one editor where they belong now, as the reference tool moves them.
fn customizations(reader: &mut Reader<'_>, root: &Node<'_>) -> Map<String, Value> {
    let mut all = reader
        .object(root, "customizations")
        .and_then(|node| node.value.as_object())
        .cloned()
        .unwrap_or_default();
    let extensions = reader.hint(|reader| reader.strings(root, "extensions"));
    let settings =
        reader.hint(|reader| reader.object(root, "settings")).and_then(|node| node.value.as_object());
    let dev_port = root.member("devPort").map(|node| node.value);
    if extensions.is_empty() && settings.is_none() && dev_port.is_none() {
        return all;
    }
    let editor = all.entry("vscode").or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(editor) = editor else { return all };
    if !extensions.is_empty() {
        let list = editor.entry("extensions").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.extend(extensions.into_iter().map(Value::String));
        }
    }
    if let Some(settings) = settings {
        let mut merged = settings.clone();
        if let Some(Value::Object(own)) = editor.get("settings") {
            merged.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        editor.insert("settings".to_owned(), Value::Object(merged));
    }
    if let Some(dev_port) = dev_port {
        editor.entry("devPort").or_insert_with(|| dev_port.clone());
    }
    all
}

#[cfg(test)]
mod tests;

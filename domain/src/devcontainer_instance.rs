//! What a DevcontainerInstance is made from: a `devcontainer.json` of a workspace.

use std::collections::{BTreeMap, BTreeSet};

use devcontainer::config::{Config, Mount, MountType, Source as ConfigSource, WorkspaceMount};
use devcontainer::diagnostic::Diagnostic;
use devcontainer::resolve::Inputs;
use devcontainer::substitute::devcontainer_id;
use devcontainer::unmapped::UnmappedReason;
use drydock_crds::condition::Reason;
use drydock_crds::devcontainer_instance::{DevcontainerInstanceSpec, Prebuild};
use drydock_crds::instance::{
    Coherence, DevcontainerStatus, FeatureStatus, MountStatus, Unmapped, VolumeStatus,
};
use drydock_crds::workspace::{Devcontainer, Problem};

use crate::blueprint::{
    Acceptance, Blueprint, ClaimFact, Objection, WorkspaceFact, add_mounts, literal_env, mount_tree,
    objection, unread_of_image,
};
use crate::name;
use crate::render::environment::{MountedVolume, VolumeSource};

/// The largest configuration that stands in the status as written, in bytes.
pub const MAX_CONFIG_IN_STATUS: usize = 16 << 10;

/// The properties that this version honours. What asks for a build is said by the failure of the build.
const HONOURED: [&str; 16] = [
    "$schema",
    "name",
    "image",
    "build",
    "dockerComposeFile",
    "service",
    "runServices",
    "features",
    "containerEnv",
    "containerUser",
    "customizations",
    "mounts",
    "remoteEnv",
    "remoteUser",
    "workspaceFolder",
    "workspaceMount",
];

/// What is known of what a DevcontainerInstance names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// The workspace that holds the configuration.
    pub workspace: WorkspaceFact,
    /// The configuration files that were kept, by path.
    pub files: BTreeMap<String, String>,
    /// Other workspaces that its mounts name.
    pub workspaces: BTreeMap<String, WorkspaceFact>,
    /// The claims that its mounts name.
    pub claims: BTreeMap<String, ClaimFact>,
}

/// Whether it could be started, and what would be.
#[must_use]
pub fn acceptance(uid: &str, spec: &DevcontainerInstanceSpec, source: &Source) -> Acceptance {
    let workspace = &source.workspace;
    let name = &spec.workspace_ref.name;
    if !workspace.exists {
        return Acceptance::Orphaned(Objection::new(
            Reason::WorkspaceGone,
            format!("Workspace {name} isn't there"),
        ));
    }
    if let Some(objection) = own_objection(spec) {
        return Acceptance::Refused(objection);
    }
    if !workspace.scanned {
        let message = format!("Workspace {name} isn't scanned yet");
        return Acceptance::Waiting(Objection::new(Reason::WaitingForReference, message));
    }
    let Some(found) = configuration(spec.config_path.as_deref(), &workspace.devcontainers) else {
        let path = spec.config_path.as_deref().unwrap_or(".");
        let message = format!("Workspace {name} has no configuration {path} at its present revision");
        return Acceptance::Refused(Objection::new(Reason::ConfigNotFound, message));
    };
    if let Some(problem) = &found.problem {
        return Acceptance::Refused(Objection::new(Reason::InvalidConfig, described(problem)));
    }
    let Some(text) = source.files.get(&found.config_path) else {
        let message = format!(
            "{} was scanned and its text isn't kept: ask for a rescan of Workspace {name}",
            found.config_path
        );
        return Acceptance::Waiting(Objection::new(Reason::WaitingForReference, message));
    };
    resolved(uid, spec, source, found, text)
}

/// The configuration that `path` (a file, or a folder, or nothing for the root) names.
#[must_use]
pub fn configuration<'a>(path: Option<&str>, found: &'a [Devcontainer]) -> Option<&'a Devcontainer> {
    let path = path.unwrap_or(".").trim_end_matches('/');
    let folder =
        path.strip_suffix("/.devcontainer").unwrap_or(if path == ".devcontainer" { "." } else { path });
    let exact = found.iter().find(|d| d.config_path == path);
    exact.or_else(|| first_of_folder(folder, found)).or_else(|| {
        let named = format!("{path}/devcontainer.json");
        found.iter().find(|d| d.config_path == named)
    })
}

/// The configuration of a folder that goes before the others: `.devcontainer/devcontainer.json`, `.devcontainer.json`, then the named
/// ones by name.
#[must_use]
pub fn first_of_folder<'a>(folder: &str, found: &'a [Devcontainer]) -> Option<&'a Devcontainer> {
    let rank = |d: &Devcontainer| match &d.config_name {
        None if !d.config_path.ends_with(".devcontainer.json") => (0, String::new()),
        None => (1, String::new()),
        Some(name) => (2, name.clone()),
    };
    found.iter().filter(|d| d.directory == folder).min_by_key(|d| rank(d))
}

fn own_objection(spec: &DevcontainerInstanceSpec) -> Option<Objection> {
    let by_reference =
        |e: &&drydock_crds::instance::EnvVar| e.secret_key_ref.is_some() || e.config_map_key_ref.is_some();
    let set = [
        ("spec.prebuild: OnDiscovery", spec.prebuild == Some(Prebuild::OnDiscovery)),
        ("spec.localEnv from a Secret or ConfigMap", spec.local_env.iter().any(|e| by_reference(&e))),
    ];
    let missing: Vec<&str> = set.iter().filter(|(_, is_set)| *is_set).map(|(field, _)| *field).collect();
    if !missing.is_empty() {
        let message = format!("not implemented in this version: {}", missing.join(", "));
        return Some(Objection::new(Reason::NotImplemented, message));
    }
    objection(&spec.instance)
}

fn resolved(
    uid: &str,
    spec: &DevcontainerInstanceSpec,
    source: &Source,
    found: &Devcontainer,
    text: &str,
) -> Acceptance {
    let reading = devcontainer::config::parse(&found.config_path, text.as_bytes());
    let Some(document) = reading.document else {
        return Acceptance::Refused(invalid(&reading.diagnostics));
    };
    let labels = BTreeMap::from([("drydock.dev/instance".to_owned(), uid.to_owned())]);
    let mount_root = devcontainer::workspace::default_mount_target(&source.workspace.name);
    let inputs = Inputs {
        workspace_name: source.workspace.name.clone(),
        local_env: spec
            .local_env
            .iter()
            .map(|e| (e.name.clone(), e.value.clone().unwrap_or_default()))
            .collect(),
        local_workspace_folder: Some(mount_root),
        devcontainer_id: Some(devcontainer_id(&labels)),
        workspace_folder: spec.workspace_folder.clone(),
    };
    let resolution = devcontainer::resolve::resolve(&found.config_path, &document, &inputs);
    let (Some(config), Some(folder)) = (resolution.config, resolution.workspace_folder) else {
        return Acceptance::Refused(invalid(&resolution.diagnostics));
    };
    let mut blueprint = base(spec, &config, &folder);
    let mut unmapped = unmapped(document.value(), blueprint.user.is_empty());
    let mounted = mount_workspace(&mut blueprint, spec, source, found, &config, &mut unmapped)
        .and_then(|()| add_mounts(&mut blueprint, &spec.instance.mounts, &source.workspaces, &source.claims));
    for mount in &config.mounts {
        mount_of_config(&mut blueprint, uid, mount, &mut unmapped);
    }
    unmapped.sort();
    unmapped.dedup();
    let status = status_of(found, text, &folder, document.value(), &config, unmapped);
    if let Err(acceptance) = mounted {
        return with_status(*acceptance, status);
    }
    blueprint.devcontainer = Some(status);
    Acceptance::Accepted(Box::new(blueprint))
}

fn base(spec: &DevcontainerInstanceSpec, config: &Config, folder: &str) -> Blueprint {
    let (image, needs_build) = match &config.source {
        ConfigSource::Image { image } if config.features.is_empty() => (image.clone(), None),
        ConfigSource::Image { image } => (image.clone(), Some("it has features".to_owned())),
        ConfigSource::Dockerfile(build) => {
            (String::new(), Some(format!("it has the Dockerfile {}", build.dockerfile)))
        }
        ConfigSource::Compose { .. } => (String::new(), Some("it is a compose configuration".to_owned())),
    };
    let user = config.remote_user.clone().or_else(|| config.container_user.clone()).unwrap_or_default();
    let own: Vec<(String, String)> = literal_env(&spec.instance).collect();
    let mut blueprint = Blueprint {
        image,
        needs_build,
        env: config.container_env.iter().map(|(k, v)| (k.clone(), v.clone())).chain(own).collect(),
        remote_env: config.remote_env.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        user,
        coherence: Some(Coherence::Transparent),
        ..Blueprint::default()
    };
    blueprint.context.workspace_folder = folder.to_owned();
    blueprint
}

/// Mounts the workspace where the configuration says, else at the specification's default place.
fn mount_workspace(
    blueprint: &mut Blueprint,
    spec: &DevcontainerInstanceSpec,
    source: &Source,
    found: &Devcontainer,
    config: &Config,
    unmapped: &mut Vec<Unmapped>,
) -> Result<(), Box<Acceptance>> {
    let sub_path = spec.workspace_sub_path.as_deref();
    let default = devcontainer::workspace::default_mount_target(&source.workspace.name);
    let target = match &config.workspace_mount {
        WorkspaceMount::Nothing => return Ok(()),
        WorkspaceMount::Default => root_for(spec, found).unwrap_or(default),
        WorkspaceMount::Mount(mount) if mount.mount_type == MountType::Bind => mount.target.clone(),
        WorkspaceMount::Mount(_) => {
            let reason = "only a bind of the workspace's own folder can be honoured; it is mounted at its default place";
            unmapped.push(Unmapped { property: "workspaceMount".into(), reason: reason.into() });
            default
        }
    };
    mount_tree(blueprint, &source.workspace, &target, sub_path, false)
}

/// Where the root must lie for the configuration's folder to be at `spec.workspaceFolder`; nothing where the folder doesn't end with it.
fn root_for(spec: &DevcontainerInstanceSpec, found: &Devcontainer) -> Option<String> {
    let folder = spec.workspace_folder.as_deref()?.trim_end_matches('/');
    let root = if found.directory == "." {
        folder
    } else {
        folder.strip_suffix(&format!("/{}", found.directory))?
    };
    (!root.is_empty()).then(|| root.to_owned())
}

fn mount_of_config(blueprint: &mut Blueprint, uid: &str, mount: &Mount, unmapped: &mut Vec<Unmapped>) {
    let (source, type_, volume) = match (mount.mount_type, &mount.source) {
        (MountType::Bind, _) => {
            let reason =
                "a bind of a folder of the host isn't possible on a cluster; use spec.mounts of the instance";
            unmapped.push(Unmapped { property: format!("mounts {}", mount.target), reason: reason.into() });
            return;
        }
        (MountType::Tmpfs, _) => (VolumeSource::Memory, "tmpfs", None),
        (MountType::Volume, None) => (VolumeSource::EmptyDir, "volume", None),
        (MountType::Volume, Some(name)) => {
            let claim = name::volume_claim(uid, name);
            (
                VolumeSource::Claim(claim.clone()),
                "volume",
                Some(VolumeStatus { name: name.clone(), claim_name: claim }),
            )
        }
    };
    for option in mount.options.keys() {
        let reason = "this option of a mount can't be honoured".to_owned();
        unmapped.push(Unmapped { property: format!("mounts {} {option}", mount.target), reason });
    }
    blueprint.mount_status.push(MountStatus {
        source: mount.source.clone().map_or_else(|| type_.to_owned(), |name| format!("volume/{name}")),
        target: mount.target.clone(),
        type_: type_.to_owned(),
        ..MountStatus::default()
    });
    if let Some(volume) = volume.filter(|v| !blueprint.volumes.contains(v)) {
        blueprint.volumes.push(volume);
    }
    blueprint.mounts.push(MountedVolume {
        path: mount.target.clone(),
        source,
        sub_path: None,
        read_only: mount.read_only,
    });
}

fn unmapped(config: &serde_json::Value, no_user: bool) -> Vec<Unmapped> {
    let honoured: BTreeSet<&str> = HONOURED.into_iter().collect();
    let of_config = devcontainer::unmapped::unmapped(config, &honoured);
    let mut list: Vec<Unmapped> = of_config
        .into_iter()
        .map(|u| {
            let reason = match u.reason {
                UnmappedReason::UnknownProperty => "UnknownProperty: the specification has no such property",
                _ => "NotImplemented: not honoured in this version",
            };
            Unmapped { property: u.property, reason: reason.to_owned() }
        })
        .collect();
    list.extend(unread_of_image(!no_user));
    list
}

fn status_of(
    found: &Devcontainer,
    text: &str,
    folder: &str,
    document: &serde_json::Value,
    config: &Config,
    unmapped: Vec<Unmapped>,
) -> DevcontainerStatus {
    let written = |property: &str| {
        let value = document.get(property)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(text.chars().take(1024).collect())
    };
    DevcontainerStatus {
        config: (text.len() <= MAX_CONFIG_IN_STATUS).then(|| text.to_owned()),
        config_digest: Some(name::digest(text, 64)),
        config_path: Some(found.config_path.clone()),
        workspace_folder: Some(folder.to_owned()),
        workspace_mount: written("workspaceMount"),
        features: config
            .features
            .iter()
            .take(200)
            .map(|f| FeatureStatus { id: f.reference.clone(), ..FeatureStatus::default() })
            .collect(),
        on_create_command: written("onCreateCommand"),
        update_content_command: written("updateContentCommand"),
        post_create_command: written("postCreateCommand"),
        post_start_command: written("postStartCommand"),
        post_attach_command: written("postAttachCommand"),
        remote_user: config.remote_user.clone().or_else(|| config.container_user.clone()),
        container_env: config.container_env.keys().take(256).cloned().collect(),
        remote_env: config.remote_env.keys().take(256).cloned().collect(),
        unmapped: unmapped.into_iter().take(128).collect(),
    }
}

fn with_status(acceptance: Acceptance, status: DevcontainerStatus) -> Acceptance {
    let add = |objection: Objection| Objection { devcontainer: Some(status), ..objection };
    match acceptance {
        Acceptance::Waiting(objection) => Acceptance::Waiting(add(objection)),
        Acceptance::Refused(objection) => Acceptance::Refused(add(objection)),
        other @ (Acceptance::Accepted(_) | Acceptance::Orphaned(_)) => other,
    }
}

fn invalid(diagnostics: &[Diagnostic]) -> Objection {
    let problem = problem_of(diagnostics).unwrap_or_default();
    Objection::new(Reason::InvalidConfig, described(&problem))
}

/// What makes a configuration unusable, from its diagnostics; nothing where it can be used.
#[must_use]
pub fn problem_of(diagnostics: &[Diagnostic]) -> Option<Problem> {
    let first = diagnostics.iter().find(|d| d.severity == devcontainer::Severity::Error)?;
    let fix = if first.fix.is_empty() { String::new() } else { format!(": {}", first.fix) };
    let pointer = if first.pointer.is_empty() { String::new() } else { format!("{}: ", first.pointer) };
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    Some(Problem {
        reason: Reason::InvalidConfig.to_string(),
        message: format!("{pointer}{}{fix}", first.message).chars().take(1024).collect(),
        file: Some(first.file.clone()),
        line: first.position.map(|p| number(p.line)),
        column: first.position.map(|p| number(p.column)),
    })
}

fn described(problem: &Problem) -> String {
    let place = match (&problem.file, problem.line, problem.column) {
        (Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}: "),
        (Some(file), _, _) => format!("{file}: "),
        _ => String::new(),
    };
    format!("{place}{}", problem.message)
}

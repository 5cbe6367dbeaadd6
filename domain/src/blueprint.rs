//! What an environment is made from: the answer of an instance's source to "what would be started?".
//!
//! The two instance kinds differ only here; what becomes of a blueprint is the same for both (`instance`).

use std::collections::BTreeMap;

use drydock_crds::condition::Reason;
use drydock_crds::instance::{
    Coherence, DesiredState, DevcontainerStatus, InstanceSpec, Mount, MountStatus, OnStop, Unmapped,
    VolumeStatus,
};
use drydock_crds::workspace::Devcontainer;
use serde::{Deserialize, Serialize};

use crate::render::SharedClaim;
use crate::render::environment::{MountedVolume, VolumeSource};

/// The annotation of environment pods that holds their [`RunContext`] as JSON.
pub const RUN_CONTEXT: &str = "drydock.dev/run-context";

/// What is to be started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blueprint {
    /// Image of the tool container.
    pub image: String,
    /// Why the image must be built first.
    pub needs_build: Option<String>,
    /// Literal variables of the container, in order.
    pub env: Vec<(String, String)>,
    /// Variables of tools, which may name `${containerEnv:X}`; `None` takes one away.
    pub remote_env: Vec<(String, Option<String>)>,
    /// User that tools run as; empty: root.
    pub user: String,
    /// What is mounted.
    pub mounts: Vec<MountedVolume>,
    /// The same for the status.
    pub mount_status: Vec<MountStatus>,
    /// Claims of named volumes that must be there.
    pub volumes: Vec<VolumeStatus>,
    /// Claims that others may mount too.
    pub shared_claims: Vec<SharedClaim>,
    /// Where things are in it.
    pub context: RunContext,
    /// Whether it shares the workspace's tree.
    pub coherence: Option<Coherence>,
    /// What the configuration says, of a dev container.
    pub devcontainer: Option<DevcontainerStatus>,
}

/// Where things are in an environment. It stands on the pod, so that a run is told what holds in the pod that runs, whatever became
/// of the configuration since.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RunContext {
    /// The folder that tools start in.
    pub workspace_folder: String,
    /// Where the trees of workspaces are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workspaces: BTreeMap<String, TreePlace>,
}

/// Where the tree of a workspace is.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TreePlace {
    /// Where it is mounted.
    pub path: String,
    /// The folder of the tree that is mounted there; empty: all of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sub_path: String,
}

/// Whether an instance could be started.
#[derive(Clone, Debug, PartialEq)]
pub enum Acceptance {
    /// It could.
    Accepted(Box<Blueprint>),
    /// It can't yet: something it names isn't there or isn't ready.
    Waiting(Objection),
    /// It can't, until a person changes something.
    Refused(Objection),
    /// What it belongs to is gone.
    Orphaned(Objection),
}

impl Acceptance {
    /// The blueprint, if it could be started.
    #[must_use]
    pub fn blueprint(&self) -> Option<&Blueprint> {
        match self {
            Self::Accepted(blueprint) => Some(blueprint),
            Self::Waiting(_) | Self::Refused(_) | Self::Orphaned(_) => None,
        }
    }
}

/// Why an instance can't be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Objection {
    /// One word.
    pub reason: Reason,
    /// What is wrong and how to mend it.
    pub message: String,
    /// What is known of the configuration all the same.
    pub devcontainer: Option<DevcontainerStatus>,
}

impl Objection {
    /// An objection.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), devcontainer: None }
    }
}

/// What is known of a workspace that an instance names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkspaceFact {
    /// Its name.
    pub name: String,
    /// Whether it is there.
    pub exists: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The claim that holds its tree, once it is checked out.
    pub claim: Option<SharedClaim>,
    /// The folder of the claim that is the tree.
    pub tree_path: String,
    /// Whether it has a checkout that could be mounted.
    pub mountable: bool,
    /// Whether Drydock writes nothing to it.
    pub checked_out: bool,
    /// Whether it was scanned.
    pub scanned: bool,
    /// The configurations found in it.
    pub devcontainers: Vec<Devcontainer>,
}

/// What is known of a claim that an instance names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFact {
    /// The claim.
    pub claim: SharedClaim,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// The fields of the shared block that this version doesn't carry out.
#[must_use]
pub fn not_implemented(spec: &InstanceSpec) -> Vec<&'static str> {
    let set = [
        ("spec.onStop: Hibernate", spec.on_stop == Some(OnStop::Hibernate)),
        ("spec.runsWaitFor", spec.runs_wait_for.is_some()),
        ("spec.restoreFrom", spec.restore_from.is_some()),
        ("spec.cloneInto", !spec.clone_into.is_empty()),
        ("spec.ports", !spec.ports.is_empty()),
        ("spec.gitCredentials", !spec.git_credentials.is_empty()),
    ];
    set.iter().filter(|(_, is_set)| *is_set).map(|(field, _)| *field).collect()
}

/// The objection to a shared block, if there is one.
#[must_use]
pub fn objection(spec: &InstanceSpec) -> Option<Objection> {
    let missing = not_implemented(spec);
    if !missing.is_empty() {
        let message = format!("not implemented in this version: {}", missing.join(", "));
        return Some(Objection::new(Reason::NotImplemented, message));
    }
    let host_path = spec.mounts.iter().find_map(|m| m.host_path.as_ref());
    host_path.map(|h| {
        let message = format!(
            "the mount of the node's folder {} isn't allowed: the operator's policy.hostPath is off",
            h.path
        );
        Objection::new(Reason::PolicyDenied, message)
    })
}

/// The literal variables of the shared block; those from Secrets and config maps go to tools alone.
pub fn literal_env(spec: &InstanceSpec) -> impl Iterator<Item = (String, String)> + '_ {
    let literal =
        |e: &&drydock_crds::instance::EnvVar| e.secret_key_ref.is_none() && e.config_map_key_ref.is_none();
    spec.env.iter().filter(literal).map(|e| (e.name.clone(), e.value.clone().unwrap_or_default()))
}

/// Whether the spec asks for the environment to run.
#[must_use]
pub fn desired(spec: &InstanceSpec) -> DesiredState {
    spec.desired_state.unwrap_or_default()
}

/// Mounts the tree of a workspace, or says why that isn't possible.
///
/// # Errors
/// [`Acceptance::Waiting`] while the workspace isn't there or isn't checked out, [`Acceptance::Refused`] where it has no claim.
pub fn mount_tree(
    blueprint: &mut Blueprint,
    workspace: &WorkspaceFact,
    path: &str,
    sub_path: Option<&str>,
    read_only: bool,
) -> Result<(), Box<Acceptance>> {
    let name = &workspace.name;
    if !workspace.exists {
        let message = format!("Workspace {name} isn't there");
        return Err(Box::new(Acceptance::Waiting(Objection::new(Reason::ReferenceNotFound, message))));
    }
    if !workspace.mountable {
        let message = format!("Workspace {name} has no claim that could be mounted: it has checkout: None");
        return Err(Box::new(Acceptance::Refused(Objection::new(Reason::NotMountable, message))));
    }
    let Some(claim) = workspace.claim.clone().filter(|_| workspace.checked_out) else {
        let message = format!("Workspace {name} isn't checked out yet");
        return Err(Box::new(Acceptance::Waiting(Objection::new(Reason::WaitingForReference, message))));
    };
    let inner = [workspace.tree_path.as_str(), sub_path.unwrap_or_default()];
    let inner = inner.iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>().join("/");
    blueprint.mounts.push(MountedVolume {
        path: path.to_owned(),
        source: VolumeSource::Claim(claim.name.clone()),
        sub_path: (!inner.is_empty()).then_some(inner),
        read_only,
    });
    blueprint.mount_status.push(MountStatus {
        source: format!("workspace/{name}"),
        target: path.to_owned(),
        type_: "workspace".into(),
        coherence: Some(Coherence::Transparent),
        ..MountStatus::default()
    });
    if !blueprint.shared_claims.contains(&claim) {
        blueprint.shared_claims.push(claim);
    }
    let place = TreePlace { path: path.to_owned(), sub_path: sub_path.unwrap_or_default().to_owned() };
    blueprint.context.workspaces.entry(name.clone()).or_insert(place);
    Ok(())
}

/// Adds the mounts of the shared block.
///
/// # Errors
/// As [`mount_tree`]; [`Acceptance::Waiting`] while a claim isn't there.
pub fn add_mounts(
    blueprint: &mut Blueprint,
    mounts: &[Mount],
    workspaces: &BTreeMap<String, WorkspaceFact>,
    claims: &BTreeMap<String, ClaimFact>,
) -> Result<(), Box<Acceptance>> {
    for mount in mounts {
        let read_only = mount.read_only.unwrap_or_default();
        let sub_path = mount.sub_path.as_deref();
        if let Some(reference) = &mount.workspace_ref {
            let missing = WorkspaceFact { name: reference.name.clone(), ..WorkspaceFact::default() };
            let workspace = workspaces.get(&reference.name).unwrap_or(&missing);
            mount_tree(blueprint, workspace, &mount.mount_path, sub_path, read_only)?;
        } else if let Some(source) = &mount.persistent_volume_claim {
            mount_claim(blueprint, claims.get(&source.claim_name), &source.claim_name, mount)?;
        } else if let Some(folder) = &mount.empty_dir {
            let memory = folder.medium.is_some();
            push(
                blueprint,
                mount,
                if memory { VolumeSource::Memory } else { VolumeSource::EmptyDir },
                "volume",
            );
        }
    }
    Ok(())
}

fn mount_claim(
    blueprint: &mut Blueprint,
    fact: Option<&ClaimFact>,
    name: &str,
    mount: &Mount,
) -> Result<(), Box<Acceptance>> {
    let Some(fact) = fact else {
        let message = format!("PersistentVolumeClaim {name} isn't there");
        return Err(Box::new(Acceptance::Waiting(Objection::new(Reason::ClaimNotFound, message))));
    };
    if fact.deleting {
        let message = format!("PersistentVolumeClaim {name} is being deleted");
        return Err(Box::new(Acceptance::Waiting(Objection::new(Reason::ClaimPending, message))));
    }
    push(blueprint, mount, VolumeSource::Claim(name.to_owned()), "claim");
    if !blueprint.shared_claims.contains(&fact.claim) {
        blueprint.shared_claims.push(fact.claim.clone());
    }
    Ok(())
}

fn push(blueprint: &mut Blueprint, mount: &Mount, source: VolumeSource, type_: &str) {
    let name = match &source {
        VolumeSource::Claim(name) => format!("claim/{name}"),
        VolumeSource::EmptyDir => "emptyDir".into(),
        VolumeSource::Memory => "tmpfs".into(),
    };
    blueprint.mounts.push(MountedVolume {
        path: mount.mount_path.clone(),
        source,
        sub_path: mount.sub_path.clone(),
        read_only: mount.read_only.unwrap_or_default(),
    });
    blueprint.mount_status.push(MountStatus {
        source: name,
        target: mount.mount_path.clone(),
        type_: type_.to_owned(),
        ..MountStatus::default()
    });
}

/// What this version never reads of an image, so that nobody relies on it.
#[must_use]
pub fn unread_of_image(user_is_set: bool) -> Vec<Unmapped> {
    let later = "image metadata isn't read in this version";
    let mut list = vec![("image.entrypoint", later.to_owned()), ("image.metadata", later.to_owned())];
    if !user_is_set {
        list.push(("image.user", format!("{later}: tools run as root; set remoteUser or containerUser")));
    }
    list.into_iter().map(|(property, reason)| Unmapped { property: property.to_owned(), reason }).collect()
}

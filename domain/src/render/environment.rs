//! The pod of an environment: the tool container with the agent as PID 1, and an init container that puts the agent there.

use std::collections::BTreeMap;

use drydock_crds::instance::InstanceSpec;
use drydock_crds::label::{self, Role};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, EnvVar, LocalObjectReference,
    PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sha2::{Digest, Sha256};

use super::{
    AGENT_FOLDER, AGENT_PATH, AGENT_PORT, AGENT_STATE, AGENT_VOLUME, SharedClaim, claim_affinity,
    helper_resources, labels,
};
use super::{pod_security, root_with};
use crate::pod::MAIN_CONTAINER;
use crate::settings::{Installation, Settings};

/// What the agent in a dev container must be able to do: switch users, own files, end processes, and what `sudo` and package
/// managers take. All of it is in Pod Security `baseline`.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Everything an environment pod is rendered from.
#[derive(Clone, Debug)]
pub struct Environment<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Kind of the instance.
    pub kind: &'a str,
    /// Name of the instance.
    pub instance: &'a str,
    /// `environment` or `host`.
    pub role: Role,
    /// Name of the pod.
    pub name: String,
    /// The instance.
    pub owner: OwnerReference,
    /// Name of the workspace, where there is one.
    pub workspace: Option<&'a str>,
    /// Image of the tool container.
    pub image: &'a str,
    /// Literal variables of the container.
    pub env: Vec<(String, String)>,
    /// Folder that tools start in.
    pub workspace_folder: &'a str,
    /// What is mounted.
    pub mounts: Vec<MountedVolume>,
    /// Claims that others may mount too.
    pub shared_claims: Vec<SharedClaim>,
    /// The shared block of the instance.
    pub spec: &'a InstanceSpec,
}

/// A volume with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct MountedVolume {
    /// Absolute path in the environment.
    pub path: String,
    /// What is mounted.
    pub source: VolumeSource,
    /// Folder within it.
    pub sub_path: Option<String>,
    /// Whether writing is refused.
    pub read_only: bool,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeSource {
    /// A claim by name.
    Claim(String),
    /// A folder that lives as long as the pod.
    EmptyDir,
    /// A tmpfs.
    Memory,
}

/// The pod. Its label [`label::INPUTS`] is the digest of everything it is rendered from but the names of pod and owner.
#[must_use]
pub fn pod(environment: &Environment<'_>, settings: &Settings, installation: &Installation) -> Pod {
    let (claim_labels, affinity) = claim_affinity(&environment.shared_claims);
    let (volumes, mounts) = volumes(environment);
    let spec = PodSpec {
        init_containers: Some(vec![install(installation)]),
        containers: vec![tool_container(environment, settings, installation, mounts)],
        volumes: Some(volumes),
        restart_policy: Some("Never".into()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        host_users: (!settings.environments.host_users).then_some(false),
        security_context: Some(pod_security()),
        termination_grace_period_seconds: Some(15),
        affinity,
        node_selector: (!environment.spec.node_selector.is_empty())
            .then(|| environment.spec.node_selector.clone()),
        tolerations: (!environment.spec.tolerations.is_empty()).then(|| environment.spec.tolerations.clone()),
        runtime_class_name: environment
            .spec
            .runtime_class_name
            .clone()
            .or_else(|| settings.environments.runtime_class_name.clone()),
        image_pull_secrets: (!environment.spec.image_pull_secrets.is_empty()).then(|| {
            let secrets = environment.spec.image_pull_secrets.iter();
            secrets.map(|s| LocalObjectReference { name: s.name.clone() }).collect()
        }),
        ..PodSpec::default()
    };
    let mut labels = labels(
        environment.role,
        &[
            (label::INSTANCE_KIND, environment.kind),
            (label::INSTANCE, environment.instance),
            (label::WORKSPACE, environment.workspace.unwrap_or_default()),
        ],
    );
    labels.extend(claim_labels);
    labels.insert(label::INPUTS.into(), inputs_digest(&spec));
    Pod {
        metadata: ObjectMeta {
            name: Some(environment.name.clone()),
            namespace: Some(environment.namespace.to_owned()),
            labels: Some(labels),
            annotations: Some(annotations()),
            owner_references: Some(vec![environment.owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

/// A running environment is no candidate for consolidation, and to GitOps tools it is no failure that it never ends.
fn annotations() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("cluster-autoscaler.kubernetes.io/safe-to-evict".to_owned(), "false".to_owned()),
        ("argocd.argoproj.io/ignore-restart-policy".to_owned(), "true".to_owned()),
    ])
}

/// Digest of a pod's spec: 40 hex digits, stable as long as the spec serialises the same.
#[must_use]
pub fn inputs_digest(spec: &PodSpec) -> String {
    let json = serde_json::to_vec(spec).unwrap_or_default();
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(&json) {
        hex.push_str(&format!("{byte:02x}"));
    }
    hex.truncate(40);
    hex
}

fn install(installation: &Installation) -> Container {
    Container {
        name: "agent".into(),
        image: Some(installation.tools_image.clone()),
        image_pull_policy: installation.pull_policy.clone(),
        command: Some(vec![
            "drydock-agent".into(),
            "install".into(),
            "--to".into(),
            format!("{AGENT_FOLDER}/bin"),
        ]),
        volume_mounts: Some(vec![agent_mount()]),
        resources: Some(helper_resources("64Mi")),
        security_context: Some(root_with(&[])),
        ..Container::default()
    }
}

fn tool_container(
    environment: &Environment<'_>,
    settings: &Settings,
    installation: &Installation,
    mut mounts: Vec<VolumeMount>,
) -> Container {
    let mut env: Vec<EnvVar> = environment.env.iter().map(|(name, value)| literal(name, value)).collect();
    env.extend([
        literal("DRYDOCK_CLIENT_CA", &installation.client_ca),
        literal("DRYDOCK_PORT", &AGENT_PORT.to_string()),
        literal("DRYDOCK_DIR", AGENT_STATE),
        literal("DRYDOCK_WORKSPACE_FOLDER", environment.workspace_folder),
    ]);
    mounts.push(agent_mount());
    Container {
        name: MAIN_CONTAINER.into(),
        image: Some(environment.image.to_owned()),
        command: Some(vec![AGENT_PATH.into(), "supervise".into()]),
        args: Some(Vec::new()),
        env: Some(env),
        ports: Some(vec![ContainerPort {
            name: Some("drydock-agent".into()),
            container_port: AGENT_PORT,
            protocol: Some("TCP".into()),
            ..ContainerPort::default()
        }]),
        resources: environment.spec.resources.clone().or_else(|| settings.environments.resources.clone()),
        volume_mounts: Some(mounts),
        security_context: Some(root_with(&CAPABILITIES)),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        ..Container::default()
    }
}

fn literal(name: &str, value: &str) -> EnvVar {
    // The kubelet expands `$(NAME)` in values; `$$` is how it is told not to.
    EnvVar { name: name.to_owned(), value: Some(value.replace("$(", "$$(")), value_from: None }
}

fn agent_mount() -> VolumeMount {
    VolumeMount { name: AGENT_VOLUME.into(), mount_path: AGENT_FOLDER.into(), ..VolumeMount::default() }
}

/// Volumes are named by their position, so that any number of places may share one claim.
fn volumes(environment: &Environment<'_>) -> (Vec<Volume>, Vec<VolumeMount>) {
    let mut volumes = vec![Volume {
        name: AGENT_VOLUME.into(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }];
    let mut named: BTreeMap<VolumeSource, String> = BTreeMap::new();
    let mut mounts = Vec::new();
    for mount in &environment.mounts {
        let shared = matches!(mount.source, VolumeSource::Claim(_))
            .then(|| named.get(&mount.source).cloned())
            .flatten();
        let name = shared.unwrap_or_else(|| {
            let name = format!("volume-{}", volumes.len());
            volumes.push(volume(&name, &mount.source));
            named.insert(mount.source.clone(), name.clone());
            name
        });
        mounts.push(VolumeMount {
            name,
            mount_path: mount.path.clone(),
            sub_path: mount.sub_path.clone(),
            read_only: mount.read_only.then_some(true),
            ..VolumeMount::default()
        });
    }
    (volumes, mounts)
}

fn volume(name: &str, source: &VolumeSource) -> Volume {
    let mut volume = Volume { name: name.to_owned(), ..Volume::default() };
    match source {
        VolumeSource::Claim(claim) => {
            volume.persistent_volume_claim =
                Some(PersistentVolumeClaimVolumeSource { claim_name: claim.clone(), read_only: None });
        }
        VolumeSource::EmptyDir => volume.empty_dir = Some(EmptyDirVolumeSource::default()),
        VolumeSource::Memory => {
            volume.empty_dir = Some(EmptyDirVolumeSource {
                medium: Some("Memory".into()),
                ..EmptyDirVolumeSource::default()
            });
        }
    }
    volume
}

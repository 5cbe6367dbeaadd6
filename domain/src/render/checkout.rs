//! The pod that checks a source tree out and scans it. It runs no code of the repository; its stdout is one JSON document.

use drydock_crds::label::{self, Role};
use drydock_protocol::checkout::{CheckoutSpec, SPEC_ENV};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, PersistentVolumeClaimVolumeSource, Pod, PodSpec,
    SecretVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{CLAIM_FOLDER, SharedClaim, claim_affinity, labels, pod_security, root_with};
use crate::name;
use crate::pod::MAIN_CONTAINER;
use crate::settings::Installation;

/// Where the pod sees the credential's files.
pub const CREDENTIALS_FOLDER: &str = "/credentials";

/// Everything a checkout pod is rendered from.
#[derive(Clone, Debug)]
pub struct Checkout<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// The workspace: name and uid.
    pub workspace: (&'a str, &'a str),
    /// The Workspace.
    pub owner: OwnerReference,
    /// Identifies what is asked for; stands in the label [`label::INPUTS`].
    pub ask: &'a str,
    /// What the pod is to do.
    pub spec: &'a CheckoutSpec,
    /// The claim that holds the tree, with the folder within it, and whether it is only read.
    pub claim: Option<TreeClaim>,
    /// The Secret with git's credential.
    pub secret: Option<&'a str>,
    /// How long the pod may take, in seconds.
    pub deadline_seconds: i64,
}

/// The claim that holds a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeClaim {
    /// The claim.
    pub claim: SharedClaim,
    /// Folder within it.
    pub sub_path: Option<String>,
    /// Whether it is only read.
    pub read_only: bool,
}

/// The pod.
#[must_use]
pub fn pod(checkout: &Checkout<'_>, installation: &Installation) -> Pod {
    let (workspace, uid) = checkout.workspace;
    let claims: Vec<SharedClaim> = checkout.claim.iter().map(|c| c.claim.clone()).collect();
    let (claim_labels, affinity) = claim_affinity(&claims);
    let (volumes, mounts) = volumes(checkout);
    let mut labels = labels(Role::Checkout, &[(label::WORKSPACE, workspace), (label::INPUTS, checkout.ask)]);
    labels.extend(claim_labels);
    Pod {
        metadata: ObjectMeta {
            name: Some(name::child(uid, Role::Checkout)),
            namespace: Some(checkout.namespace.to_owned()),
            labels: Some(labels),
            owner_references: Some(vec![checkout.owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![container(checkout, installation, mounts)],
            volumes: Some(volumes),
            restart_policy: Some("Never".into()),
            active_deadline_seconds: Some(checkout.deadline_seconds),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            security_context: Some(pod_security()),
            termination_grace_period_seconds: Some(2),
            affinity,
            ..PodSpec::default()
        }),
        status: None,
    }
}

fn container(checkout: &Checkout<'_>, installation: &Installation, mounts: Vec<VolumeMount>) -> Container {
    Container {
        name: MAIN_CONTAINER.into(),
        image: Some(installation.tools_image.clone()),
        image_pull_policy: installation.pull_policy.clone(),
        command: Some(vec!["drydock-agent".into(), "checkout".into()]),
        env: Some(vec![EnvVar {
            name: SPEC_ENV.into(),
            value: Some(serde_json::to_string(checkout.spec).unwrap_or_default().replace("$(", "$$(")),
            value_from: None,
        }]),
        volume_mounts: Some(mounts),
        security_context: Some(root_with(&[
            "CHOWN",
            "DAC_OVERRIDE",
            "FOWNER",
            "FSETID",
            "KILL",
            "SETGID",
            "SETUID",
        ])),
        termination_message_policy: Some("File".into()),
        ..Container::default()
    }
}

fn volumes(checkout: &Checkout<'_>) -> (Vec<Volume>, Vec<VolumeMount>) {
    let mut volumes = vec![Volume {
        name: "scratch".into(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }];
    let mut mounts =
        vec![VolumeMount { name: "scratch".into(), mount_path: "/tmp".into(), ..VolumeMount::default() }];
    if let Some(tree) = &checkout.claim {
        volumes.push(Volume {
            name: "claim".into(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: tree.claim.name.clone(),
                read_only: None,
            }),
            ..Volume::default()
        });
        mounts.push(VolumeMount {
            name: "claim".into(),
            mount_path: CLAIM_FOLDER.into(),
            sub_path: tree.sub_path.clone(),
            read_only: tree.read_only.then_some(true),
            ..VolumeMount::default()
        });
    }
    if let Some(secret) = checkout.secret {
        volumes.push(Volume {
            name: "credentials".into(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.to_owned()),
                default_mode: Some(0o400),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        });
        mounts.push(VolumeMount {
            name: "credentials".into(),
            mount_path: CREDENTIALS_FOLDER.into(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
    }
    (volumes, mounts)
}

//! The children that Drydock makes, rendered as values: pods, claims, config maps, host runners.
//!
//! Pod specs are built from our own structs alone; no fragment that a user wrote is merged into them.

pub mod checkout;
pub mod claim;
pub mod configurations;
pub mod environment;
pub mod host;

use std::collections::BTreeMap;

use drydock_crds::label;
use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, PodAffinity, PodAffinityTerm, PodSecurityContext, ResourceRequirements,
    SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::name;

/// Where the agent lies in every environment pod.
pub const AGENT_FOLDER: &str = "/.drydock";
/// The agent itself.
pub const AGENT_PATH: &str = "/.drydock/bin/drydock-agent";
/// The agent's own folder: socket, journal, output of runs. It is on an emptyDir.
pub const AGENT_STATE: &str = "/.drydock/agent";
/// Name of the volume that holds the agent.
pub const AGENT_VOLUME: &str = "drydock-agent";
/// The port of the agent's TLS endpoint.
pub const AGENT_PORT: i32 = 41443;
/// Where a checkout pod sees the claim.
pub const CLAIM_FOLDER: &str = "/claim";

/// A claim that a pod mounts and others may mount too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedClaim {
    /// Name of the claim.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether only one node at a time can mount it.
    pub single_node: bool,
}

/// The labels of everything that is made for a workspace.
#[must_use]
pub fn labels(role: label::Role, pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (label::MANAGED_BY.to_owned(), label::MANAGER.to_owned()),
        (label::ROLE.to_owned(), role.as_str().to_owned()),
    ]);
    labels
        .extend(pairs.iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| ((*k).to_owned(), label_value(v))));
    labels
}

/// A text as the value of a label: itself where it may be one, else its digest.
#[must_use]
pub fn label_value(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let fits = text.len() <= 63
        && text.chars().all(allowed)
        && edge(text.chars().next())
        && edge(text.chars().last());
    if fits { text.to_owned() } else { name::digest(text, 40) }
}

/// The labels that make the scheduler count pods of a claim, and the affinity that keeps them on one node: one required term for each
/// claim that only one node at a time can mount.
#[must_use]
pub fn claim_affinity(claims: &[SharedClaim]) -> (BTreeMap<String, String>, Option<Affinity>) {
    let single: Vec<&SharedClaim> = claims.iter().filter(|c| c.single_node).collect();
    let key = |c: &SharedClaim| format!("{}{}", label::CLAIM_PREFIX, c.uid);
    let labels = single.iter().map(|c| (key(c), "true".to_owned())).collect();
    let terms: Vec<PodAffinityTerm> = single
        .iter()
        .map(|c| PodAffinityTerm {
            label_selector: Some(LabelSelector {
                match_expressions: Some(vec![LabelSelectorRequirement {
                    key: key(c),
                    operator: "Exists".into(),
                    values: None,
                }]),
                match_labels: None,
            }),
            topology_key: "kubernetes.io/hostname".into(),
            ..PodAffinityTerm::default()
        })
        .collect();
    let affinity = (!terms.is_empty()).then(|| Affinity {
        pod_affinity: Some(PodAffinity {
            required_during_scheduling_ignored_during_execution: Some(terms),
            ..PodAffinity::default()
        }),
        ..Affinity::default()
    });
    (labels, affinity)
}

/// The pod-level security of everything Drydock makes.
fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

/// Root with a short, fixed list of capabilities: what switching users, owning files and ending processes takes (Pod Security
/// `baseline`).
fn root_with(capabilities: &[&str]) -> SecurityContext {
    SecurityContext {
        run_as_user: Some(0),
        run_as_group: Some(0),
        run_as_non_root: Some(false),
        privileged: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".into()]),
            add: Some(capabilities.iter().map(|c| (*c).to_owned()).collect()),
        }),
        ..SecurityContext::default()
    }
}

/// Small fixed resources of helper containers.
fn helper_resources(memory: &str) -> ResourceRequirements {
    let quantities = |cpu: Option<&str>| {
        let mut map = BTreeMap::from([("memory".to_owned(), Quantity(memory.to_owned()))]);
        if let Some(cpu) = cpu {
            map.insert("cpu".into(), Quantity(cpu.into()));
        }
        Some(map)
    };
    ResourceRequirements {
        requests: quantities(Some("10m")),
        limits: quantities(None),
        ..ResourceRequirements::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_claims_of_a_single_node_bring_affinity() {
        let claim =
            |uid: &str, single_node| SharedClaim { name: format!("c-{uid}"), uid: uid.into(), single_node };
        let (labels, affinity) = claim_affinity(&[claim("a", true), claim("b", false)]);
        assert_eq!(labels.keys().collect::<Vec<_>>(), ["claim.drydock.dev/a"]);
        let terms = affinity
            .unwrap()
            .pod_affinity
            .unwrap()
            .required_during_scheduling_ignored_during_execution
            .unwrap();
        assert_eq!(terms.len(), 1);
        assert_eq!(claim_affinity(&[claim("b", false)]).1, None);
    }

    #[test]
    fn a_label_value_is_the_text_or_its_digest() {
        assert_eq!(label_value("services-api"), "services-api");
        assert_eq!(label_value("a b").len(), 40);
        assert_eq!(label_value("-a").len(), 40);
        assert_eq!(label_value(&"a".repeat(64)).len(), 40);
    }
}

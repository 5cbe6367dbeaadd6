//! What becomes of a Project: what it links is there, or isn't.

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::project::{Project, ProjectSpec, ProjectStatus, Resource};
use jiff::Timestamp;

use crate::condition::{Conditions, Truth};
use crate::decision::{Decision, Wake};
use crate::reference::unresolved;

/// Everything a Project is decided by.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object.
    pub project: Project,
    /// For each of its resources, in order: whether it exists.
    pub exists: Vec<bool>,
    /// When it was observed.
    pub now: Timestamp,
}

/// Decides.
#[must_use]
pub fn decide(seen: &Observed) -> Decision<ProjectStatus> {
    let generation = seen.project.metadata.generation.unwrap_or_default();
    let present = seen.project.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&present.conditions, generation, seen.now);
    let (resolved, missing) = sorted(&seen.project.spec, &seen.exists);
    let unsupported = not_implemented(&seen.project.spec);
    let mut wake = Wake::OnChange;
    if !unsupported.is_empty() {
        let message = format!("not implemented in this version: {}", unsupported.join(", "));
        conditions.set(ConditionType::Accepted, Truth::False, Reason::NotImplemented, message.clone());
        conditions.stalled(Reason::NotImplemented, message);
    } else if missing.is_empty() {
        conditions.set(ConditionType::Accepted, Truth::True, Reason::Accepted, "the project is valid");
        conditions.ready(Reason::Accepted, format!("{} resources are linked", resolved.len()));
    } else {
        let names: Vec<String> = missing.iter().map(|r| format!("{} {}", r.kind, r.name)).collect();
        let message = format!("not found in this namespace: {}", names.join(", "));
        let present = &present.conditions;
        wake =
            unresolved(&mut conditions, present, generation, seen.now, Reason::ReferenceNotFound, &message);
    }
    let status =
        ProjectStatus { observed_generation: generation, resolved, missing, conditions: conditions.finish() };
    Decision { wake, ..Decision::status(status) }
}

fn sorted(spec: &ProjectSpec, exists: &[bool]) -> (Vec<Resource>, Vec<Resource>) {
    let known = exists.iter().copied().chain(std::iter::repeat(false));
    let (there, gone): (Vec<_>, Vec<_>) =
        spec.resources.iter().cloned().zip(known).partition(|(_, exists)| *exists);
    let plain = |list: Vec<(Resource, bool)>| list.into_iter().map(|(r, _)| r).collect();
    (plain(there), plain(gone))
}

fn not_implemented(spec: &ProjectSpec) -> Vec<&'static str> {
    let Some(host) = &spec.host else { return Vec::new() };
    let set = [
        ("spec.host.image", host.image.is_some()),
        ("spec.host.resources", host.resources.is_some()),
        ("spec.host.nodeSelector", !host.node_selector.is_empty()),
        ("spec.host.tolerations", !host.tolerations.is_empty()),
        ("spec.host.runtimeClassName", host.runtime_class_name.is_some()),
    ];
    set.iter().filter(|(_, is_set)| *is_set).map(|(field, _)| *field).collect()
}

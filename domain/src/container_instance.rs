//! What a ContainerInstance is made from: an image.

use std::collections::BTreeMap;

use drydock_crds::condition::Reason;
use drydock_crds::container_instance::ContainerInstanceSpec;

use crate::blueprint::{
    Acceptance, Blueprint, ClaimFact, Objection, WorkspaceFact, add_mounts, literal_env, objection,
};

/// The folder that tools start in where the spec names none.
pub const DEFAULT_FOLDER: &str = "/workspace";

/// What is known of what a ContainerInstance names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// The workspaces that its mounts name.
    pub workspaces: BTreeMap<String, WorkspaceFact>,
    /// The claims that its mounts name.
    pub claims: BTreeMap<String, ClaimFact>,
}

/// Whether it could be started, and what would be.
#[must_use]
pub fn acceptance(spec: &ContainerInstanceSpec, source: &Source) -> Acceptance {
    let ContainerInstanceSpec { image, command, args, user, workspace_folder, instance } = spec;
    if !command.is_empty() || !args.is_empty() {
        let message = "not implemented in this version: spec.command, spec.args (the agent runs alone)";
        return Acceptance::Refused(Objection::new(Reason::NotImplemented, message));
    }
    if let Some(objection) = objection(instance) {
        return Acceptance::Refused(objection);
    }
    let mut blueprint = Blueprint {
        image: image.clone(),
        env: literal_env(instance).collect(),
        user: user.clone().unwrap_or_default(),
        ..Blueprint::default()
    };
    blueprint.context.workspace_folder =
        workspace_folder.clone().unwrap_or_else(|| DEFAULT_FOLDER.to_owned());
    match add_mounts(&mut blueprint, &instance.mounts, &source.workspaces, &source.claims) {
        Ok(()) => Acceptance::Accepted(Box::new(blueprint)),
        Err(objection) => *objection,
    }
}

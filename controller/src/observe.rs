//! What each kind reads before it is decided upon, and which changes wake it: one file a kind.

mod claim;
mod container_instance;
mod devcontainer_instance;
mod execution_environment;
mod instance;
mod plan;
mod project;
mod snapshot;
mod tool;
mod tool_run;
mod workspace;

use domain::settings::{Installation, Settings};
use drydock_domain as domain;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::context::Context;
use crate::reconcile::Loops;

pub use claim::RetainedClaims;
pub use container_instance::ContainerInstances;
pub use devcontainer_instance::DevcontainerInstances;
pub use execution_environment::ExecutionEnvironments;
pub use plan::Plans;
pub use project::Projects;
pub use snapshot::Snapshots;
pub use tool::Tools;
pub use tool_run::ToolRuns;
pub use workspace::Workspaces;

/// The namespace of an object; every kind here has one.
fn namespace(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().unwrap_or_default()
}

/// The name of an object.
fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// The uid of an object.
fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

/// The settings in force in the namespace of an object.
fn settings(context: &Context, meta: &ObjectMeta) -> Settings {
    context.configuration().of(namespace(meta)).clone()
}

/// What the controller was installed with.
fn installation(context: &Context) -> Installation {
    context.installation.clone()
}

/// Names every kind, so that its loop is started.
pub fn kinds(loops: &mut Loops<'_>) {
    loops.add::<Workspaces>();
    loops.add::<DevcontainerInstances>();
    loops.add::<ContainerInstances>();
    loops.add::<ExecutionEnvironments>();
    loops.add::<Projects>();
    loops.add::<Plans>();
    loops.add::<Tools>();
    loops.add::<ToolRuns>();
    loops.add::<Snapshots>();
    loops.add::<RetainedClaims>();
}

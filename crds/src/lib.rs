//! API types of `drydock.dev/v1alpha1`.
//!
//! One file a kind; what two kinds share has a file of its own (`instance`, `reference`). Field documentation is what `kubectl
//! explain` prints, so it is written for users. The crate holds no client and decides nothing: `drydock-domain` does.

#![expect(
    unreachable_pub,
    reason = "the schema derive copies each struct into a function, where `pub` reaches nowhere"
)]

pub mod condition;
pub mod container_instance;
pub mod devcontainer_instance;
pub mod execution_environment;
pub mod instance;
pub mod label;
pub mod pattern;
pub mod plan;
pub mod project;
pub mod reference;
pub mod rule;
pub mod schema;
pub mod snapshot;
pub mod tool;
pub mod tool_run;
pub mod workspace;

pub use condition::{ConditionType, Reason};
pub use container_instance::{ContainerInstance, ContainerInstanceSpec};
pub use devcontainer_instance::{DevcontainerInstance, DevcontainerInstanceSpec};
pub use execution_environment::{ExecutionEnvironment, ExecutionEnvironmentSpec, ExecutionEnvironmentStatus};
pub use instance::{InstanceSpec, InstanceStatus, ProvisioningState};
pub use plan::{Plan, PlanSpec, PlanStatus};
pub use project::{Project, ProjectSpec, ProjectStatus};
pub use snapshot::{Snapshot, SnapshotSpec, SnapshotStatus};
pub use tool::{Tool, ToolSpec, ToolStatus};
pub use tool_run::{Outcome, ToolRun, ToolRunSpec, ToolRunStatus};
pub use workspace::{Workspace, WorkspaceSpec, WorkspaceStatus};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The API group of every kind.
pub const GROUP: &str = "drydock.dev";
/// The served and stored version.
pub const VERSION: &str = "v1alpha1";
/// The longest name of an object of ours, in bytes: names become label values and parts of host names.
pub const MAX_NAME: usize = 63;

/// All nine definitions as they are installed, in the order in which a person reads them.
///
/// # Errors
/// When a derived schema has a shape that [`schema::definition`] doesn't know; the tests of this crate rule it out.
pub fn definitions() -> Result<Vec<CustomResourceDefinition>, schema::SchemaError> {
    Ok(vec![
        schema::definition::<Workspace>()?,
        schema::definition::<DevcontainerInstance>()?,
        schema::definition::<ContainerInstance>()?,
        schema::definition::<ExecutionEnvironment>()?,
        schema::definition::<Project>()?,
        schema::definition::<Plan>()?,
        schema::definition::<Tool>()?,
        schema::definition::<ToolRun>()?,
        schema::definition::<Snapshot>()?,
    ])
}

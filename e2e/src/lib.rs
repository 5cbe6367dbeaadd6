//! End-to-end: Drydock on a real cluster, installed as a user installs it, through its chart alone.
//!
//! [`Drydock::install`] builds the programs, makes the two images, pushes them to the cluster's registry and installs the chart with the
//! built `helm`. The tests and the demo share it.

pub mod binaries;
pub mod cli;
pub mod drydock;
pub mod fault;
pub mod scene;
pub mod step;

pub use binaries::Binaries;
pub use drydock::Drydock;
pub use scene::Scene;

//! The built `kubectl`, for what this crate itself asks of an API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use crate::{Result, command, tools};

/// `kubectl` with one cluster's kubeconfig.
#[derive(Clone, Debug)]
pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    cache: Option<PathBuf>,
}

impl Kubectl {
    /// `cache` holds what was discovered; none is the user's own, which is keyed by address and so would mix up the
    /// clusters that one address has in turn.
    pub(crate) fn new(kubeconfig: &Path, cache: Option<PathBuf>) -> Result<Self> {
        Ok(Self { program: tools::KUBECTL.path()?, kubeconfig: kubeconfig.to_owned(), cache })
    }

    /// A command to add arguments to.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        if let Some(cache) = &self.cache {
            command.arg("--cache-dir").arg(cache);
        }
        command
    }

    /// Runs `kubectl ARGUMENTS` and returns what it printed.
    pub(crate) async fn run(&self, arguments: &[&str], deadline: Duration) -> Result<String> {
        let mut command = self.command();
        command.args(arguments);
        command::run(command, deadline).await
    }

    /// Applies documents, server-side.
    pub(crate) async fn apply(&self, documents: &str) -> Result<()> {
        let mut command = self.command();
        command.args(["apply", "--server-side", "--force-conflicts", "-f", "-"]);
        command::run_with_input(command, documents, Duration::from_secs(30)).await.map(drop)
    }

    /// Whether the API server says that it is ready; its answer if not.
    pub(crate) async fn ready(&self) -> std::result::Result<(), String> {
        let asked = self.run(&["get", "--raw=/readyz", "--request-timeout=3s"], Duration::from_secs(5)).await;
        asked.map(drop).map_err(|error| error.to_string())
    }
}

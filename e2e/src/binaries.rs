//! The programs that go into the images, and the plugin: built once, statically, for the pods' architecture.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::process::Command;

use crate::step::heartbeat;

/// The target of everything that runs in pods.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// The packages, whose programs have their names.
const PACKAGES: [&str; 3] = ["drydock-agent", "drydock-controller", "kubectl-drydock"];

/// Paths of the built programs.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// `drydock-agent`.
    pub agent: PathBuf,
    /// `drydock-controller`.
    pub controller: PathBuf,
    /// `kubectl-drydock`.
    pub plugin: PathBuf,
}

impl Binaries {
    /// Builds what isn't built, saying every few seconds that it still does. `DRYDOCK_BINARIES` names a folder that has them already.
    ///
    /// # Errors
    /// When the build fails; the compiler's messages are on stderr.
    pub async fn build() -> Result<Self> {
        if let Some(folder) = std::env::var_os("DRYDOCK_BINARIES").map(PathBuf::from) {
            let [agent, controller, plugin] = PACKAGES.map(|name| folder.join(name));
            return Ok(Self { agent, controller, plugin });
        }
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(repository()).args(["build", "--locked", "--profile", "image", "--target", TARGET]);
        cargo.args(["--message-format", "json-render-diagnostics", "--quiet"]);
        for package in PACKAGES {
            cargo.args(["--package", package]);
        }
        cargo.stdout(Stdio::piped()).stderr(Stdio::inherit()).stdin(Stdio::null());
        let output =
            heartbeat("building the programs", cargo.output()).await.context("cargo can't be started")?;
        if !output.status.success() {
            bail!("cargo build failed: {}", output.status);
        }
        let built = executables(&output.stdout);
        let find = |name: &str| {
            let path = built.iter().find(|p| p.file_name().is_some_and(|f| f == name));
            path.cloned().with_context(|| format!("cargo built no {name}"))
        };
        Ok(Self {
            agent: find("drydock-agent")?,
            controller: find("drydock-controller")?,
            plugin: find("kubectl-drydock")?,
        })
    }
}

/// The root of the repository.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn executables(messages: &[u8]) -> Vec<PathBuf> {
    let lines = messages.split(|b| *b == b'\n');
    let values = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    values.filter_map(|v| v["executable"].as_str().map(PathBuf::from)).collect()
}

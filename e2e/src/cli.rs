//! The plugin in a scene's namespace, and environments for it to run in.

use std::process::Stdio;

use anyhow::{Context, Result};
use drydock_crds::ToolRun;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::process::{Child, Command};

use crate::Scene;
use crate::scene::cluster;

/// What a program wrote and how it ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Its stdout, byte for byte.
    pub stdout: Vec<u8>,
    /// Its stderr.
    pub stderr: String,
}

impl Ran {
    /// Stdout as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Scene {
    /// Applies a ContainerInstance of an image, with further fields of its spec.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn container(&self, name: &str, image: &str, more: Value) -> Result<()> {
        let mut spec = json!({"image": image});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        self.apply(json!({"kind": "ContainerInstance", "metadata": {"name": name}, "spec": spec})).await?;
        Ok(())
    }

    /// A standard image of the cluster's, as pods name it.
    ///
    /// # Errors
    /// When it can't be made.
    pub async fn standard_image(&self, name: &str) -> Result<String> {
        Ok(cluster().await?.image(name).await?.tagged)
    }

    /// The plugin's command line in the namespace; it is killed when its handle is dropped.
    #[must_use]
    pub fn plugin_command(&self, arguments: &[&str]) -> Command {
        let mut plugin = self.drydock.plugin_command();
        plugin.args(["-n", &self.namespace]).args(arguments);
        plugin
    }

    /// The plugin, whatever its exit code.
    ///
    /// # Errors
    /// When it can't be started.
    pub async fn plugin(&self, arguments: &[&str]) -> Result<Ran> {
        ended(self.plugin_command(arguments).output().await?)
    }

    /// The plugin with its output in pipes.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start_plugin(&self, arguments: &[&str]) -> Result<Child> {
        let mut plugin = self.plugin_command(arguments);
        plugin.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(plugin.spawn()?)
    }

    /// `kubectl` in the namespace; its stdout.
    ///
    /// # Errors
    /// When it fails, with its stderr.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.drydock.kubectl(&[&["-n", &self.namespace], arguments].concat()).await
    }
}

/// What a finished process left.
///
/// # Errors
/// When its stderr isn't text.
pub fn ended(output: std::process::Output) -> Result<Ran> {
    Ok(Ran {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).context("stderr isn't UTF-8")?,
    })
}

/// Where a run goes to an instance by name.
#[must_use]
pub fn to(instance: &str) -> Value {
    json!({"specific": {"name": instance}})
}

/// A run's outcome as the API writes it; empty without one.
#[must_use]
pub fn outcome(run: &ToolRun) -> String {
    run.status.as_ref().and_then(|s| s.outcome).map(|o| o.to_string()).unwrap_or_default()
}

/// The SHA-256 of bytes as the status writes it.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

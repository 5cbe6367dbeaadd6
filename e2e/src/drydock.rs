//! Drydock in a cluster: images, chart, and the plugin as a user runs it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use anyhow::{Context, Result, bail};
use drydock_cluster::{Cluster, ImageBuild, ImageFile, ImageReference, tools};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::process::Command;

use crate::binaries::{Binaries, repository};

/// The namespace of the operator.
pub const NAMESPACE: &str = "drydock-system";
/// The name of the release.
pub const RELEASE: &str = "drydock";

/// An installed Drydock.
#[derive(Clone, Debug)]
pub struct Drydock {
    /// The programs.
    pub binaries: Binaries,
    /// The kubeconfig of the cluster.
    pub kubeconfig: PathBuf,
    /// The image with the agent.
    pub agent_image: ImageReference,
    /// The image of the controller.
    pub controller_image: ImageReference,
}

impl Drydock {
    /// Builds, pushes and installs. `values` are further values of the chart, as `--set-json` takes them.
    ///
    /// # Errors
    /// What fails first, with what it printed.
    pub async fn install(cluster: &Cluster, values: &[(&str, &str)]) -> Result<Self> {
        let drydock = Self::load(cluster).await?;
        drydock.upgrade(values).await?;
        Ok(drydock)
    }

    /// Builds and pushes; installs nothing yet.
    ///
    /// # Errors
    /// What fails first, with what it printed.
    pub async fn load(cluster: &Cluster) -> Result<Self> {
        let binaries = Binaries::build().await?;
        let file = |source: &PathBuf, target: &str| ImageFile {
            source: source.clone(),
            target: target.into(),
            mode: 0o755,
        };
        let agent_image = cluster
            .push_image(ImageBuild {
                name: "drydock/agent".into(),
                base: Some("deb".into()),
                files: vec![file(&binaries.agent, "/usr/local/bin/drydock-agent")],
                user: Some("0".into()),
                ..ImageBuild::default()
            })
            .await
            .context("the agent's image can't be made")?;
        let controller_image = cluster
            .push_image(ImageBuild {
                name: "drydock/controller".into(),
                files: vec![file(&binaries.controller, "/drydock-controller")],
                user: Some("65532:65532".into()),
                entrypoint: vec!["/drydock-controller".into()],
                ..ImageBuild::default()
            })
            .await
            .context("the controller's image can't be made")?;
        Ok(Self { binaries, kubeconfig: cluster.kubeconfig().to_owned(), agent_image, controller_image })
    }

    /// Installs or upgrades the chart.
    ///
    /// # Errors
    /// When helm fails, with what it printed.
    pub async fn upgrade(&self, values: &[(&str, &str)]) -> Result<()> {
        let mut set: BTreeMap<String, String> = BTreeMap::new();
        for (image, key) in [(&self.agent_image, "agent"), (&self.controller_image, "controller")] {
            let (registry, repository) = split(&image.node)?;
            set.insert(format!("{key}.image.registry"), format!("\"{registry}\""));
            set.insert(format!("{key}.image.repository"), format!("\"{repository}\""));
            set.insert(format!("{key}.image.digest"), format!("\"{}\"", image.digest));
        }
        set.extend(values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let mut helm = self.command(&tools::HELM.path()?);
        helm.current_dir(repository());
        helm.args([
            "upgrade",
            "--install",
            RELEASE,
            "charts/drydock",
            "--namespace",
            NAMESPACE,
            "--create-namespace",
        ]);
        helm.args(["--wait", "--timeout", "120s"]);
        for (key, value) in &set {
            helm.args(["--set-json", &format!("{key}={value}")]);
        }
        checked(helm.output().await?, "helm upgrade").map(drop)
    }

    /// Uninstalls the chart.
    ///
    /// # Errors
    /// When helm fails, with what it printed.
    pub async fn uninstall(&self) -> Result<String> {
        let mut helm = self.command(&tools::HELM.path()?);
        helm.args(["uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "120s"]);
        checked(helm.output().await?, "helm uninstall")
    }

    /// `kubectl` with these arguments; its stdout.
    ///
    /// # Errors
    /// When it fails, with its stderr.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut kubectl = self.command(&tools::KUBECTL.path()?);
        kubectl.current_dir(repository()).args(arguments);
        checked(kubectl.output().await?, &format!("kubectl {}", arguments.join(" ")))
    }

    /// The plugin with these arguments, whatever its exit code.
    ///
    /// # Errors
    /// When it can't be started.
    pub async fn plugin(&self, arguments: &[&str]) -> Result<Output> {
        let mut plugin = self.command(&self.binaries.plugin);
        plugin.args(arguments);
        Ok(plugin.output().await?)
    }

    /// The plugin as a command with the cluster's kubeconfig.
    #[must_use]
    pub fn plugin_command(&self) -> Command {
        self.command(&self.binaries.plugin)
    }

    /// A client with the rights of the kubeconfig.
    ///
    /// # Errors
    /// When the kubeconfig can't be used.
    pub async fn client(&self) -> Result<kube::Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(kube::Client::try_from(config)?)
    }

    fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new(program);
        command.env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null()).kill_on_drop(true);
        command
    }
}

/// `REGISTRY/NAME@DIGEST` without the digest, in two.
fn split(reference: &str) -> Result<(&str, &str)> {
    let name = reference.split_once('@').map_or(reference, |(name, _)| name);
    name.split_once('/').context("an image's reference names its registry")
}

fn checked(output: Output, what: &str) -> Result<String> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{what}: {}\n{}{stdout}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(stdout)
}

//! The cluster that the environment asks for.
//!
//! `DRYDOCK_CLUSTER` is `local` (the default: a cluster of this machine's own), `kind` (a kind cluster that runs) or
//! `current` (whatever the user's kubeconfig points at). The last two need `DRYDOCK_REGISTRY` for tests that push images:
//! `PUSH` or `PUSH,PULL`, each `HOST:PORT`, where PUSH is plain HTTP from here and PULL is what nodes and pods use.

use std::env;
use std::path::{Path, PathBuf};

use crate::command::{command, run};
use crate::kubectl::Kubectl;
use crate::options::Options;
use crate::registry::Registry;
use crate::{Error, Result, tools};

use super::Cluster;

impl Cluster {
    /// The cluster of `DRYDOCK_CLUSTER`. For `local`, the running cluster of that name, else a new one as `options` say,
    /// which ends with this process's value; `options` mean nothing to the others.
    pub async fn from_environment(options: Options) -> Result<Self> {
        let asked = env::var("DRYDOCK_CLUSTER").unwrap_or_default();
        match asked.as_str() {
            "" | "local" => match Self::attach(&options.name) {
                Err(Error::NotRunning { .. }) => Self::start(options).await,
                attached => attached,
            },
            "kind" => Self::kind().await,
            "current" => Self::of_others("current", user_kubeconfig()?).await,
            other => Err(Error::invalid(format!("DRYDOCK_CLUSTER={other}: use local, kind or current"))),
        }
    }

    async fn kind() -> Result<Self> {
        let name = env::var("KIND_CLUSTER_NAME").unwrap_or_else(|_| "kind".to_owned());
        let asked = command(["kind", "get", "kubeconfig", "--name", &name]);
        let kubeconfig = run(asked, std::time::Duration::from_secs(30)).await?;
        let path = crate::layout::cache("kind")?.join(format!("{name}.kubeconfig"));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        }
        crate::pki::write_private(&path, &kubeconfig)?;
        Self::of_others(&name, path).await
    }

    async fn of_others(name: &str, kubeconfig: PathBuf) -> Result<Self> {
        tools::build(&[tools::KUBECTL]).await?;
        let kubectl = Kubectl::new(&kubeconfig, None)?;
        kubectl.ready().await.map_err(|reason| {
            Error::invalid(format!("the cluster of {} does not answer: {reason}", kubeconfig.display()))
        })?;
        let registry = env::var("DRYDOCK_REGISTRY").ok().as_deref().map(registry_of).transpose()?;
        Ok(Self { name: name.to_owned(), kubeconfig, kubectl, registry, local: None })
    }
}

fn registry_of(setting: &str) -> Result<Registry> {
    let (push, pull) = setting.split_once(',').unwrap_or((setting, setting));
    if push.is_empty() || pull.is_empty() || setting.contains("://") {
        return Err(Error::invalid(format!(
            "DRYDOCK_REGISTRY={setting}: use PUSH or PUSH,PULL, each HOST:PORT"
        )));
    }
    Ok(Registry { host: push.to_owned(), node: pull.to_owned(), pod: pull.to_owned() })
}

fn user_kubeconfig() -> Result<PathBuf> {
    let set = env::var("KUBECONFIG").ok().and_then(|list| list.split(':').next().map(PathBuf::from));
    let path = set.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config")));
    path.filter(|path| path.exists()).ok_or_else(|| {
        Error::invalid("DRYDOCK_CLUSTER=current needs a kubeconfig: set KUBECONFIG, or write ~/.kube/config")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_one_address_or_two() {
        let one = registry_of("localhost:5001").unwrap();
        assert_eq!((one.host.as_str(), one.node.as_str()), ("localhost:5001", "localhost:5001"));
        let two = registry_of("localhost:5001,kind-registry:5000").unwrap();
        assert_eq!((two.host.as_str(), two.pod.as_str()), ("localhost:5001", "kind-registry:5000"));
        assert!(registry_of("https://registry.example").is_err());
        assert!(registry_of("localhost:5001,").is_err());
    }
}

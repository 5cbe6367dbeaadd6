//! Where things lie on disk. Decides paths only; never reads or writes them.

use std::env;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The folder of one cluster, `${XDG_STATE_HOME:-~/.local/state}/drydock/clusters/NAME`.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    root: PathBuf,
    name: String,
}

impl Layout {
    /// The folder of the cluster `name`; a name is a DNS label of 20 characters at most.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 20 || name.starts_with('-') || !name.chars().all(allowed) {
            return Err(Error::invalid(format!(
                "`{name}` is no name for a cluster: use 1 to 20 of a-z, 0-9 and -, not starting with -"
            )));
        }
        Ok(Self { root: clusters()?.join(name), name: name.to_owned() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.root.join("cluster.json")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    pub(crate) fn kubectl_cache(&self) -> PathBuf {
        self.root.join("kubectl-cache")
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    pub(crate) fn processes(&self) -> PathBuf {
        self.root.join("processes")
    }

    pub(crate) fn log(&self, component: &str) -> PathBuf {
        self.root.join("logs").join(format!("{component}.log"))
    }

    pub(crate) fn node(&self, node: u8) -> PathBuf {
        self.root.join(format!("node-{node}"))
    }

    /// Held by whoever brings the cluster up or down; outside the folder, which goes with the cluster.
    pub(crate) fn lock(&self) -> PathBuf {
        self.root.with_extension("lock")
    }

    /// The cgroup of a node, below the root of every hierarchy.
    pub(crate) fn cgroup(&self, node: u8) -> String {
        format!("drydock-{}-{node}", self.name)
    }

    /// The name of a node: a Kubernetes object name.
    pub(crate) fn node_name(&self, node: u8) -> String {
        format!("{}-{node}", self.name)
    }
}

/// The folder of all clusters.
pub(crate) fn clusters() -> Result<PathBuf> {
    Ok(base("XDG_STATE_HOME", ".local/state")?.join("clusters"))
}

/// The names of all clusters that left a folder, sorted.
pub(crate) fn cluster_names() -> Result<Vec<String>> {
    let folder = clusters()?;
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return Ok(Vec::new());
    };
    let mut names: Vec<String> = entries
        .filter_map(std::result::Result::ok)
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

/// A folder of the cache, `${XDG_CACHE_HOME:-~/.cache}/drydock/PART`.
pub(crate) fn cache(part: &str) -> Result<PathBuf> {
    Ok(base("XDG_CACHE_HOME", ".cache")?.join(part))
}

fn base(variable: &str, below_home: &str) -> Result<PathBuf> {
    let set = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set(variable)
        .or_else(|| set("HOME").map(|home| home.join(below_home)))
        .map(|base| base.join("drydock"))
        .ok_or_else(|| Error::invalid(format!("neither HOME nor {variable} names a folder")))
}

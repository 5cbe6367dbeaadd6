//! A running cluster as its users see it.

mod environment;
mod faults;
mod images;
mod start;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::report;
use crate::kubectl::Kubectl;
use crate::layout::{self, Layout};
use crate::options::Options;
use crate::process::Process;
use crate::record::{Record, node_address};
use crate::registry::Registry;
use crate::teardown::{self, Keep};
use crate::{Error, Result};

pub use images::standard_images;

/// A cluster that runs.
///
/// One that this process started ends when it is dropped, unless [`keep`](Self::keep) was called; one that was
/// [attached](Self::attach) to goes on.
#[derive(Debug)]
pub struct Cluster {
    name: String,
    kubeconfig: PathBuf,
    kubectl: Kubectl,
    registry: Option<Registry>,
    local: Option<Local>,
}

/// What belongs to a cluster of this machine.
#[derive(Debug)]
struct Local {
    layout: Layout,
    record: Record,
    owned: bool,
}

impl Cluster {
    /// Starts a cluster and returns when it is usable: the API server is ready and, with nodes, those are too.
    ///
    /// Builds the programs first where they are missing. Replaces what a killed run of the same name left; refuses the
    /// name of a cluster that runs. A failure takes everything down again but the logs.
    pub async fn start(options: Options) -> Result<Self> {
        Self::start_as(options, true).await
    }

    /// As [`start`](Self::start), for a cluster that outlives this process.
    pub async fn start_kept(options: Options) -> Result<Self> {
        Self::start_as(options, false).await
    }

    /// The running cluster `name`, started by whomever.
    pub fn attach(name: &str) -> Result<Self> {
        let layout = Layout::new(name)?;
        let record = Record::load(&layout).filter(|record| record.ready && runs(&layout));
        let record = record.ok_or_else(|| Error::NotRunning { name: name.to_owned() })?;
        Self::local(layout, record, false)
    }

    /// Lets the cluster outlive this value and this process.
    pub fn keep(&mut self) -> Result<()> {
        let Some(local) = &mut self.local else {
            return Ok(());
        };
        local.owned = false;
        local.record.owner = None;
        local.record.save(&local.layout)
    }

    /// Takes the cluster down, attached to or not, and waits until nothing of it is left. Does nothing to a cluster of somebody else's making
    /// (`kind`, `current`).
    pub async fn stop(mut self) -> Result<()> {
        let Some(local) = self.local.take() else {
            return Ok(());
        };
        take_down(local.layout).await
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The administrator's kubeconfig, complete in itself.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The components that were started and whether each is alive, sorted by name. None of a cluster of others.
    pub fn components(&self) -> Vec<(String, bool)> {
        let all = self.local.as_ref().map(|local| Process::load_all(&local.layout)).unwrap_or_default();
        all.iter().map(|process| (process.component().to_owned(), process.is_alive())).collect()
    }

    /// Runs `kubectl ARGUMENTS` as the administrator and returns what it printed; at most two minutes.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl.run(arguments, Duration::from_secs(120)).await
    }

    /// Applies documents in YAML or JSON, server-side, as the administrator.
    pub async fn apply(&self, documents: &str) -> Result<()> {
        self.kubectl.apply(documents).await
    }

    async fn start_as(options: Options, owned: bool) -> Result<Self> {
        options.check()?;
        let layout = Layout::new(&options.name)?;
        blocking(teardown::sweep).await?;
        let _lock = lock(&layout).await?;
        if Record::load(&layout).is_some_and(|record| record.ready) && runs(&layout) {
            return Err(Error::invalid(format!("the cluster {} runs already", options.name)));
        }
        take_down(layout.clone()).await?;
        let result = start::bring_up(&layout, &options, owned).await;
        match result {
            Ok(record) => Self::local(layout, record, owned),
            Err(error) => {
                let _ = blocking(move || teardown::take_down(&layout, Keep::Files)).await;
                Err(error)
            }
        }
    }

    fn local(layout: Layout, record: Record, owned: bool) -> Result<Self> {
        let kubeconfig = layout.kubeconfig();
        Ok(Self {
            name: layout.name().to_owned(),
            kubectl: Kubectl::new(&kubeconfig, Some(layout.kubectl_cache()))?,
            kubeconfig,
            registry: record.slot.map(|slot| Registry::of_node(&node_address(slot, 1).to_string())),
            local: Some(Local { layout, record, owned }),
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Some(local) = self.local.take().filter(|local| local.owned) else {
            return;
        };
        if let Err(error) = teardown::take_down(&local.layout, Keep::Nothing) {
            report(&format!("the cluster {} was not taken down: {error}", self.name));
        }
    }
}

/// Takes down the cluster `name`, running or not, and whatever a killed run left of it.
pub async fn down(name: &str) -> Result<()> {
    let layout = Layout::new(name)?;
    let _lock = lock(&layout).await?;
    take_down(layout.clone()).await?;
    fs::remove_file(layout.lock()).map_err(Error::file("remove", layout.lock()))
}

/// The names of all clusters that have left anything, sorted.
pub fn names() -> Result<Vec<String>> {
    layout::cluster_names()
}

/// Whether anything of the cluster is alive: after a restart of the machine, nothing is.
fn runs(layout: &Layout) -> bool {
    Process::load_all(layout).iter().any(Process::is_alive)
}

async fn take_down(layout: Layout) -> Result<()> {
    blocking(move || teardown::take_down(&layout, Keep::Nothing)).await
}

/// Waits for the lock of a cluster's name. Whoever takes a cluster down removes the file, so what was waited for may be
/// a file that is there no more, and then the wait starts again.
async fn lock(layout: &Layout) -> Result<File> {
    let path = layout.lock();
    blocking(move || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        }
        loop {
            let file = File::create(&path).map_err(Error::file("make", &path))?;
            file.lock().map_err(Error::file("lock", &path))?;
            let inode = |metadata: fs::Metadata| metadata.ino();
            if file.metadata().map(inode).ok() == fs::metadata(&path).map(inode).ok() {
                return Ok(file);
            }
        }
    })
    .await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::invalid(format!("a task of this process ended early: {error}"))),
    }
}

//! One long-running program of a cluster: started in a process group of its own, recorded on disk, found again and
//! ended by its record only.
//!
//! A recorded process is signalled only while it is the one that was recorded; what a component started in turn is found
//! by the cluster's mark in its environment.

mod identity;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::{Error, Result};

pub(crate) use identity::Identity;

/// The variable in the environment of everything that a cluster starts; its value is the cluster's folder.
pub(crate) const MARK: &str = "DRYDOCK_CLUSTER_FOLDER";
const LOG_LINES_SHOWN: usize = 15;
const LOG_BYTES_READ: u64 = 16 * 1024;

/// How a component is started; kept, so that it can be started again by another run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) component: String,
    pub(crate) argv: Vec<String>,
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
}

/// A component that was started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    start: Start,
    identity: Identity,
    log: PathBuf,
}

impl Start {
    pub(crate) fn new(component: &str, argv: Vec<String>) -> Self {
        Self { component: component.to_owned(), argv, environment: BTreeMap::new() }
    }

    /// Starts the component, its output appended to its log, and records it.
    pub(crate) fn spawn(self, layout: &Layout) -> Result<Process> {
        let log = layout.log(&self.component);
        make_parent(&log)?;
        let open = || OpenOptions::new().create(true).append(true).open(&log);
        let (output, errors) =
            open().and_then(|file| Ok((file.try_clone()?, file))).map_err(Error::file("open", &log))?;
        let child = Command::new(&self.argv[0])
            .args(&self.argv[1..])
            .envs(&self.environment)
            .env(MARK, layout.root())
            .current_dir(layout.root())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Spawn { program: self.argv[0].clone(), source })?;
        let pid = child.id().cast_signed();
        // One that ended before it was looked at is recorded by its id, which is nobody's.
        let identity = Identity::of(pid).unwrap_or_else(|| Identity::ended(pid));
        let process = Process { start: self, identity, log };
        process.record(layout)?;
        Ok(process)
    }
}

impl Process {
    /// The recorded process of a component.
    pub(crate) fn load(layout: &Layout, component: &str) -> Result<Self> {
        let path = record_path(layout, component);
        let text = fs::read(&path).map_err(Error::file("read", &path))?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::invalid(format!("the record {} is damaged: {error}", path.display())))
    }

    /// All recorded processes; a damaged record is left out, as the mark finds its process too.
    pub(crate) fn load_all(layout: &Layout) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(layout.processes()) else {
            return Vec::new();
        };
        let mut all: Vec<Self> = entries
            .filter_map(|entry| fs::read(entry.ok()?.path()).ok())
            .filter_map(|text| serde_json::from_slice(&text).ok())
            .collect();
        all.sort_by(|a, b| a.start.component.cmp(&b.start.component));
        all
    }

    pub(crate) fn component(&self) -> &str {
        &self.start.component
    }

    pub(crate) fn pid(&self) -> i32 {
        self.identity.pid()
    }

    /// What starts the same component again.
    pub(crate) fn start(&self) -> Start {
        self.start.clone()
    }

    /// Whether it runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.identity.is_alive()
    }

    /// Fails when it has ended.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_alive() {
            return Ok(());
        }
        Err(Error::Ended {
            component: self.start.component.clone(),
            log: self.log.clone(),
            lines: self.last_lines(),
        })
    }

    /// The end of its log.
    pub(crate) fn last_lines(&self) -> String {
        last_lines(&self.log).unwrap_or_default()
    }

    /// Sends a signal to its process group, if it runs.
    pub(crate) fn signal(&self, signal: Signal) {
        self.identity.signal_group(signal);
    }

    /// Kills its process group and waits until it is gone.
    pub(crate) fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL);
        wait_gone(std::slice::from_ref(&self.identity), Duration::from_secs(10))
    }

    fn record(&self, layout: &Layout) -> Result<()> {
        let path = record_path(layout, &self.start.component);
        make_parent(&path)?;
        let text = serde_json::to_vec_pretty(self).expect("a process record is plain data");
        let draft = path.with_extension("new");
        fs::write(&draft, text).map_err(Error::file("write", &draft))?;
        fs::rename(&draft, &path).map_err(Error::file("write", &path))
    }
}

/// All processes that carry the mark of the cluster in `folder`: its components and what they started.
pub(crate) fn marked(folder: &Path) -> Vec<Identity> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| carries_mark(*pid, folder))
        .filter_map(Identity::of)
        .collect()
}

/// Waits until none of them is alive.
pub(crate) fn wait_gone(processes: &[Identity], deadline: Duration) -> Result<()> {
    let started = Instant::now();
    while let Some(left) = processes.iter().find(|process| process.is_alive()) {
        if started.elapsed() > deadline {
            let what = format!("the end of process {}", left.pid());
            return Err(Error::Deadline { what, after: deadline, detail: "it was killed".to_owned() });
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn carries_mark(pid: i32, folder: &Path) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    let mark = format!("{MARK}={}", folder.display());
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

fn record_path(layout: &Layout, component: &str) -> PathBuf {
    layout.processes().join(format!("{component}.json"))
}

fn make_parent(path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    fs::create_dir_all(parent).map_err(Error::file("make", parent))
}

fn last_lines(log: &Path) -> std::io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = fs::File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_READ)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n"))
}

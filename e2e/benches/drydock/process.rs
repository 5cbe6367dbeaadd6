//! What processes of pods on this machine use, read from `/proc`, and how busy the machine is.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// Clock ticks of `/proc/PID/stat` are hundredths of a second on every Linux that runs Kubernetes.
const TICK: Duration = Duration::from_millis(10);

/// Drydock's own processes of one pod.
#[derive(Debug)]
pub(crate) struct Processes(Vec<u32>);

/// The controller's and the agent's.
#[derive(Debug)]
pub(crate) struct Both {
    /// The controller's.
    pub(crate) controller: Processes,
    /// The agent's of one environment, without the parents of its runs.
    pub(crate) agent: Processes,
}

impl Both {
    /// What they use now.
    pub(crate) fn usage(&self) -> [Usage; 2] {
        [self.controller.usage(), self.agent.usage()]
    }

    /// What each of `runs` took of the processor since then.
    pub(crate) fn since(&self, before: &[Usage; 2], runs: usize) -> String {
        let after = self.usage();
        let each = |at: usize| {
            let spent = after[at].processor.saturating_sub(before[at].processor);
            spent.as_secs_f64() * 1000.0 / runs.max(1) as f64
        };
        format!("controller {:.2} ms, agent {:.2} ms", each(0), each(1))
    }
}

/// What they use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Memory of their own and their share of what they share, in bytes.
    pub(crate) memory: u64,
    /// Processor time so far.
    pub(crate) processor: Duration,
}

impl Processes {
    /// Those of that pod.
    ///
    /// # Errors
    /// When the pod's node isn't this machine.
    pub(crate) fn of(pod: &Pod) -> Result<Self> {
        let uid = pod.uid().unwrap_or_default();
        let variants = [uid.clone(), uid.replace('-', "_")];
        let ours = |pid: &u32| {
            let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            let is_ours =
                program.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("drydock-"));
            is_ours && variants.iter().any(|v| cgroup.contains(v.as_str()))
        };
        let entries = fs::read_dir("/proc")?.flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
        let found: Vec<u32> = pids.filter(ours).collect();
        ensure!(!found.is_empty(), "pod {} has no process on this machine", pod.name_any());
        Ok(Self(found))
    }

    /// What they use now; those that ended use nothing.
    pub(crate) fn usage(&self) -> Usage {
        self.0.iter().fold(Usage::default(), |sum, pid| Usage {
            memory: sum.memory + memory(*pid).unwrap_or(0),
            processor: sum.processor + processor(*pid).unwrap_or_default(),
        })
    }

    /// Their memory, and the part of one processor that they use over a while.
    pub(crate) async fn over(&self, time: Duration) -> String {
        let before = self.usage();
        tokio::time::sleep(time).await;
        let after = self.usage();
        let used = after.processor.saturating_sub(before.processor).as_secs_f64() / time.as_secs_f64();
        format!("{}, {:.1} % of a CPU", megabytes(after.memory), 100.0 * used)
    }
}

/// A size for people.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// The machine's load over the last minute.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// One line about the machine.
pub(crate) fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
    format!("{processors} processors, Linux {}, client, node and control plane on one machine", kernel.trim())
}

fn memory(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
}

fn processor(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11).map_while(|field| field.parse::<u32>().ok());
    Some(TICK * (fields.next()? + fields.next()?))
}

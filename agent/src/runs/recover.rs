//! Takes up what an earlier `serve` left: runs whose shim lives go on, finished ones are known again, those of another boot
//! or without their shim are lost, and what was never begun is removed.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::active::SHIM_START;
use super::journal::{Meta, Refused, ShimProcesses};
use super::output::Progress;
use super::record::{Outcome, RunRecord, StreamRecord};
use super::registry::{Registry, on_disk};
use super::retention::Key;
use super::watch::{Shim, try_lock};
use crate::paths::{RunDir, Stream, read_json, write_whole};
use crate::process::unix_ms;

/// Goes through the folder of all runs.
pub(super) async fn recover(registry: &Arc<Registry>) {
    let mut finished = Vec::new();
    for (key, dir) in attempts(registry) {
        if let Some(record) = read_json::<RunRecord>(&dir.status()) {
            finished.push((modified(&dir), key, on_disk(&record)));
        } else if read_json::<Refused>(&dir.refused()).is_some() {
            finished.push((modified(&dir), key, 0));
        } else if let Some(meta) = read_json::<Meta>(&dir.meta()) {
            match living_shim(&dir, &meta, registry.boot_id()).await {
                Some(pid) => registry.take_up(key, meta, Shim::Adopted(pid)),
                // It may have ended while it was looked at.
                None => {
                    let record = read_json(&dir.status())
                        .unwrap_or_else(|| write_lost_of(&dir, &meta, registry.boot_id()));
                    finished.push((modified(&dir), key, on_disk(&record)));
                }
            }
        } else {
            // No journal: nothing was executed.
            let _ = fs::remove_dir_all(dir.path());
        }
    }
    finished.sort();
    for (_, key, bytes) in finished {
        registry.take_up_finished(key, bytes);
    }
}

fn attempts(registry: &Registry) -> Vec<(Key, RunDir)> {
    let names = |path: &std::path::Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let runs = registry.dir().runs();
    let of_run = |run_uid: String| {
        let attempts = names(&runs.join(&run_uid)).into_iter().filter_map(|name| name.parse().ok());
        attempts.map(move |attempt| Key { run_uid: run_uid.clone(), attempt }).collect::<Vec<_>>()
    };
    let keys = names(&runs).into_iter().flat_map(of_run);
    keys.map(|key| (key.clone(), registry.dir().run(&key.run_uid, key.attempt))).collect()
}

fn modified(dir: &RunDir) -> SystemTime {
    let of = |path| fs::metadata(path).and_then(|meta| meta.modified());
    of(dir.status()).or_else(|_| of(dir.refused())).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The shim of a run of this boot. The lock tells whether it lives; no number of a process is believed alone.
async fn living_shim(dir: &RunDir, meta: &Meta, boot_id: &str) -> Option<Pid> {
    if meta.boot_id != boot_id {
        return None;
    }
    let until = tokio::time::Instant::now() + SHIM_START;
    while try_lock(dir).is_none() {
        if let Some(found) = read_json::<ShimProcesses>(&dir.shim()) {
            return Some(Pid::from_raw(found.shim.pid));
        }
        if tokio::time::Instant::now() > until {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    None
}

fn write_lost_of(dir: &RunDir, meta: &Meta, boot_id: &str) -> RunRecord {
    if meta.boot_id == boot_id {
        return write_lost(dir, meta);
    }
    let message = format!("it was started under boot {}; this is boot {boot_id}", meta.boot_id);
    write_record(dir, meta, "OtherBoot", message)
}

/// The record of a run whose shim is gone without one. What is left of its processes is ended.
pub(super) fn write_lost(dir: &RunDir, meta: &Meta) -> RunRecord {
    if let Some(processes) = read_json::<ShimProcesses>(&dir.shim())
        && processes.main.is_alive()
    {
        // Ended already is as well.
        let _ = killpg(Pid::from_raw(processes.main.pid), Signal::SIGKILL);
    }
    write_record(dir, meta, "RunnerGone", "the process that ran it was ended from outside".to_owned())
}

fn write_record(dir: &RunDir, meta: &Meta, reason: &str, message: String) -> RunRecord {
    let started =
        read_json::<ShimProcesses>(&dir.shim()).map_or(meta.accepted_at_ms, |found| found.started_at_ms);
    let mut record =
        RunRecord::without_output(Outcome::Lost { reason: reason.to_owned(), message }, started, unix_ms());
    let stream = |stream| {
        let bytes = Progress::read(&dir.progress(), stream).committed;
        // Of what came there is neither a hash nor a count of lines.
        StreamRecord { bytes, kept: meta.kept, sha256: String::new(), ..StreamRecord::empty() }
    };
    record.stdout = stream(Stream::Stdout);
    record.stderr = stream(Stream::Stderr);
    if let Ok(json) = serde_json::to_vec(&record) {
        // Not written: the next `serve` comes to the same record.
        let _ = write_whole(&dir.status(), &json);
    }
    record
}

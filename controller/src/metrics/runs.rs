//! Counts ended runs and measures what Drydock adds to a tool's own time, by looking at the store's changes.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use drydock_crds::ToolRun;
use kube::ResourceExt;
use tokio::time::Instant;

use super::Metrics;
use crate::store::{Change, Stores};

/// Measures runs from now on. To be called before the informers start.
pub fn watch(metrics: &Arc<Metrics>, stores: &Arc<Stores>) {
    let metrics = metrics.clone();
    let weak = Arc::downgrade(stores);
    // When each open run was first seen.
    let seen: Mutex<HashMap<String, Instant>> = Mutex::default();
    stores.tool_runs.subscribe(move |change| {
        let ready = weak.upgrade().is_some_and(|s| s.tool_runs.is_ready());
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        measure(&metrics, &mut seen, change, ready);
    });
}

fn measure(metrics: &Metrics, seen: &mut HashMap<String, Instant>, change: &Change<ToolRun>, ready: bool) {
    let outcome = |run: &Arc<ToolRun>| run.status.as_ref().and_then(|s| s.outcome);
    let Some(run) = &change.new else {
        if let Some(uid) = change.old.as_ref().and_then(|o| o.uid()) {
            seen.remove(&uid);
        }
        return;
    };
    let uid = run.uid().unwrap_or_default();
    let Some(ended) = outcome(run) else {
        // What was there before the first list was complete was seen late: it says nothing.
        if change.old.is_none() && ready {
            seen.insert(uid, Instant::now());
        }
        return;
    };
    let since = seen.remove(&uid);
    if change.old.as_ref().is_none_or(|old| outcome(old).is_some()) || !metrics.leads.load(Ordering::Relaxed)
    {
        return;
    }
    metrics.outcomes.get_or_create(&vec![("outcome", ended.to_string())]).inc();
    let record = run.status.as_ref().and_then(|s| s.container.as_ref());
    if let (Some(since), Some(tool)) = (since, record.and_then(|r| r.exec_time_ms)) {
        let tool = std::time::Duration::from_millis(u64::try_from(tool).unwrap_or(0));
        metrics.overhead.observe(since.elapsed().saturating_sub(tool).as_secs_f64());
    }
}

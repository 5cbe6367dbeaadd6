//! Near the container's memory limit the largest run is ended alone, before the kernel ends the whole container. Looks only
//! while runs are active.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use crate::memory::Cgroup;
use crate::process::resident_bytes;
use crate::runs::registry::Registry;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// After a run was ended, for its memory to come back.
const SETTLE: Duration = Duration::from_secs(1);

/// Goes on for ever; ends at once where there is no memory cgroup to look at.
pub async fn guard(registry: Arc<Registry>) {
    let Some(cgroup) = Cgroup::find() else { return };
    let mut arrivals = registry.arrivals();
    loop {
        arrivals.mark_unchanged();
        if registry.active().is_empty() && arrivals.changed().await.is_err() {
            return;
        }
        if cgroup.is_near_limit() && end_largest(&registry) {
            tokio::time::sleep(SETTLE).await;
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn end_largest(registry: &Registry) -> bool {
    let shims = registry.active().into_iter().filter_map(|(key, run)| Some((key, run.shim()?)));
    let Some((key, shim)) = shims.max_by_key(|(_, shim)| resident_bytes(*shim)) else {
        return false;
    };
    tracing::warn!(
        run = key.run_uid,
        attempt = key.attempt,
        "the container is near its memory limit: ending this run"
    );
    kill(shim, Signal::SIGUSR2).is_ok()
}

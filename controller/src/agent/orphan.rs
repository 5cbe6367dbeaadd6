//! Runs whose object is gone, or has ended, while an agent still works on them: they are cancelled on the next contact. That an object
//! is gone is never believed of a store: the API server is asked.

use std::sync::Arc;

use domain::agent::{AgentCall, PodRef};
use drydock_crds::ToolRun;
use drydock_domain as domain;
use drydock_protocol::agent::AttemptState;
use drydock_protocol::agent::attempt_state::State;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tokio::time::timeout;

use super::Hub;
use super::attempt::is_open;
use crate::act::DEADLINE;
use crate::store::Change;

/// Pages of runs that are looked through for a uid.
const PAGES: usize = 100;
const PAGE: u32 = 500;

/// Drops what is known of runs that ended or are gone; cancels the attempts of those that are gone.
pub(super) fn follow(hub: &Arc<Hub>, change: &Change<ToolRun>) {
    let now = change.new.as_ref();
    if let Some(run) = now.filter(|run| !is_open(run)) {
        hub.facts().forget_run(&run.uid().unwrap_or_default());
    }
    let Some(old) = change.old.as_ref().filter(|old| now.and_then(|n| n.uid()) != old.uid()) else {
        return;
    };
    let uid = old.uid().unwrap_or_default();
    hub.facts().forget_run(&uid);
    let claim = old.status.as_ref().and_then(|s| s.claim.clone());
    let (Some(claim), true) = (claim, is_open(old)) else {
        return;
    };
    let pod = hub.stores.pods.with_uid(&claim.pod_uid).map(|pod| PodRef {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        uid: claim.pod_uid.clone(),
    });
    let (Some(pod), Ok(attempt)) = (pod, u32::try_from(claim.attempt)) else {
        return;
    };
    let (hub, reference) = (hub.clone(), change.reference.clone());
    tokio::spawn(async move {
        let api: Api<ToolRun> = Api::namespaced(hub.client.clone(), &reference.namespace);
        let there = timeout(DEADLINE, api.get_metadata_opt(&reference.name)).await;
        if let Ok(Ok(there)) = there
            && there.and_then(|t| t.uid()).as_ref() != Some(&uid)
        {
            tracing::info!(run = %reference, "the run's object is gone: its attempt is cancelled");
            hub.call(AgentCall::Cancel { pod, run_uid: uid, attempt });
        }
    });
}

/// Looks at the attempts that an agent has: those of runs that ended or are gone are cancelled.
pub(super) fn check(hub: &Arc<Hub>, pod: &PodRef, attempts: &[AttemptState]) {
    if !hub.stores.tool_runs.is_ready() {
        return;
    }
    let mut unknown = Vec::new();
    for attempt in attempts.iter().filter(|a| a.state() == State::Running) {
        match hub.stores.tool_runs.with_uid(&attempt.run_uid) {
            Some(run) if is_open(&run) => {}
            Some(_) => cancel(hub, pod, attempt),
            None => unknown.push(attempt.clone()),
        }
    }
    if unknown.is_empty() {
        return;
    }
    let (hub, pod) = (hub.clone(), pod.clone());
    tokio::spawn(async move {
        let Some(there) = uids(&hub, &pod.namespace).await else {
            return;
        };
        for attempt in unknown.iter().filter(|a| !there.contains(&a.run_uid)) {
            tracing::info!(uid = attempt.run_uid, "the run's object is gone: its attempt is cancelled");
            cancel(&hub, &pod, attempt);
        }
    });
}

fn cancel(hub: &Arc<Hub>, pod: &PodRef, attempt: &AttemptState) {
    hub.call(AgentCall::Cancel {
        pod: pod.clone(),
        run_uid: attempt.run_uid.clone(),
        attempt: attempt.attempt,
    });
}

/// The uids of all runs of a namespace, as the API server has them; `None` when it doesn't say all.
async fn uids(hub: &Hub, namespace: &str) -> Option<std::collections::HashSet<String>> {
    let api: Api<ToolRun> = Api::namespaced(hub.client.clone(), namespace);
    let mut params = ListParams::default().limit(PAGE);
    let mut uids = std::collections::HashSet::new();
    for _ in 0..PAGES {
        let page = timeout(DEADLINE, api.list_metadata(&params)).await.ok()?.ok()?;
        uids.extend(page.items.iter().filter_map(ResourceExt::uid));
        match page.metadata.continue_.filter(|c| !c.is_empty()) {
            None => return Some(uids),
            Some(next) => params.continue_token = Some(next),
        }
    }
    None
}

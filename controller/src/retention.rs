//! Keeps the number of finished tool runs bounded: in each environment and in each namespace the oldest go first, none that ended less
//! than a minute ago. Their time to live is decided for each run by itself; this is for when there are too many before that.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use domain::decision::{Deletion, resource_of};
use domain::settings::{Configuration, Retained};
use drydock_crds::ToolRun;
use drydock_domain as domain;
use futures::StreamExt;
use jiff::Timestamp;
use kube::ResourceExt;

use crate::act;
use crate::context::Context;

/// Between two sweeps.
const SWEEP: Duration = Duration::from_secs(5);
/// Deletions at once: as many as keep up with creates, and few enough to leave room for them.
const AT_ONCE: usize = 8;

/// Sweeps for ever.
pub async fn sweep(context: Arc<Context>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let surplus = surplus(&context.stores.tool_runs.all(), &context.configuration(), context.now());
        if surplus.is_empty() {
            continue;
        }
        tracing::debug!(count = surplus.len(), "finished runs above what is retained are deleted");
        let context = &context;
        let deletions = futures::stream::iter(surplus).for_each_concurrent(AT_ONCE, |run| async move {
            let deletion = deletion(&run);
            if let Err(error) = act::delete(context, &deletion).await {
                tracing::debug!(
                    run = run.name_any(),
                    error = crate::reconcile::chain(&error),
                    "a finished run wasn't deleted"
                );
            }
        });
        deletions.await;
    }
}

/// The finished runs that go.
fn surplus(runs: &[Arc<ToolRun>], configuration: &Configuration, now: Timestamp) -> Vec<Arc<ToolRun>> {
    let mut namespaces: BTreeMap<String, Vec<(Timestamp, &Arc<ToolRun>)>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.metadata.deletion_timestamp.is_none()) {
        if let Some(finished) = finished(run) {
            let namespace = run.namespace().unwrap_or_default();
            namespaces.entry(namespace).or_default().push((finished, run));
        }
    }
    let mut going = Vec::new();
    for (namespace, mut finished) in namespaces {
        finished.sort_by_cached_key(|(ended, run)| (*ended, run.name_any()));
        let retained = &configuration.of(&namespace).runs.retained;
        going.extend(surplus_of(&finished, retained, now));
    }
    going
}

/// Of one namespace's finished runs, oldest first.
fn surplus_of(
    finished: &[(Timestamp, &Arc<ToolRun>)],
    retained: &Retained,
    now: Timestamp,
) -> Vec<Arc<ToolRun>> {
    let limit = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let mut environments: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, (_, run)) in finished.iter().enumerate() {
        if let Some(target) = target(run) {
            environments.entry(target).or_default().push(at);
        }
    }
    let mut going = BTreeSet::new();
    for runs in environments.values() {
        let surplus = runs.len().saturating_sub(limit(retained.per_environment));
        going.extend(runs.iter().take(surplus).copied());
    }
    let surplus = finished.len().saturating_sub(limit(retained.per_namespace));
    for at in 0..finished.len() {
        if going.len() >= surplus {
            break;
        }
        going.insert(at);
    }
    let is_old =
        |ended: Timestamp| now.duration_since(ended).unsigned_abs() >= Retained::YOUNG && ended < now;
    let old = going.into_iter().map(|at| finished[at]).filter(|(ended, _)| is_old(*ended));
    old.map(|(_, run)| run.clone()).collect()
}

fn finished(run: &ToolRun) -> Option<Timestamp> {
    let status = run.status.as_ref()?;
    status.outcome?;
    let ended = status.finished_at.as_ref().or(run.metadata.creation_timestamp.as_ref());
    ended.map(|t| t.0)
}

fn target(run: &ToolRun) -> Option<String> {
    let target = run.status.as_ref()?.route.as_ref()?.target.as_ref()?;
    Some(format!("{}/{}", target.kind, target.name))
}

fn deletion(run: &ToolRun) -> Deletion {
    Deletion {
        resource: resource_of::<ToolRun>(),
        namespace: run.namespace().unwrap_or_default(),
        name: run.name_any(),
        uid: run.uid().unwrap_or_default(),
        resource_version: run.resource_version(),
        grace_seconds: None,
    }
}

#[cfg(test)]
mod tests {
    use drydock_crds::reference::InstanceKind;
    use drydock_crds::tool_run::{Route, RouteTarget, ToolRunStatus};
    use drydock_crds::{Outcome, ToolRunSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn run(name: &str, target: &str, finished: Option<i64>) -> Arc<ToolRun> {
        let mut run = ToolRun::new(name, ToolRunSpec::default());
        run.metadata.namespace = Some("ns".into());
        run.status = Some(ToolRunStatus {
            outcome: finished.map(|_| Outcome::Succeeded),
            finished_at: finished.map(|t| Time(Timestamp::from_second(t).unwrap())),
            route: Some(Route {
                target: Some(RouteTarget {
                    kind: InstanceKind::ContainerInstance,
                    name: target.into(),
                    uid: None,
                }),
                ..Route::default()
            }),
            ..ToolRunStatus::default()
        });
        Arc::new(run)
    }

    fn names(runs: &[Arc<ToolRun>], per_environment: u32, per_namespace: u32) -> Vec<String> {
        let mut configuration = Configuration::default();
        configuration.general.runs.retained = Retained { per_environment, per_namespace };
        let now = Timestamp::from_second(1000).unwrap();
        surplus(runs, &configuration, now).iter().map(|r| r.name_any()).collect()
    }

    #[test]
    fn the_oldest_go_first_and_never_the_young_or_the_unfinished() {
        let runs = [
            run("a1", "a", Some(100)),
            run("b1", "b", Some(50)),
            run("a2", "a", Some(200)),
            run("a3", "a", Some(300)),
            run("young", "a", Some(990)),
            run("open", "a", None),
        ];
        assert_eq!(names(&runs, 10, 10), Vec::<String>::new());
        assert_eq!(names(&runs, 2, 10), ["a1", "a2"]);
        assert_eq!(names(&runs, 10, 3), ["b1", "a1"]);
        assert_eq!(names(&runs, 1, 3), ["a1", "a2", "a3"]);
        assert_eq!(names(&runs, 1, 1), ["b1", "a1", "a2", "a3"]);
    }
}

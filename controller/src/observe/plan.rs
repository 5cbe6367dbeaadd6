//! Plans: whether what they work on exists, and what became of their runs.

use std::sync::Arc;

use domain::Decision;
use domain::plan::{Observed, decide};
use drydock_crds::{Plan, PlanStatus, Project, ToolRun, Workspace};
use drydock_domain as domain;

use super::{name, namespace};
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::{Kind, Watches};
use crate::store::{Change, ObjectRef, Stored, Stores, index_name};

/// How long a plan's status may be behind its runs: it is never written once per run.
const COALESCED: std::time::Duration = std::time::Duration::from_secs(2);

/// The kind.
pub struct Plans;

impl Kind for Plans {
    type Object = Plan;
    type Observed = Observed;
    type Status = PlanStatus;

    async fn observe(plan: Arc<Plan>, context: &Context) -> Result<Observed, Error> {
        let stores = &context.stores;
        let of = namespace(&plan.metadata);
        let project = plan.spec.project_ref.as_ref();
        let workspace = plan.spec.workspace_ref.as_ref();
        let scope_exists = project.is_none_or(|p| stores.projects.get(of, &p.name).is_some())
            && workspace.is_none_or(|w| stores.workspaces.get(of, &w.name).is_some());
        let runs = stores.tool_runs.find(index_name::PLAN, of, name(&plan.metadata));
        let runs = runs.iter().map(|r| r.status.as_ref().and_then(|s| s.outcome)).collect();
        Ok(Observed { scope_exists, runs, plan: Arc::unwrap_or_clone(plan), now: context.now() })
    }

    fn decide(observed: &Observed) -> Decision<PlanStatus> {
        decide(observed)
    }

    fn status(object: &Plan) -> Option<&PlanStatus> {
        object.status.as_ref()
    }

    fn watches(watches: &mut Watches<'_>) {
        watches.on::<Project>(|change, stores| of_scope(change, index_name::PROJECT, stores));
        watches.on::<Workspace>(|change, stores| of_scope(change, index_name::WORKSPACE, stores));
        watches.on_later::<ToolRun>(COALESCED, |change, _| {
            let outcome = |run: &Arc<ToolRun>| run.status.as_ref().and_then(|s| s.outcome);
            if change.old.as_ref().map(outcome) == change.new.as_ref().map(outcome) {
                return Vec::new();
            }
            let plan = change.both().next().and_then(|r| r.spec.plan_ref.clone());
            plan.map(|p| ObjectRef::new(&change.reference.namespace, p.name)).into_iter().collect()
        });
    }
}

/// The plans of a project or workspace that came or went.
fn of_scope<K: Stored>(change: &Change<K>, index: &'static str, stores: &Stores) -> Vec<ObjectRef> {
    if change.old.is_some() == change.new.is_some() {
        return Vec::new();
    }
    let plans = stores.plans.find(index, &change.reference.namespace, &change.reference.name);
    plans.iter().map(|p| ObjectRef::of(p.as_ref())).collect()
}

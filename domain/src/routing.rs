//! Where a tool run executes: one pure, total function from declared objects to one answer that explains itself.
//!
//! The steps: what the tool fixes, else the first of the ordered rules that has an answer (`rules`); what the tool requires
//! or prefers (`requirement`); what policy, the workspace and the plan's sandbox make of the answer (`admission`). An
//! environment whose turn it is and that can't be used ends the search: nothing ever falls through silently.
//!
//! Nothing here starts, waits or writes; an answer may name an instance that doesn't run, or isn't there yet.

mod admission;
#[cfg(test)]
mod cases;
mod nearest;
mod request;
mod requirement;
mod rules;
#[cfg(test)]
mod table;
mod verdict;

use drydock_crds::tool_run::{Considered, RouteRule};

pub use request::{
    Checkout, Environment, EnvironmentTarget, InstanceFacts, Link, ProjectFacts, Request, Sandbox, Scope,
    TargetState, Tree, capability, links, target_state,
};
pub use verdict::{Refusal, Target, Verdict};

/// An answer on its way.
#[derive(Clone, Debug)]
struct Proposal {
    rule: RouteRule,
    target: Target,
    /// What proposed it: the rule, with the environment's name where there is one.
    source: String,
    why: String,
}

/// The end of the search without an answer.
#[derive(Clone, Debug)]
struct Refused {
    rule: Option<RouteRule>,
    refusal: Refusal,
    why: String,
}

/// What was looked at and not taken.
#[derive(Default)]
struct Trail(Vec<Considered>);

impl Trail {
    fn add(&mut self, source: impl Into<String>, target: Option<String>, verdict: impl Into<String>) {
        self.0.push(Considered { source: source.into(), target, verdict: verdict.into() });
    }
}

/// Decides where a run goes. Total: every request has exactly one verdict, whatever the order of its unordered lists.
#[must_use]
pub fn route(request: &Request<'_>) -> Verdict {
    let mut trail = Trail::default();
    let answer = rules::answer(request, &mut trail)
        .and_then(|proposal| requirement::apply(request, proposal, &mut trail))
        .and_then(|proposal| admission::check(request, proposal, &mut trail));
    let (chosen, rule, refusal, reason) = match answer {
        Ok(Proposal { rule, target, why, .. }) => (Some(target), Some(rule), None, why),
        Err(Refused { rule, refusal, why }) => (None, rule, Some(refusal), why),
    };
    Verdict { chosen, rule, reason, refusal, considered: trail.0 }.bounded()
}

//! What policy, the workspace and the plan's sandbox make of an answer: it stands, becomes the plan's own, or is refused.

use std::collections::BTreeSet;

use drydock_crds::project::HostPolicy;
use drydock_crds::reference::InstanceKind;
use drydock_crds::tool_run::RouteRule;

use super::request::{Checkout, Request, Sandbox};
use super::rules::clones;
use super::verdict::{Refusal, Target};
use super::{Proposal, Refused, Trail};
use crate::name;

/// The final answer.
pub(super) fn check(
    request: &Request<'_>,
    proposal: Proposal,
    trail: &mut Trail,
) -> Result<Proposal, Refused> {
    let checked = match &proposal.target {
        Target::Host => host(request, proposal.rule).map(|()| Target::Host),
        Target::Instance(_) => instance(request, &proposal.target),
    };
    match checked {
        Ok(target) if target == proposal.target => Ok(proposal),
        Ok(target) => {
            Ok(Proposal { why: format!("{}; the plan has its own", proposal.why), target, ..proposal })
        }
        Err((refusal, why)) => {
            trail.add(proposal.source, Some(proposal.target.to_string()), format!("refused: {why}"));
            Err(Refused { rule: Some(proposal.rule), refusal, why: format!("{}; {why}", proposal.why) })
        }
    }
}

/// Whether the host may and can be used.
fn host(request: &Request<'_>, rule: RouteRule) -> Result<(), (Refusal, String)> {
    host_is_possible(request)?;
    // A run that only activates executes nothing, and files are read through it.
    let reads = request.activate && rule == RouteRule::ToolRequiresHost;
    let named = matches!(
        rule,
        RouteRule::ToolRequiresHost
            | RouteRule::PlanOverride
            | RouteRule::ProjectOverride
            | RouteRule::PlanFallback
            | RouteRule::ProjectFallback
    );
    let allowed = match request.host_policy {
        HostPolicy::Allowed => true,
        HostPolicy::OnRequest => named,
        HostPolicy::Forbidden => false,
    };
    if allowed || reads {
        Ok(())
    } else {
        Err((Refusal::HostForbidden, format!("the host policy is {}", request.host_policy)))
    }
}

/// Whether there is a host runner for the request's workspace.
pub(super) fn host_is_possible(request: &Request<'_>) -> Result<(), (Refusal, String)> {
    let Some(tree) = request.workspace else {
        let why = "the run names no workspace, and a host runner works on one";
        return Err((Refusal::HostUnavailable, why.to_owned()));
    };
    if tree.cloned_by.is_some() {
        let why =
            format!("the workspace {} has no checkout (checkout: None), so it has no host runner", tree.name);
        return Err((Refusal::HostUnavailable, why));
    }
    match request.sandbox {
        Some(sandbox) if !sandbox.checkouts.iter().any(|c| c.workspace == tree.name) => {
            let why = format!("the plan {} has no checkout of the workspace {}", sandbox.plan, tree.name);
            Err((Refusal::NotInCheckout, why))
        }
        _ => Ok(()),
    }
}

fn instance(request: &Request<'_>, target: &Target) -> Result<Target, (Refusal, String)> {
    let Target::Instance(instance) = target else {
        return Ok(target.clone());
    };
    let is_devcontainer = instance.kind == InstanceKind::DevcontainerInstance;
    if is_devcontainer && !request.devcontainers_enabled {
        let why = "dev containers are turned off by the operator (environments.enabled)";
        return Err((Refusal::DevcontainersDisabled, why.to_owned()));
    }
    if !clones(request, target) {
        let why = format!("the workspace has no checkout, and {target} doesn't clone it");
        return Err((Refusal::NotCloned, why));
    }
    match request.sandbox {
        Some(sandbox) if is_devcontainer => own(request, sandbox, &instance.name),
        _ => Ok(target.clone()),
    }
}

/// The plan's own instance for the documented name of a configuration in a repository that it has a checkout of; every
/// other name stays what it is.
fn own(request: &Request<'_>, sandbox: Sandbox<'_>, instance: &str) -> Result<Target, (Refusal, String)> {
    let mut checkouts: Vec<&Checkout<'_>> = sandbox.checkouts.iter().collect();
    let worked_on = request.workspace.map(|w| w.name);
    checkouts.sort_by_key(|c| (Some(c.workspace) != worked_on, c.workspace));
    let mut documented = Vec::new();
    let mut found = None;
    for checkout in &checkouts {
        let names = name::instances(checkout.workspace, checkout.devcontainers);
        if found.is_none()
            && let Some(at) = names.iter().position(|n| n == instance)
        {
            found = Some(documented.len() + at);
        }
        documented.extend(names);
    }
    let shared = |c: &&Checkout<'_>| c.shared.iter().any(|d| d.name == instance);
    let Some(found) = found else {
        return match checkouts.iter().find(|c| shared(c)) {
            None => Ok(Target::devcontainer(instance)),
            Some(checkout) => Err((
                Refusal::NotInCheckout,
                format!(
                    "the configuration of {instance} isn't in the checkout that the plan {} has of {}",
                    sandbox.plan, checkout.workspace
                ),
            )),
        };
    };
    let taken: BTreeSet<String> = checkouts.iter().flat_map(|c| c.shared).map(|d| d.name.clone()).collect();
    let names = name::plan_instances(sandbox.plan, &documented, &taken);
    Ok(names.into_iter().nth(found).map_or_else(|| Target::devcontainer(instance), Target::devcontainer))
}

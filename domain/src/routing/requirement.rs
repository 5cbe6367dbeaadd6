//! What the tool requires or prefers, applied to the answer of the rules.

use drydock_crds::project::HostPolicy;
use drydock_crds::tool::{Preferred, Required};
use drydock_crds::tool_run::RouteRule;

use super::admission::host_is_possible;
use super::request::Request;
use super::rules::{first_linked, root_devcontainer};
use super::verdict::{Refusal, Target};
use super::{Proposal, Refused, Trail};

/// The answer after the capability.
pub(super) fn apply(
    request: &Request<'_>,
    answer: Option<Proposal>,
    trail: &mut Trail,
) -> Result<Proposal, Refused> {
    let capability = request.capability;
    if capability.required == Some(Required::Container) {
        return require_container(request, answer, trail);
    }
    match (capability.preferred, answer) {
        (Some(Preferred::Host), Some(proposal)) => Ok(prefer_host(request, proposal, trail)),
        (Some(Preferred::Container), answer) => prefer_container(request, answer, trail),
        (_, Some(proposal)) => Ok(proposal),
        (_, None) => Err(no_answer(request)),
    }
}

fn require_container(
    request: &Request<'_>,
    answer: Option<Proposal>,
    trail: &mut Trail,
) -> Result<Proposal, Refused> {
    let rule = RouteRule::ToolRequiresContainer;
    match answer {
        Some(proposal) if proposal.target != Target::Host => return Ok(proposal),
        Some(proposal) if is_override(proposal.rule) => {
            return Err(Refused {
                rule: Some(proposal.rule),
                refusal: Refusal::ContainerRequired,
                why: format!("{}, and the tool requires a container", proposal.why),
            });
        }
        Some(proposal) => {
            trail.add(proposal.source, Some("host".to_owned()), "not taken: the tool requires a container");
        }
        None => {}
    }
    match first_container(request, rule, trail) {
        Some((target, what)) => Ok(Proposal {
            rule,
            target,
            source: rule.to_string(),
            why: format!("the tool requires a container: {what}"),
        }),
        None => {
            let mut why = "the tool requires a container, and there is none".to_owned();
            let considered: Vec<String> = trail
                .0
                .iter()
                .map(|c| match &c.target {
                    Some(target) => format!("{} {target} ({})", c.source, c.verdict),
                    None => format!("{} ({})", c.source, c.verdict),
                })
                .collect();
            if !considered.is_empty() {
                why.push_str(&format!("; considered: {}", considered.join("; ")));
            }
            Err(Refused { rule: Some(rule), refusal: Refusal::NoContainer, why })
        }
    }
}

fn prefer_host(request: &Request<'_>, proposal: Proposal, trail: &mut Trail) -> Proposal {
    let movable = matches!(
        proposal.rule,
        RouteRule::NearestDevcontainer | RouteRule::PlanFallback | RouteRule::ProjectFallback
    );
    if !movable || proposal.target == Target::Host {
        return proposal;
    }
    if request.host_policy != HostPolicy::Allowed || host_is_possible(request).is_err() {
        let verdict = if request.host_policy == HostPolicy::Allowed {
            "not taken: there is no host runner for this workspace".to_owned()
        } else {
            format!("not taken: the host policy is {}", request.host_policy)
        };
        trail.add(RouteRule::ToolPrefers.to_string(), Some("host".to_owned()), verdict);
        return proposal;
    }
    trail.add(proposal.source, Some(proposal.target.to_string()), "not taken: the tool prefers the host");
    Proposal {
        rule: RouteRule::ToolPrefers,
        target: Target::Host,
        source: RouteRule::ToolPrefers.to_string(),
        why: format!("the tool prefers the host (else: {})", proposal.why),
    }
}

fn prefer_container(
    request: &Request<'_>,
    answer: Option<Proposal>,
    trail: &mut Trail,
) -> Result<Proposal, Refused> {
    let rule = RouteRule::ToolPrefers;
    let answer = match answer {
        Some(proposal) if proposal.rule != RouteRule::Host => return Ok(proposal),
        answer => answer,
    };
    let Some((target, what)) = first_container(request, rule, trail) else {
        return answer.ok_or_else(|| no_answer(request));
    };
    if let Some(proposal) = answer {
        trail.add(proposal.source, Some("host".to_owned()), "not taken: the tool prefers a container");
    }
    Ok(Proposal {
        rule,
        target,
        source: rule.to_string(),
        why: format!("the tool prefers a container: {what}"),
    })
}

/// The workspace's root dev container, else the first linked instance.
fn first_container(request: &Request<'_>, rule: RouteRule, trail: &mut Trail) -> Option<(Target, String)> {
    let source = rule.to_string();
    root_devcontainer(request, &source, trail).or_else(|| first_linked(request, &source, trail))
}

fn is_override(rule: RouteRule) -> bool {
    matches!(rule, RouteRule::PlanOverride | RouteRule::ProjectOverride)
}

fn no_answer(request: &Request<'_>) -> Refused {
    Refused {
        rule: None,
        refusal: Refusal::NoAnswer,
        why: format!(
            "no rule has an answer: no environment applies, no dev container is near, and the host policy is {}",
            request.host_policy
        ),
    }
}

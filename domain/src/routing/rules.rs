//! What the tool fixes, else the first of the ordered rules that has an answer.

use drydock_crds::execution_environment::Priority;
use drydock_crds::project::{Detection, HostPolicy};
use drydock_crds::reference::InstanceRef;
use drydock_crds::tool::{Required, Specific};
use drydock_crds::tool_run::RouteRule;

use super::nearest::{Pick, in_folder, nearest};
use super::request::{Environment, EnvironmentTarget, Request, Scope, TargetState};
use super::verdict::{Refusal, Target};
use super::{Proposal, Refused, Trail};

/// The ordered rules.
const ORDER: [RouteRule; 6] = [
    RouteRule::PlanOverride,
    RouteRule::ProjectOverride,
    RouteRule::NearestDevcontainer,
    RouteRule::PlanFallback,
    RouteRule::ProjectFallback,
    RouteRule::Host,
];

/// The answer before the capability's wishes; none where no rule has one.
pub(super) fn answer(request: &Request<'_>, trail: &mut Trail) -> Result<Option<Proposal>, Refused> {
    let fixed = fixed(request, trail);
    let mut decided = match &fixed {
        Ok(None) => None,
        Ok(Some(proposal)) => Some(proposal.rule),
        Err(refused) => refused.rule,
    };
    let mut answer = fixed;
    for rule in ORDER {
        if let Some(decided) = decided {
            unreached(request, rule, decided, trail);
            continue;
        }
        answer = apply(request, rule, trail);
        decided = match &answer {
            Ok(None) => None,
            Ok(Some(_)) | Err(_) => Some(rule),
        };
    }
    answer
}

/// What the tool fixes.
fn fixed(request: &Request<'_>, trail: &mut Trail) -> Result<Option<Proposal>, Refused> {
    let specific = request.capability.specific.as_ref();
    if request.capability.required == Some(Required::Host) {
        if let Some(specific) = specific {
            trail.add(
                RouteRule::ToolSpecific.to_string(),
                Some(specific.name.clone()),
                "not asked: the tool requires the host",
            );
        }
        return Ok(Some(Proposal {
            rule: RouteRule::ToolRequiresHost,
            target: Target::Host,
            source: RouteRule::ToolRequiresHost.to_string(),
            why: "the tool requires the host".to_owned(),
        }));
    }
    specific.map(|s| named(request, s, trail)).transpose()
}

/// The instance that the tool names.
fn named(request: &Request<'_>, specific: &Specific, trail: &mut Trail) -> Result<Proposal, Refused> {
    let refused = |refusal, why: String| Err(Refused { rule: Some(RouteRule::ToolSpecific), refusal, why });
    let name = &specific.name;
    let mut found: Vec<&InstanceRef> = request
        .instances
        .iter()
        .filter(|i| i.name == *name && specific.kind.is_none_or(|kind| kind == i.kind))
        .collect();
    found.sort();
    found.dedup();
    let asked = specific.kind.map_or_else(|| format!("an instance {name}"), |kind| format!("{kind}/{name}"));
    let instance = match found.as_slice() {
        [] => {
            return refused(Refusal::TargetNotFound, format!("the tool names {asked}, which doesn't exist"));
        }
        [one] => (*one).clone(),
        _ => {
            for instance in found {
                let target = Target::Instance(instance.clone()).to_string();
                trail.add(RouteRule::ToolSpecific.to_string(), Some(target), "has the name");
            }
            let why = format!(
                "the tool names {name}, and instances of both kinds have that name: give specific.kind too"
            );
            return refused(Refusal::AmbiguousName, why);
        }
    };
    if let Some(project) = request.project
        && !project.links.iter().any(|l| l.instance == instance)
    {
        let why = format!("the tool names {asked}, which isn't linked to the project {}", project.name);
        return refused(Refusal::TargetNotLinked, why);
    }
    let target = Target::Instance(instance);
    Ok(Proposal {
        rule: RouteRule::ToolSpecific,
        why: format!("the tool names {target}"),
        target,
        source: RouteRule::ToolSpecific.to_string(),
    })
}

/// What one of the ordered rules says.
fn apply(request: &Request<'_>, rule: RouteRule, trail: &mut Trail) -> Result<Option<Proposal>, Refused> {
    match rule {
        RouteRule::NearestDevcontainer => by_path(request, trail),
        RouteRule::Host => Ok(by_default(request, trail)),
        _ => environment(request, rule)
            .map(|environment| by_environment(request, rule, environment, trail))
            .transpose(),
    }
}

/// The environment that a rule is about. Of several (one alone isn't `Conflicted`) the first by name.
fn environment<'a>(request: &Request<'a>, rule: RouteRule) -> Option<&'a Environment<'a>> {
    let (scope, priority) = match rule {
        RouteRule::PlanOverride => (Scope::Plan, Priority::Override),
        RouteRule::ProjectOverride => (Scope::Project, Priority::Override),
        RouteRule::PlanFallback => (Scope::Plan, Priority::Fallback),
        RouteRule::ProjectFallback => (Scope::Project, Priority::Fallback),
        _ => return None,
    };
    let of_rule = |e: &&Environment<'_>| e.scope == scope && e.priority == priority;
    request.environments.iter().filter(of_rule).min_by_key(|e| e.name)
}

fn by_environment(
    request: &Request<'_>,
    rule: RouteRule,
    environment: &Environment<'_>,
    trail: &mut Trail,
) -> Result<Proposal, Refused> {
    let source = source(rule, environment);
    let subject = format!("the environment {} ({rule})", environment.name);
    let propose = |target: Target, why: String| Proposal { rule, target, source: source.clone(), why };
    let refused = |refusal, why| Err(Refused { rule: Some(rule), refusal, why });
    match &environment.target {
        EnvironmentTarget::Instance(instance, state) => {
            let target = Target::Instance(instance.clone());
            match state {
                TargetState::Usable => {
                    let why = format!("{subject} sends runs to {target}");
                    Ok(propose(target, why))
                }
                TargetState::NotFound => refused(
                    Refusal::TargetNotFound,
                    format!("{subject} sends runs to {target}, which doesn't exist"),
                ),
                TargetState::NotLinked => refused(
                    Refusal::TargetNotLinked,
                    format!("{subject} sends runs to {target}, which isn't linked to the project"),
                ),
            }
        }
        EnvironmentTarget::Host => Ok(propose(Target::Host, format!("{subject} sends runs to the host"))),
        EnvironmentTarget::Container => match any_container(request, &source, trail) {
            Ok(Some((target, what))) => {
                let why = format!("{subject} sends runs to any container: {what}");
                Ok(propose(target, why))
            }
            Ok(None) => refused(
                Refusal::NoContainer,
                format!(
                    "{subject} sends runs to any container, and there is none: {}",
                    nothing_near(request)
                ),
            ),
            Err(why) => refused(Refusal::InvalidConfig, why),
        },
    }
}

/// The nearest dev container, else the first linked instance; `Err` where the nearest configuration can't be used.
fn any_container(
    request: &Request<'_>,
    source: &str,
    trail: &mut Trail,
) -> Result<Option<(Target, String)>, String> {
    if let Some(pick) = nearest(request) {
        let target = usable(&pick)?;
        if clones(request, &target) {
            let what = nearest_text(request, &pick);
            return Ok(Some((target, what)));
        }
        trail.add(source, Some(target.to_string()), "passed over: it doesn't clone the workspace");
    }
    Ok(first_linked(request, source, trail))
}

/// The first instance in the order of the project's links that can serve; plans' own ones are reached by name alone.
pub(super) fn first_linked(
    request: &Request<'_>,
    source: &str,
    trail: &mut Trail,
) -> Option<(Target, String)> {
    let project = request.project?;
    for link in project.links.iter().filter(|l| !l.of_plan) {
        let target = Target::Instance(link.instance.clone());
        if clones(request, &target) {
            let what = format!("{target}, the first instance linked to the project {}", project.name);
            return Some((target, what));
        }
        trail.add(source, Some(target.to_string()), "passed over: it doesn't clone the workspace");
    }
    None
}

fn by_path(request: &Request<'_>, trail: &mut Trail) -> Result<Option<Proposal>, Refused> {
    let rule = RouteRule::NearestDevcontainer;
    if request.project.is_some_and(|p| p.detection == Detection::Disabled) {
        trail.add(rule.to_string(), None, "not looked for: the project's devcontainerDetection is Disabled");
        return Ok(None);
    }
    let Some(pick) = nearest(request) else {
        trail.add(rule.to_string(), None, nothing_near(request));
        return Ok(None);
    };
    for other in &pick.others {
        trail.add(
            rule.to_string(),
            Some(format!("configuration {other}")),
            "in the same folder, later by name: choose it by configName",
        );
    }
    let target =
        usable(&pick).map_err(|why| Refused { rule: Some(rule), refusal: Refusal::InvalidConfig, why })?;
    if !clones(request, &target) {
        trail.add(rule.to_string(), Some(target.to_string()), "passed over: it doesn't clone the workspace");
        return Ok(None);
    }
    Ok(Some(Proposal { rule, target, source: rule.to_string(), why: nearest_text(request, &pick) }))
}

fn by_default(request: &Request<'_>, trail: &mut Trail) -> Option<Proposal> {
    let rule = RouteRule::Host;
    if request.host_policy != HostPolicy::Allowed {
        let verdict = format!("not taken: the host policy is {}", request.host_policy);
        trail.add(rule.to_string(), Some(Target::Host.to_string()), verdict);
        return None;
    }
    Some(Proposal {
        rule,
        target: Target::Host,
        source: rule.to_string(),
        why: format!("{}, and no environment applies: the host", nothing_near(request)),
    })
}

/// The dev container in the workspace's root, where there is one that can serve.
pub(super) fn root_devcontainer(
    request: &Request<'_>,
    source: &str,
    trail: &mut Trail,
) -> Option<(Target, String)> {
    let pick = in_folder(request, ".")?;
    match usable(&pick) {
        Ok(target) if clones(request, &target) => {
            let what = format!("{target}, the dev container in the workspace root");
            Some((target, what))
        }
        Ok(target) => {
            trail.add(source, Some(target.to_string()), "passed over: it doesn't clone the workspace");
            None
        }
        Err(why) => {
            trail.add(source, Some(pick.configuration.config_path.clone()), format!("passed over: {why}"));
            None
        }
    }
}

/// Whether an instance has the workspace's files: always where there is a checkout, else where it clones them.
pub(super) fn clones(request: &Request<'_>, target: &Target) -> bool {
    match (request.workspace.and_then(|w| w.cloned_by), target) {
        (Some(cloned_by), Target::Instance(instance)) => cloned_by.contains(instance),
        (Some(_), Target::Host) => false,
        (None, _) => true,
    }
}

/// The instance of a configuration, or what is wrong with it.
fn usable(pick: &Pick<'_>) -> Result<Target, String> {
    let Some(problem) = &pick.configuration.problem else {
        return Ok(Target::devcontainer(pick.name.as_ref()));
    };
    let mut place = problem.file.as_deref().unwrap_or(&pick.configuration.config_path).to_owned();
    for number in [problem.line, problem.column].into_iter().flatten() {
        place.push_str(&format!(":{number}"));
    }
    Err(format!("{place}: {}", problem.message))
}

fn nearest_text(request: &Request<'_>, pick: &Pick<'_>) -> String {
    let mut text = format!(
        "{} is the nearest configuration of {}",
        pick.configuration.config_path,
        request.path.as_str()
    );
    if !pick.others.is_empty() {
        text.push_str(&format!(
            "; ambiguous: the first by name of {} in its folder, the others are {}",
            pick.others.len() + 1,
            pick.others.join(", ")
        ));
    }
    if pick.not_named {
        let asked = request.config_name.unwrap_or_default();
        text.push_str(&format!("; no configuration there is called {asked}"));
    }
    text
}

/// Why there is no nearest dev container, as the beginning of a sentence.
fn nothing_near(request: &Request<'_>) -> String {
    if request.workspace.is_none() {
        return "the run names no workspace".to_owned();
    }
    match nearest(request) {
        Some(_) if request.project.is_some_and(|p| p.detection == Detection::Disabled) => {
            "the nearest dev container doesn't count (devcontainerDetection is Disabled)".to_owned()
        }
        Some(_) => "the nearest dev container doesn't clone the workspace".to_owned(),
        None => match request.path.as_str() {
            "." => "the workspace root has no dev container".to_owned(),
            path => format!("no dev container from {path} up to the workspace root"),
        },
    }
}

/// Lists what a rule would have proposed, had an earlier one not decided.
fn unreached(request: &Request<'_>, rule: RouteRule, decided: RouteRule, trail: &mut Trail) {
    let verdict = format!("not reached: {decided} decides");
    match rule {
        RouteRule::NearestDevcontainer => {
            if let Some(pick) = nearest(request) {
                let target =
                    usable(&pick).map_or_else(|_| pick.configuration.config_path.clone(), |t| t.to_string());
                trail.add(rule.to_string(), Some(target), verdict);
            }
        }
        RouteRule::Host => trail.add(rule.to_string(), Some(Target::Host.to_string()), verdict),
        _ => {
            if let Some(environment) = environment(request, rule) {
                let target = match &environment.target {
                    EnvironmentTarget::Instance(instance, _) => {
                        Target::Instance(instance.clone()).to_string()
                    }
                    EnvironmentTarget::Host => Target::Host.to_string(),
                    EnvironmentTarget::Container => "any container".to_owned(),
                };
                trail.add(source(rule, environment), Some(target), verdict);
            }
        }
    }
}

fn source(rule: RouteRule, environment: &Environment<'_>) -> String {
    format!("{rule} {}", environment.name)
}

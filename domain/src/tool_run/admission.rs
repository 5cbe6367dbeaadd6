//! Whether a run may run, and where: what it refers to, what it asks for, and the route.

use std::collections::BTreeMap;
use std::sync::Arc;

use drydock_crds::condition::{ConditionType, Reason};
use drydock_crds::label::Role;
use drydock_crds::project::Project;
use drydock_crds::reference::InstanceRef;
use drydock_crds::tool::Mode;
use drydock_crds::tool_run::{Effective, Outcome, Route, ToolRun};
use drydock_crds::workspace::Checkout;
use drydock_crds::{ExecutionEnvironment, Plan, Tool, Workspace};
use jiff::Timestamp;

use crate::decision::after;
use crate::name::{HostScope, host_runner};
use crate::path::{HostRoot, WorkspacePath};
use crate::reference::GRACE;
use crate::routing::{self, InstanceFacts, Verdict};
use crate::settings::Settings;
use crate::{plan, tool};

/// Bytes that script, args, stdin and input of a run may have together.
pub const MAX_PAYLOAD: usize = 64 << 10;

/// Names of variables that would change how every program in the environment is loaded.
const LOADER_VARIABLES: [&str; 14] = [
    "BASHOPTS",
    "BASH_ENV",
    "ENV",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "NODE_OPTIONS",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PS4",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "SHELLOPTS",
];

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// Not asked: the run is routed already.
    Settled,
    /// Something it needs isn't there yet. With a time: then it no longer waits.
    Wait {
        /// One word.
        reason: Reason,
        /// What it waits for.
        message: String,
        /// Until when.
        until: Option<Timestamp>,
    },
    /// It ends without being run.
    End {
        /// How.
        outcome: Outcome,
        /// One word.
        reason: Reason,
        /// Why.
        message: String,
        /// What was considered, where it came to that.
        route: Option<Box<Route>>,
    },
    /// It goes there.
    Go(Box<Destination>),
}

/// Where a run goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// The route as it stands in the status.
    pub route: Route,
    /// The instance.
    pub instance: InstanceRef,
    /// Whether it is the workspace's host runner, which is made where it isn't there.
    pub host: bool,
    /// The limits in force.
    pub effective: Effective,
}

/// What a run refers to, as far as it is there.
#[derive(Clone, Debug, Default)]
pub struct References {
    /// The Tool.
    pub tool: Option<Arc<Tool>>,
    /// The Workspace: the run's, else its plan's.
    pub workspace: Option<Arc<Workspace>>,
    /// The Plan.
    pub plan: Option<Arc<Plan>>,
    /// The Project: the run's, else its plan's.
    pub project: Option<Arc<Project>>,
    /// The environments of the namespace.
    pub environments: Vec<Arc<ExecutionEnvironment>>,
    /// The instances of the namespace, with their uids.
    pub instances: Vec<(InstanceFacts, String)>,
}

/// Decides whether and where a run may run.
#[must_use]
pub fn admit(run: &ToolRun, references: &References, settings: &Settings, now: Timestamp) -> Admission {
    let checks = [
        not_implemented(run, references),
        missing(run, references, now),
        unready(references),
        effective(run, references, settings).err().map(|e| *e),
        invalid(run, references),
    ];
    if let Some(objection) = checks.into_iter().flatten().next() {
        return objection;
    }
    match (effective(run, references, settings), path_of(run)) {
        (Ok(effective), Ok(path)) => {
            let verdict = verdict(run, references, settings, &path);
            awaited(run, &verdict, now).unwrap_or_else(|| routed(references, &verdict, effective))
        }
        (Err(objection), _) | (_, Err(objection)) => *objection,
    }
}

fn reject(reason: Reason, message: impl Into<String>) -> Admission {
    Admission::End { outcome: Outcome::Rejected, reason, message: message.into(), route: None }
}

fn no_environment(reason: Reason, message: impl Into<String>) -> Admission {
    Admission::End { outcome: Outcome::NoEnvironment, reason, message: message.into(), route: None }
}

fn not_implemented(run: &ToolRun, references: &References) -> Option<Admission> {
    let spec = &run.spec;
    let mut missing: Vec<String> = Vec::new();
    if spec.mode == Some(Mode::Session) || spec.terminal.is_some() {
        missing.push("mode: Session".into());
    }
    if let Some(tool) = &references.tool {
        let name = tool.metadata.name.as_deref().unwrap_or_default();
        missing
            .extend(tool::not_implemented(&tool.spec).iter().map(|field| format!("{field} of Tool {name}")));
    }
    let message = format!("not implemented in this version: {}", missing.join(", "));
    (!missing.is_empty()).then(|| reject(Reason::NotImplemented, message))
}

/// What is named and isn't there is waited for, so that one apply of everything works.
fn missing(run: &ToolRun, references: &References, now: Timestamp) -> Option<Admission> {
    let spec = &run.spec;
    let plan = references.plan.as_ref().map(|p| &p.spec);
    let workspace = spec.workspace_ref.as_ref().or_else(|| plan.and_then(|p| p.workspace_ref.as_ref()));
    let project = spec.project_ref.as_ref().or_else(|| plan.and_then(|p| p.project_ref.as_ref()));
    let named = [
        ("Tool", spec.tool_ref.as_ref(), references.tool.is_some()),
        ("Plan", spec.plan_ref.as_ref(), references.plan.is_some()),
        ("Project", project, references.project.is_some()),
        ("Workspace", workspace, references.workspace.is_some()),
    ];
    let absent: Vec<String> = named
        .iter()
        .filter(|(_, _, there)| !there)
        .filter_map(|(kind, reference, _)| reference.map(|r| format!("{kind} {}", r.name)))
        .collect();
    if absent.is_empty() {
        return None;
    }
    let until = grace_of(run, now);
    let names = absent.join(", ");
    Some(if now < until {
        let message = format!("waiting for {names} to exist");
        Admission::Wait { reason: Reason::ReferenceNotFound, message, until: Some(until) }
    } else {
        reject(Reason::ReferenceNotFound, format!("not found in this namespace: {names}"))
    })
}

/// An instance that is named and isn't there is waited for as any other reference.
fn awaited(run: &ToolRun, verdict: &Verdict, now: Timestamp) -> Option<Admission> {
    let until = grace_of(run, now);
    let waits = verdict.refusal == Some(routing::Refusal::TargetNotFound) && now < until;
    waits.then(|| Admission::Wait {
        reason: Reason::ReferenceNotFound,
        message: format!("waiting for 30 s at most: {}", verdict.reason),
        until: Some(until),
    })
}

/// Until when what a run names may come.
fn grace_of(run: &ToolRun, now: Timestamp) -> Timestamp {
    after(run.metadata.creation_timestamp.as_ref().map_or(now, |t| t.0), GRACE)
}

fn unready(references: &References) -> Option<Admission> {
    if let Some(found) = &references.plan {
        let name = found.metadata.name.as_deref().unwrap_or_default();
        if plan::has_ended(found) {
            return Some(reject(Reason::PlanCompleted, format!("Plan {name} has ended: use another")));
        }
        let conditions = found.status.as_ref().map(|s| &s.conditions[..]).unwrap_or_default();
        if let Some(stalled) = ConditionType::Stalled.find(conditions).filter(|c| c.status == "True") {
            let message = format!("Plan {name}: {}", stalled.message);
            return Some(no_environment(Reason::NoEnvironment, message));
        }
        if !ConditionType::Ready.is_true(conditions) {
            let message = format!("waiting for Plan {name} to be ready");
            return Some(Admission::Wait { reason: Reason::WaitingForReference, message, until: None });
        }
    }
    unscanned(references.workspace.as_deref()?)
}

fn unscanned(workspace: &Workspace) -> Option<Admission> {
    let name = workspace.metadata.name.as_deref().unwrap_or_default();
    if workspace.metadata.deletion_timestamp.is_some() {
        return Some(no_environment(Reason::WorkspaceGone, format!("Workspace {name} is being deleted")));
    }
    let conditions = workspace.status.as_ref().map(|s| &s.conditions[..]).unwrap_or_default();
    if ConditionType::Discovered.is_true(conditions) {
        return None;
    }
    if let Some(stalled) = ConditionType::Stalled.find(conditions).filter(|c| c.status == "True") {
        let message = format!("Workspace {name}: {}", stalled.message);
        return Some(no_environment(Reason::NoEnvironment, message));
    }
    let said =
        ConditionType::Ready.find(conditions).map(|c| c.message.as_str()).unwrap_or("it isn't scanned yet");
    let message = format!("waiting for Workspace {name}: {said}");
    Some(Admission::Wait { reason: Reason::WaitingForReference, message, until: None })
}

fn effective(
    run: &ToolRun,
    references: &References,
    settings: &Settings,
) -> Result<Effective, Box<Admission>> {
    let tool = references.tool.as_ref().map(|t| &t.spec);
    let seconds = |span: crate::settings::Span| i32::try_from(span.0.as_secs()).unwrap_or(i32::MAX);
    let asked = run.spec.timeout_seconds.or_else(|| tool.and_then(|t| t.timeout_seconds));
    let (timeout, most) =
        (asked.unwrap_or_else(|| seconds(settings.runs.timeout)), seconds(settings.runs.max_timeout));
    if timeout > most {
        let message = format!("timeoutSeconds {timeout} is above the operator's maximum of {most}: lower it");
        return Err(Box::new(reject(Reason::InvalidSpec, message)));
    }
    let limit = run.spec.output_limit.or_else(|| tool.and_then(|t| t.output_limit));
    let limit = limit.unwrap_or(settings.runs.output_limit);
    let most = settings.runs.output_limit.max(0);
    if limit > most {
        let message = format!("outputLimit {limit} is above the operator's {most}: lower it");
        return Err(Box::new(reject(Reason::InvalidSpec, message)));
    }
    Ok(Effective {
        timeout_seconds: Some(timeout),
        output_limit: limit,
        ttl_seconds: run.spec.ttl_seconds_after_finished.unwrap_or_else(|| seconds(settings.runs.ttl)),
    })
}

/// What the schema can't refuse.
fn invalid(run: &ToolRun, references: &References) -> Option<Admission> {
    let spec = &run.spec;
    if run.metadata.generation.unwrap_or_default() > 1 && spec.cancel != Some(true) {
        return Some(reject(
            Reason::InvalidSpec,
            "the run was changed after it was created: create a new one",
        ));
    }
    let loader =
        |name: &str| name.starts_with("LD_") || name.starts_with("DYLD_") || LOADER_VARIABLES.contains(&name);
    if let Some(variable) = spec.env.iter().find(|v| loader(&v.name)) {
        let message = format!(
            "the variable {} changes how programs are loaded and isn't taken from a run",
            variable.name
        );
        return Some(reject(Reason::InvalidSpec, message));
    }
    if let Some(variable) = spec.env.iter().find(|v| v.name.starts_with("DRYDOCK_")) {
        return Some(reject(
            Reason::InvalidSpec,
            format!("the variable {} has a reserved prefix", variable.name),
        ));
    }
    let input = spec.input.as_ref().map_or(0, |i| i.to_string().len());
    let text = |t: &Option<String>| t.as_ref().map_or(0, String::len);
    let args: usize = spec.args.iter().chain(spec.command.iter().flatten()).map(|a| a.0.len()).sum();
    let payload = input + text(&spec.script) + text(&spec.stdin) + args;
    if payload > MAX_PAYLOAD {
        let message =
            format!("script, args, stdin and input have {payload} bytes together: at most {MAX_PAYLOAD}");
        return Some(reject(Reason::InvalidSpec, message));
    }
    let takes_input =
        references.tool.as_ref().is_none_or(|t| t.spec.input == Some(drydock_crds::tool::Input::JsonStdin));
    if spec.input.is_some() && !takes_input {
        return Some(reject(
            Reason::InvalidSpec,
            "the tool takes no input: remove it, or give the tool input: JsonStdin",
        ));
    }
    None
}

fn path_of(run: &ToolRun) -> Result<WorkspacePath, Box<Admission>> {
    let objection = |e: crate::path::PathError| Box::new(reject(Reason::InvalidSpec, e.to_string()));
    let root = run
        .spec
        .path_mapping
        .as_ref()
        .map(|m| HostRoot::parse(&m.host_root))
        .transpose()
        .map_err(objection)?;
    match &run.spec.path {
        None => Ok(WorkspacePath::root()),
        Some(path) => WorkspacePath::parse(path, root.as_ref()).map_err(objection),
    }
}

fn routed(references: &References, verdict: &Verdict, effective: Effective) -> Admission {
    let workspace =
        references.workspace.as_ref().and_then(|w| w.metadata.name.as_deref()).unwrap_or_default();
    let host = host_runner(workspace, HostScope::Workspace);
    let uids: BTreeMap<&InstanceRef, &String> =
        references.instances.iter().map(|(f, uid)| (&f.instance, uid)).collect();
    let route = verdict.to_route(&host, |instance| uids.get(instance).map(|uid| (*uid).clone()));
    match (&verdict.chosen, &route.target) {
        (Some(chosen), Some(target)) => {
            let instance = InstanceRef { kind: target.kind, name: target.name.clone() };
            let host = *chosen == routing::Target::Host;
            Admission::Go(Box::new(Destination { instance, host, effective, route }))
        }
        _ => Admission::End {
            outcome: Outcome::NoEnvironment,
            reason: verdict.refusal.map_or(Reason::NoEnvironment, routing::Refusal::reason),
            message: verdict.reason.clone(),
            route: Some(Box::new(route)),
        },
    }
}

/// The verdict of routing for a run whose references are there.
#[must_use]
pub fn verdict(run: &ToolRun, references: &References, settings: &Settings, path: &WorkspacePath) -> Verdict {
    let name_of = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| meta.name.clone();
    let plan = references.plan.as_ref().and_then(|p| name_of(&p.metadata));
    let project_name = references.project.as_ref().and_then(|p| name_of(&p.metadata));
    let facts: Vec<InstanceFacts> = references.instances.iter().map(|(f, _)| f.clone()).collect();
    let links = references.project.as_ref().map(|p| routing::links(&p.spec.resources, &facts));
    let environments =
        environments(references, plan.as_deref(), project_name.as_deref(), &facts, links.as_deref());
    let instances: Vec<InstanceRef> =
        facts.iter().filter(|f| !f.host_runner).map(|f| f.instance.clone()).collect();
    let workspace_name = references.workspace.as_ref().and_then(|w| name_of(&w.metadata));
    let cloned_by = cloned_by(&facts, workspace_name.as_deref());
    let capability = routing::capability(
        references.tool.as_ref().and_then(|t| t.spec.environment.as_ref()),
        run.spec.environment.as_ref(),
    );
    let tree = references.workspace.as_ref().map(|w| routing::Tree {
        name: workspace_name.as_deref().unwrap_or_default(),
        devcontainers: w.status.as_ref().map(|s| &s.devcontainers[..]).unwrap_or_default(),
        cloned_by: is_remote_only(w).then_some(&cloned_by[..]),
    });
    let host = references.project.as_ref().and_then(|p| p.spec.host.as_ref()).and_then(|h| h.policy);
    routing::route(&routing::Request {
        workspace: tree,
        path,
        capability: &capability,
        config_name: run.spec.config_name.as_deref(),
        activate: run.spec.activate.is_some(),
        sandbox: None,
        environments: &environments,
        project: references.project.as_ref().map(|p| routing::ProjectFacts {
            name: project_name.as_deref().unwrap_or_default(),
            links: links.as_deref().unwrap_or_default(),
            detection: p.spec.devcontainer_detection.unwrap_or_default(),
        }),
        host_policy: host.unwrap_or(settings.runs.host_policy),
        devcontainers_enabled: settings.environments.enabled,
        instances: &instances,
    })
}

/// The instances that clone a workspace.
fn cloned_by(instances: &[InstanceFacts], workspace: Option<&str>) -> Vec<InstanceRef> {
    let clones = |f: &&InstanceFacts| workspace.is_some_and(|w| f.clones.iter().any(|c| c == w));
    instances.iter().filter(clones).map(|f| f.instance.clone()).collect()
}

/// The environments of the run's plan and project, as routing sees them.
fn environments<'a>(
    references: &'a References,
    plan: Option<&str>,
    project: Option<&str>,
    instances: &[InstanceFacts],
    links: Option<&[routing::Link]>,
) -> Vec<routing::Environment<'a>> {
    let exists = |instance: &InstanceRef| instances.iter().any(|f| f.instance == *instance && !f.host_runner);
    let state = |i: &InstanceRef| routing::target_state(i, exists(i), links);
    let all = references.environments.iter();
    all.filter_map(|e| routing::Environment::of(e, plan, project, state)).collect()
}

/// Whether a workspace has no checkout.
#[must_use]
pub fn is_remote_only(workspace: &Workspace) -> bool {
    workspace.spec.source.git.as_ref().is_some_and(|g| g.checkout == Some(Checkout::None))
}

/// The role of an instance: a host runner is one that a Workspace of ours made for that purpose.
#[must_use]
pub fn role_of(labels: Option<&BTreeMap<String, String>>) -> Role {
    let host =
        labels.and_then(|l| l.get(drydock_crds::label::ROLE)).is_some_and(|r| r == Role::Host.as_str());
    if host { Role::Host } else { Role::Environment }
}

#[cfg(test)]
mod tests {
    use drydock_crds::reference::InstanceKind;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_named_instance_may_come_for_as_long_as_any_other_reference() {
        let run: ToolRun = serde_json::from_value(json!({
            "apiVersion": "drydock.dev/v1alpha1", "kind": "ToolRun",
            "metadata": {"name": "r", "creationTimestamp": "1970-01-01T00:16:40Z"},
            "spec": {"command": ["true"], "environment": {"specific": {"name": "box"}}},
        }))
        .unwrap();
        let settings = Settings::default();
        let mut references = References::default();
        let waits = admit(&run, &references, &settings, at(1001));
        let Admission::Wait { reason: Reason::ReferenceNotFound, message, until } = waits else {
            panic!("{waits:?}")
        };
        assert_eq!(until, Some(at(1030)));
        assert!(message.contains("box"), "{message}");
        let ends = admit(&run, &references, &settings, at(1030));
        assert!(matches!(ends, Admission::End { outcome: Outcome::NoEnvironment, .. }), "{ends:?}");
        let instance = InstanceRef { kind: InstanceKind::ContainerInstance, name: "box".into() };
        let facts = InstanceFacts {
            instance,
            workspace: None,
            of_plan: false,
            host_runner: false,
            clones: Vec::new(),
        };
        references.instances.push((facts, "u-1".into()));
        let goes = admit(&run, &references, &settings, at(1002));
        assert!(matches!(goes, Admission::Go(_)), "{goes:?}");
    }
}

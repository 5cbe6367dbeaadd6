//! `explain`: where a run would go, and what else was considered. Reads with the caller's rights, decides here, writes
//! nothing.

mod facts;
pub(crate) mod operator;

use drydock_crds::reference::{InstanceKind, InstanceRef};
use drydock_crds::tool_run::ToolRunSpec;
use drydock_domain::name::{HostScope, host_runner};
use drydock_domain::path::{HostRoot, WorkspacePath};
use drydock_domain::routing::{self, Checkout, Refusal, Request, Sandbox, Target, Tree, Verdict};
use serde_json::{Value, json};

use crate::cli::{ExplainArgs, Global};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::kinds::short;
use crate::output;
use crate::progress::Progress;
use crate::{exit, text};
use facts::Facts;

/// Writes the verdict; 1 where there is no environment.
pub(crate) async fn explain(
    connection: &Connection,
    global: &Global,
    args: &ExplainArgs,
) -> Result<u8, Failure> {
    let spec = args.place.resolve(connection, None).await?;
    let mut progress = Progress::new(global);
    let facts = Facts::read(connection, &spec).await?;
    let operator = operator::status(connection, &global.operator_namespace).await.unwrap_or_else(|why| {
        progress.note(&format!("the operator's settings aren't known, so its defaults are assumed: {why}"));
        operator::Status::default()
    });
    let verdict = decide(&spec, &facts, &operator, args.activate)?;
    let host = host_name(&facts);
    let found = verdict.chosen.as_ref().and_then(|target| facts.instance(&resolved(target, &host)));
    let value = document(&verdict, &host, found.and_then(|i| i.uid.clone()));
    let name = verdict.chosen.as_ref().map(|t| shown(&resolved(t, &host))).unwrap_or_default();
    let text = output::document(&global.output, &name, &value).unwrap_or_else(|| {
        let state = found.map(|i| i.state.clone()).unwrap_or_default();
        for_people(&verdict, &name, &state, global)
    });
    output::write(&text);
    Ok(if verdict.chosen.is_some() { exit::DONE } else { exit::FAILED })
}

/// The verdict for the run that the spec would be.
fn decide(
    spec: &ToolRunSpec,
    facts: &Facts,
    operator: &operator::Status,
    activate: bool,
) -> Result<Verdict, Failure> {
    let rejected = |why: drydock_domain::path::PathError| {
        Failure::new("Rejected", format!("such a run would be rejected: {why}"))
    };
    let root =
        spec.path_mapping.as_ref().map(|m| HostRoot::parse(&m.host_root)).transpose().map_err(rejected)?;
    let path =
        WorkspacePath::parse(spec.path.as_deref().unwrap_or_default(), root.as_ref()).map_err(rejected)?;
    let tool = facts.tool.as_ref().and_then(|t| t.spec.environment.as_ref());
    let capability = routing::capability(tool, spec.environment.as_ref());
    let links = facts.links();
    let environments = facts.environments(links.as_deref());
    let cloned_by = facts.cloned_by();
    let checkouts: Vec<Checkout<'_>> = facts.checkouts();
    let instances = facts.existing();
    Ok(routing::route(&Request {
        workspace: facts.workspace.as_ref().map(|(name, devcontainers)| Tree {
            name,
            devcontainers,
            cloned_by: cloned_by.as_deref(),
        }),
        path: &path,
        capability: &capability,
        config_name: spec.config_name.as_deref(),
        activate,
        sandbox: facts.sandbox_plan().map(|plan| Sandbox { plan, checkouts: &checkouts }),
        environments: &environments,
        project: facts.project_facts(links.as_deref().unwrap_or_default()),
        host_policy: facts.host_policy().unwrap_or(operator.host_policy),
        devcontainers_enabled: operator.devcontainers_enabled,
        instances: &instances,
    }))
}

/// The name of the host runner that a run would go to: the workspace's, as the controller makes no other yet.
fn host_name(facts: &Facts) -> String {
    let workspace = facts.workspace.as_ref().map(|(name, _)| name.as_str());
    host_runner(workspace.unwrap_or_default(), HostScope::Workspace)
}

fn resolved(target: &Target, host: &str) -> InstanceRef {
    match target {
        Target::Instance(instance) => instance.clone(),
        Target::Host => InstanceRef { kind: InstanceKind::ContainerInstance, name: host.to_owned() },
    }
}

fn shown(instance: &InstanceRef) -> String {
    format!("{}/{}", short(&instance.kind.to_string()), instance.name)
}

/// `ToolRun.status.route` as it would be, with `outcome` and `outcomeReason` where there is no environment.
fn document(verdict: &Verdict, host: &str, uid: Option<String>) -> Value {
    let mut value = json!(verdict.to_route(host, |_| uid.clone()));
    if let Some(refusal) = verdict.refusal {
        value["outcome"] = json!("NoEnvironment");
        value["outcomeReason"] = json!(refusal.reason().as_str());
    }
    value
}

fn for_people(verdict: &Verdict, name: &str, state: &str, global: &Global) -> String {
    let target = match (&verdict.chosen, verdict.refusal) {
        (Some(Target::Host), _) => format!("host ({name})"),
        (Some(Target::Instance(_)), _) => name.to_owned(),
        (None, refusal) => refusal.map_or("NoEnvironment", |r: Refusal| r.reason().as_str()).to_owned(),
    };
    let mut head = vec![("target", target)];
    if !state.is_empty() {
        head.push(("state", state.to_owned()));
    }
    head.push(("rule", verdict.rule.map_or_else(|| "none".to_owned(), |r| r.to_string())));
    head.push(("reason", verdict.reason.clone()));
    let mut out: String =
        head.iter().map(|(key, value)| format!("{key:<8}{}\n", text::line(value))).collect();
    if verdict.considered.is_empty() {
        return out;
    }
    let rows: Vec<Vec<String>> = verdict
        .considered
        .iter()
        .map(|c| {
            vec![c.source.clone(), c.target.clone().unwrap_or_else(|| "-".to_owned()), c.verdict.clone()]
        })
        .collect();
    out.push('\n');
    out.push_str(&output::table(&["CONSIDERED", "TARGET", "VERDICT"], &rows, !global.no_headers));
    out
}

#[cfg(test)]
mod tests;

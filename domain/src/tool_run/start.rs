//! What is sent to the agent: the command with its arguments, environment, input and folder.

use drydock_crds::instance::EnvVar;
use drydock_crds::tool::{Streams, ToolSpec};
use drydock_crds::tool_run::{Claim, ToolRunSpec};
use serde_json::Value;

use super::{Observed, TargetFacts};
use crate::agent::{PodRef, RunRef, StartCall, Variable, VariableValue, What};
use crate::blueprint::RunContext;
use crate::path::{HostRoot, PathMapping, WorkspacePath};

/// The call that starts the claimed attempt of a run; nothing where the run says nothing to execute.
#[must_use]
pub fn call(seen: &Observed, target: &TargetFacts, pod: &PodRef, claim: &Claim) -> Option<StartCall> {
    let spec = &seen.run.spec;
    let meta = &seen.run.metadata;
    let tool = seen.tool.as_ref().map(|t| &t.spec);
    let effective = seen.run.status.as_ref().and_then(|s| s.effective.clone()).unwrap_or_default();
    let workspace = seen.workspace.as_ref().and_then(|w| w.metadata.name.as_deref());
    let mapping = mapping(spec, &target.context, workspace);
    let streams = spec.streams.or_else(|| tool.and_then(|t| t.streams)).unwrap_or_default();
    Some(StartCall {
        pod: pod.clone(),
        boot_id: claim.boot_id.clone(),
        run: RunRef {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        },
        attempt: u32::try_from(claim.attempt).unwrap_or_default(),
        what: what(spec, tool, mapping.as_ref())?,
        env: variables(spec, tool, target),
        stdin: stdin(spec, mapping.as_ref()),
        user: String::new(),
        working_directory: folder(spec, &target.context, workspace),
        nearest_directory: spec.working_directory.is_none(),
        timeout_ms: effective.timeout_seconds.map_or(0, |s| u64::try_from(s).unwrap_or_default() * 1000),
        output_limit: u64::try_from(effective.output_limit).unwrap_or_default(),
        combined: streams == Streams::Combined,
        keep_background: tool.and_then(|t| t.keep_background).unwrap_or_default(),
    })
}

fn mapping(spec: &ToolRunSpec, context: &RunContext, workspace: Option<&str>) -> Option<PathMapping> {
    let root = HostRoot::parse(&spec.path_mapping.as_ref()?.host_root).ok()?;
    let place = workspace.and_then(|w| context.workspaces.get(w)).filter(|p| p.sub_path.is_empty());
    Some(PathMapping::new(&root, place.map_or(context.workspace_folder.as_str(), |p| &p.path)))
}

fn what(spec: &ToolRunSpec, tool: Option<&ToolSpec>, mapping: Option<&PathMapping>) -> Option<What> {
    let mapped =
        |text: &String| mapping.map_or_else(|| text.clone(), |m| m.to_environment(text).into_owned());
    let args = spec.args.iter().map(|a| mapped(&a.0));
    let own = spec.command.as_ref().map(|c| c.iter().map(|a| a.0.clone()).collect::<Vec<_>>());
    let command = own.or_else(|| tool.and_then(|t| t.command.clone()));
    if let Some(command) = command {
        return Some(What::Argv(command.into_iter().chain(args).collect()));
    }
    let text = spec.script.clone().or_else(|| tool.and_then(|t| t.script.clone()))?;
    Some(What::Script { text, args: args.collect() })
}

fn stdin(spec: &ToolRunSpec, mapping: Option<&PathMapping>) -> Vec<u8> {
    match (&spec.stdin, &spec.input) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(input)) => {
            let mut input: Value = input.clone();
            if let Some(mapping) = mapping {
                mapping.value_to_environment(&mut input);
            }
            input.to_string().into_bytes()
        }
        (None, None) => Vec::new(),
    }
}

/// Secrets of the instance, then the tool's variables, then the run's: a later one of a name wins.
fn variables(spec: &ToolRunSpec, tool: Option<&ToolSpec>, target: &TargetFacts) -> Vec<Variable> {
    let whole = target.spec.secret_refs.iter().map(|secret| Variable {
        name: String::new(),
        value: VariableValue::WholeSecret(secret.name.clone()),
    });
    let by_reference = |e: &&EnvVar| e.secret_key_ref.is_some() || e.config_map_key_ref.is_some();
    let of_instance = target.spec.env.iter().filter(by_reference).map(variable);
    let of_tool = tool.map(|t| &t.env[..]).unwrap_or_default().iter().map(variable);
    let of_run = spec.env.iter().map(|e| Variable {
        name: e.name.clone(),
        value: match &e.secret_key_ref {
            Some(key) => VariableValue::Secret(key.clone()),
            None => VariableValue::Literal(e.value.clone().unwrap_or_default()),
        },
    });
    whole.chain(of_instance).chain(of_tool).chain(of_run).collect()
}

fn variable(of: &EnvVar) -> Variable {
    let value = match (&of.secret_key_ref, &of.config_map_key_ref) {
        (Some(key), _) => VariableValue::Secret(key.clone()),
        (None, Some(key)) => VariableValue::ConfigMap(key.clone()),
        (None, None) => VariableValue::Literal(of.value.clone().unwrap_or_default()),
    };
    Variable { name: of.name.clone(), value }
}

/// The folder that the tool starts in: what the run says, relative to the folder of its path.
fn folder(spec: &ToolRunSpec, context: &RunContext, workspace: Option<&str>) -> String {
    let base =
        path_in_environment(spec, context, workspace).unwrap_or_else(|| context.workspace_folder.clone());
    match spec.working_directory.as_deref() {
        None => base,
        Some(absolute) if absolute.starts_with('/') => absolute.to_owned(),
        Some(relative) => format!("{}/{relative}", base.trim_end_matches('/')),
    }
}

/// Where the run's path is in the environment; nothing where it names none, or it isn't mounted there.
fn path_in_environment(spec: &ToolRunSpec, context: &RunContext, workspace: Option<&str>) -> Option<String> {
    let root = spec.path_mapping.as_ref().and_then(|m| HostRoot::parse(&m.host_root).ok());
    let path = WorkspacePath::parse(spec.path.as_deref()?, root.as_ref()).ok()?;
    let place = context.workspaces.get(workspace?)?;
    let below = match (path.as_str(), place.sub_path.as_str()) {
        (".", "") => "",
        (path, "") => path,
        (path, sub) if path == sub => "",
        (path, sub) => path.strip_prefix(sub)?.strip_prefix('/')?,
    };
    let base = place.path.trim_end_matches('/');
    Some(if below.is_empty() { place.path.clone() } else { format!("{base}/{below}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blueprint::TreePlace;

    fn context(sub_path: &str) -> RunContext {
        let place = TreePlace { path: "/workspaces/shop".into(), sub_path: sub_path.into() };
        RunContext {
            workspace_folder: "/workspaces/shop/services/api".into(),
            workspaces: [("shop".to_owned(), place)].into(),
        }
    }

    #[test]
    fn a_tool_starts_in_the_folder_of_the_path() {
        for (path, cwd, sub_path, expected) in [
            (None, None, "", "/workspaces/shop/services/api"),
            (Some("."), None, "", "/workspaces/shop"),
            (Some("services/web"), None, "", "/workspaces/shop/services/web"),
            (Some("services/web"), Some("src"), "", "/workspaces/shop/services/web/src"),
            (Some("services/web"), Some("/tmp"), "", "/tmp"),
            (None, Some("src"), "", "/workspaces/shop/services/api/src"),
            (Some("services/api/x"), None, "services/api", "/workspaces/shop/x"),
            (Some("services/apis"), None, "services/api", "/workspaces/shop/services/api"),
            (Some("/home/me/shop/docs"), None, "", "/workspaces/shop/docs"),
        ] {
            let spec = ToolRunSpec {
                path: path.map(str::to_owned),
                working_directory: cwd.map(str::to_owned),
                path_mapping: Some(drydock_crds::tool_run::PathMapping { host_root: "/home/me/shop".into() }),
                ..ToolRunSpec::default()
            };
            assert_eq!(
                folder(&spec, &context(sub_path), Some("shop")),
                expected,
                "{path:?} {cwd:?} {sub_path:?}"
            );
        }
    }
}

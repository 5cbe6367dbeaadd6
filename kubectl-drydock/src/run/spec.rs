//! The ToolRun that the flags mean.

use std::collections::BTreeSet;
use std::ffi::OsString;

use drydock_crds::reference::KeyRef;
use drydock_crds::tool_run::{Activation, Argument, RunEnvVar, ToolRunSpec};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;

use crate::cli::RunArgs;
use crate::connection::Connection;
use crate::failure::Failure;

/// Script, arguments, stdin and input together, in bytes.
const CONTENT_MAX: usize = 64 * 1024;

/// What is to be run, where, and with what.
///
/// # Errors
/// Wrong usage, and files that can't be read.
pub(super) async fn spec(connection: &Connection, args: &RunArgs) -> Result<ToolRunSpec, Failure> {
    not_there_yet(args)?;
    let mut spec = args.place.resolve(connection, args.map_root.as_deref()).await?;
    let words = words(&args.command)?;
    match &args.script {
        Some(text) => {
            let script = if text == "-" { text_of("-").await? } else { text.clone() };
            if script.is_empty() {
                return Err(Failure::usage("the script is empty"));
            }
            spec.script = Some(script);
            spec.args = words;
        }
        None if spec.tool_ref.is_some() => spec.args = words,
        None if words.is_empty() => {
            return Err(Failure::usage("nothing to run: give a command after --, or --tool, or --script"));
        }
        None => spec.command = Some(words),
    }
    spec.env = environment(args)?;
    spec.working_directory.clone_from(&args.cwd);
    spec.description.clone_from(&args.description);
    if args.no_start {
        spec.activation = Some(Activation::Never);
    }
    if let Some(limit) = args.run_timeout {
        let seconds = limit.as_secs() + u64::from(limit.subsec_nanos() > 0);
        let seconds = i32::try_from(seconds).ok().filter(|s| *s > 0);
        spec.timeout_seconds =
            Some(seconds.ok_or_else(|| Failure::usage("--run-timeout must be longer than 0"))?);
    }
    if let Some(file) = &args.input {
        let text = text_of(file).await?;
        let value: Value = serde_json::from_str(&text).map_err(|error| {
            let mut failure = Failure::usage(format!("--input {file} is no JSON")).why(error.to_string());
            failure.at = Some(format!("{file}:{}:{}", error.line(), error.column()));
            failure
        })?;
        spec.input = Some(value);
    }
    bounded(&spec)?;
    Ok(spec)
}

/// The first part of a run's name: the tool, else the place.
pub(super) fn base_name(spec: &ToolRunSpec) -> String {
    let specific = spec.environment.as_ref().and_then(|e| e.specific.as_ref()).map(|s| &s.name);
    let named =
        |reference: &Option<drydock_crds::reference::LocalRef>| reference.as_ref().map(|r| r.name.clone());
    named(&spec.tool_ref)
        .or_else(|| specific.cloned())
        .or_else(|| named(&spec.workspace_ref))
        .or_else(|| named(&spec.plan_ref))
        .or_else(|| named(&spec.project_ref))
        .unwrap_or_else(|| "run".to_owned())
}

fn not_there_yet(args: &RunArgs) -> Result<(), Failure> {
    let flag = match (args.interactive, args.terminal) {
        (false, false) => return Ok(()),
        (true, true) => "-it",
        (true, false) => "-i",
        (false, true) => "-t",
    };
    Err(Failure::usage(format!("{flag} isn't there yet: a run can't be given a live stdin or a terminal"))
        .then("give the whole input by --input FILE, or a script by --script"))
}

fn words(given: &[OsString]) -> Result<Vec<Argument>, Failure> {
    let one = |word: &OsString| match word.to_str() {
        Some(text) if !text.contains('\0') => Ok(Argument(text.to_owned())),
        _ => Err(Failure::usage(format!(
            "the argument {} isn't UTF-8, and an object can hold nothing else",
            word.display()
        ))),
    };
    given.iter().map(one).collect()
}

fn environment(args: &RunArgs) -> Result<Vec<RunEnvVar>, Failure> {
    let mut variables = Vec::new();
    for given in &args.env {
        let (name, value) = given.split_once('=').ok_or_else(|| {
            Failure::usage(format!(
                "-e {given}: write NAME=VALUE; nothing of this machine's environment is passed on"
            ))
        })?;
        variables.push(RunEnvVar {
            name: variable(name, given)?,
            value: Some(value.to_owned()),
            secret_key_ref: None,
        });
    }
    for given in &args.env_from {
        let parts = given.strip_prefix("secret/").and_then(|rest| rest.split_once(':'));
        let (name, key) = parts
            .filter(|(name, key)| !name.is_empty() && !key.is_empty())
            .ok_or_else(|| Failure::usage(format!("--env-from {given}: write secret/NAME:KEY")))?;
        variables.push(RunEnvVar {
            name: variable(key, given)?,
            value: None,
            secret_key_ref: Some(KeyRef { name: name.to_owned(), key: key.to_owned() }),
        });
    }
    let mut seen = BTreeSet::new();
    match variables.iter().find(|v| !seen.insert(v.name.as_str())) {
        Some(twice) => Err(Failure::usage(format!("the variable {} is given twice", twice.name))),
        None => Ok(variables),
    }
}

fn variable(name: &str, given: &str) -> Result<String, Failure> {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let later = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.starts_with(first) && name.chars().all(later) {
        Ok(name.to_owned())
    } else {
        Err(Failure::usage(format!("{given}: {name:?} is no name of a variable")))
    }
}

/// A file's text, or stdin's.
async fn text_of(file: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let most = CONTENT_MAX as u64 + 1;
    let read = if file == "-" {
        tokio::io::stdin().take(most).read_to_end(&mut bytes).await
    } else {
        match tokio::fs::File::open(file).await {
            Ok(opened) => opened.take(most).read_to_end(&mut bytes).await,
            Err(error) => Err(error),
        }
    };
    let name = if file == "-" { "stdin" } else { file };
    read.map_err(|error| Failure::usage(format!("{name} can't be read")).why(error.to_string()))?;
    if bytes.len() > CONTENT_MAX {
        return Err(Failure::usage(format!("{name} is larger than 64 KiB, the most that a run takes")));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{name} isn't UTF-8")))
}

fn bounded(spec: &ToolRunSpec) -> Result<(), Failure> {
    let words = spec.command.iter().flatten().chain(&spec.args).map(|a| a.0.len());
    let input = spec.input.as_ref().map_or(0, |value| value.to_string().len());
    let total = words.sum::<usize>() + spec.script.as_ref().map_or(0, String::len) + input;
    if total > CONTENT_MAX {
        return Err(Failure::usage(format!(
            "command, script and input together are {total} bytes; a run takes at most {CONTENT_MAX}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Verb};

    fn args(line: &[&str]) -> RunArgs {
        match Cli::try_parse_from(["kubectl-drydock", "run"].iter().chain(line)).unwrap().verb {
            Verb::Run(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    /// No test asks a cluster: the port is closed.
    async fn spec_of(line: &[&str]) -> Result<ToolRunSpec, Failure> {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let connection = Connection {
            client: kube::Client::try_from(config).unwrap(),
            namespace: "ns".into(),
            request_timeout: std::time::Duration::from_secs(1),
        };
        spec(&connection, &args(line)).await
    }

    #[tokio::test]
    async fn a_command_is_passed_on_word_for_word() {
        let spec = spec_of(&[
            "ws/shop/a",
            "-e",
            "A=b=c",
            "--env-from",
            "secret/s:TOKEN",
            "--no-start",
            "--run-timeout",
            "1.5s",
            "--",
            "x y",
            "$(id)",
            "-n",
        ])
        .await
        .unwrap();
        let words: Vec<&str> = spec.command.as_ref().unwrap().iter().map(|a| a.0.as_str()).collect();
        assert_eq!(words, ["x y", "$(id)", "-n"]);
        assert_eq!(spec.env[0].value.as_deref(), Some("b=c"));
        assert_eq!(spec.env[1].name, "TOKEN");
        assert_eq!((spec.activation, spec.timeout_seconds), (Some(Activation::Never), Some(2)));
        assert_eq!(base_name(&spec), "shop");
        let json = serde_json::to_value(&spec).unwrap();
        assert!(json.get("args").is_none() && json.get("script").is_none(), "{json}");
    }

    #[tokio::test]
    async fn tools_and_scripts_take_arguments() {
        let spec = spec_of(&["ws/shop", "--tool", "lint", "--", "--fix"]).await.unwrap();
        assert_eq!((spec.args[0].0.as_str(), spec.command.is_none()), ("--fix", true));
        assert_eq!(base_name(&spec), "lint");
        let spec = spec_of(&["dc/web", "--script", "-e exit", "--", "1"]).await.unwrap();
        assert_eq!((spec.script.as_deref(), spec.args.len()), (Some("-e exit"), 1));
    }

    #[tokio::test]
    async fn wrong_usage_is_said_before_anything_is_asked() {
        for (line, part) in [
            (&["ws/shop"][..], "nothing to run"),
            (&["ws/shop", "-i", "--", "x"], "-i isn't there yet"),
            (&["ws/shop", "-it", "--", "x"], "-it isn't there yet"),
            (&["--", "x"], "local folder"),
            (&["https://x/y", "--", "x"], "git URL"),
            (&["ws/shop", "-e", "HOME", "--", "x"], "NAME=VALUE"),
            (&["ws/shop", "-e", "1=x", "--", "x"], "no name of a variable"),
            (&["ws/shop", "-e", "A=1", "-e", "A=2", "--", "x"], "twice"),
            (&["ws/shop", "--env-from", "configmap/x:y", "--", "x"], "secret/NAME:KEY"),
            (&["ws/shop", "--run-timeout", "0", "--", "x"], "longer than 0"),
            (&["ws/shop", "--input", "/nonexistent", "--", "x"], "can't be read"),
            (&["ws/shop", "--script", ""], "script is empty"),
        ] {
            let failure = spec_of(line).await.unwrap_err();
            assert!(failure.headline.contains(part), "{line:?}: {}", failure.headline);
            assert_eq!(failure.code, Some(crate::exit::USAGE));
        }
        let long = "x".repeat(70_000);
        assert!(spec_of(&["ws/shop", "--", &long]).await.unwrap_err().headline.contains("at most"));
    }
}

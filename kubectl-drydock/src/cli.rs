//! The command line: flags, verbs, help, and which exit code an unusable one has.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::Format;
use crate::whereabouts::Where;
use crate::{completion, duration, exit, explain, logs, output, run, version};

const EXAMPLES: &str = "\
Examples:
  kubectl drydock run ws/shop/services/api -- make test   # in the nearest dev container, exit code and all
  kubectl drydock explain ws/shop/services/api            # which environment, and why
  kubectl drydock logs trun/shop-k3v9m2qd                 # what a run wrote, when it is over too

A PLACE is ws/NAME[/PATH] (routed), dc/NAME or ctr/NAME (taken as it is).
Flags end at --; what follows is passed on unchanged.";

/// Runs commands in dev containers on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "kubectl-drydock", bin_name = "kubectl drydock", disable_version_flag = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Flags of every verb.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Common flags")]
pub(crate) struct Global {
    /// Namespace. Default: the context's.
    #[arg(short = 'n', long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// All namespaces (lists only).
    #[arg(short = 'A', long, global = true)]
    pub(crate) all_namespaces: bool,
    /// Label selector (lists only).
    #[arg(short = 'l', long, global = true, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Context of the kubeconfig.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The kubeconfig. Default: $KUBECONFIG, else ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<std::path::PathBuf>,
    /// User to act as.
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// Group to act as; can be repeated.
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub(crate) impersonate_groups: Vec<String>,
    /// Longest wait for one answer of the API server; 0: no limit.
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) request_timeout: Duration,
    /// How data is written: table, wide, json, yaml, name, jsonpath=EXPRESSION.
    #[arg(short = 'o', long, global = true, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Format,
    /// Go on watching (lists only).
    #[arg(short = 'w', long, global = true)]
    pub(crate) watch: bool,
    /// No column heads.
    #[arg(long, global = true)]
    pub(crate) no_headers: bool,
    /// No progress and no notes.
    #[arg(short = 'q', long, global = true)]
    pub(crate) quiet: bool,
    /// More notes.
    #[arg(short = 'v', long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// No colour.
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Longest wait for the outcome (exit code 124; the request stands).
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    /// false: back once the request is written.
    #[arg(long, global = true, value_name = "BOOL", default_value_t = true, num_args = 0..=1,
        default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub(crate) wait: bool,
    /// Don't ask.
    #[arg(short = 'y', long, global = true)]
    pub(crate) yes: bool,
    /// Namespace of the operator, where its ConfigMap drydock-status lies.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "DRYDOCK_OPERATOR_NAMESPACE",
        default_value = "drydock-system",
        hide_env_values = true
    )]
    pub(crate) operator_namespace: String,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run one command where it belongs, and follow it to its end.
    Run(Box<RunArgs>),
    /// Show what a run wrote.
    Logs(LogsArgs),
    /// Say where a run would go, and what else was considered. Writes nothing.
    Explain(ExplainArgs),
    /// Show the versions of client, controller and definitions.
    Version,
    /// Write the completion script of a shell.
    #[command(after_help = "\
Examples:
  source <(kubectl drydock completion bash)
  kubectl drydock completion zsh > ~/.zfunc/_kubectl-drydock")]
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// `run`.
#[derive(Args, Debug)]
#[command(
    override_usage = "kubectl drydock run [PLACE] [FLAGS] -- CMD…\n       kubectl drydock run [PLACE] [FLAGS] --tool NAME [-- ARG…]\n       kubectl drydock run [PLACE] [FLAGS] --script TEXT [-- ARG…]",
    after_help = "\
stdout and stderr come apart, live, byte for byte. Ctrl-C cancels the run and waits for its end; a second one leaves at once.
Losing this client doesn't end the run: kubectl drydock logs trun/NAME finds it.

Exit codes: the command's own; 124 timed out, 130 cancelled, 128+N signal N, 137 out of memory, 126 and 127 it can't be
executed or isn't there, 125 everything that isn't the command's (no environment, build or start failed, lost, no cluster).

Examples:
  kubectl drydock run ws/shop/services/api -- python3 -m pytest -x
  kubectl drydock run ws/shop --path services/web --script 'npm ci && npm test'
  kubectl drydock run dc/shop-services-api --no-start -- cat /etc/os-release
  kubectl drydock run ws/shop --plan fix-login --tool lint -- --fix
  kubectl drydock run ws/shop -e CI=true --env-from secret/registry:TOKEN -- ./publish.sh
  kubectl drydock run ws/shop --require Host --run-timeout 5m -o json -- make report"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) place: Where,
    /// Script that the environment's login shell runs; -: from stdin.
    #[arg(long, value_name = "TEXT", conflicts_with = "tool", allow_hyphen_values = true)]
    pub(crate) script: Option<String>,
    /// Don't start the environment: without a running one the run ends NoEnvironment.
    #[arg(long)]
    pub(crate) no_start: bool,
    /// Environment variable; can be repeated.
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Environment variable KEY from a Secret; can be repeated.
    #[arg(long, value_name = "secret/NAME:KEY")]
    pub(crate) env_from: Vec<String>,
    /// Folder to start in: absolute, or relative to the folder of the path.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<String>,
    /// File with the JSON that the tool reads on stdin; -: from stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<String>,
    /// Connect stdin. Not there yet.
    #[arg(short = 'i', long = "stdin")]
    pub(crate) interactive: bool,
    /// Give the command a terminal. Not there yet.
    #[arg(short = 't', long = "tty")]
    pub(crate) terminal: bool,
    /// Time limit of the command. Default: the tool's, else the operator's.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) run_timeout: Option<Duration>,
    /// Folder on this machine that is the workspace root: absolute paths below it, in arguments and input, are mapped.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) map_root: Option<String>,
    /// What it is for, for people.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Print the run's name and leave it running.
    #[arg(long)]
    pub(crate) detach: bool,
    /// The command, or arguments of the tool or script.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// `logs`.
#[derive(Args, Debug)]
#[command(after_help = "\
What is left of an output is said on stderr: all of it, a preview (first and last part), or nothing.

Examples:
  kubectl drydock logs trun/shop-k3v9m2qd
  kubectl drydock logs trun/shop-k3v9m2qd -f
  kubectl drydock logs trun/shop-k3v9m2qd --stderr --line 100 --lines 50
  kubectl drydock logs trun/shop-k3v9m2qd --bytes 0-1023 > head.bin")]
pub(crate) struct LogsArgs {
    /// The run: trun/NAME.
    #[arg(value_name = "trun/NAME")]
    pub(crate) run: String,
    /// Follow a run that isn't over.
    #[arg(short = 'f', long, conflicts_with_all = ["line", "bytes"])]
    pub(crate) follow: bool,
    /// stderr instead of stdout.
    #[arg(long)]
    pub(crate) stderr: bool,
    /// First line, from 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "bytes")]
    pub(crate) line: Option<u64>,
    /// How many lines.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "bytes")]
    pub(crate) lines: Option<u64>,
    /// First and last byte, from 0; without B to the end.
    #[arg(long, value_name = "A-B", value_parser = logs::parse_bytes)]
    pub(crate) bytes: Option<(u64, Option<u64>)>,
}

/// `explain`.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit code 1 where no environment may or can be used (NoEnvironment).

Examples:
  kubectl drydock explain ws/shop/services/api
  kubectl drydock explain ws/shop/docs --project shop --require Container
  kubectl drydock explain ws/shop --tool lint --plan fix-login -o yaml")]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) place: Where,
    /// As a run that only activates.
    #[arg(long)]
    pub(crate) activate: bool,
}

/// Where a tool must run; help lists the words alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum Required {
    Any,
    Container,
    Host,
}

/// Where a tool runs rather; help lists the words alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum Preferred {
    Container,
    Host,
}

/// Parses the command line; what can't be used, and help, is written and has its exit code.
pub(crate) fn parse(args: &[OsString]) -> Result<Cli, ExitCode> {
    Cli::try_parse_from(args).map_err(|error| {
        let _ = error.print();
        ExitCode::from(match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => exit::DONE,
            _ => usage_code(args),
        })
    })
}

/// The exit code of wrong usage: a command run by `run` may use 2 itself.
fn usage_code(args: &[OsString]) -> u8 {
    let verbs = ["run", "logs", "explain", "version", "completion", "help"];
    let verb = args.iter().skip(1).take_while(|a| *a != "--").find(|a| verbs.iter().any(|v| a == v));
    if verb.is_some_and(|v| v == "run") { exit::OURS } else { exit::USAGE }
}

/// Carries out the verb and writes its failure; the exit code.
pub(crate) async fn dispatch(cli: Cli) -> u8 {
    let global = &cli.global;
    let is_run = matches!(cli.verb, Verb::Run(_));
    let result = match &cli.verb {
        Verb::Completion { shell } => Ok(completion::completion(*shell)),
        verb => match lists_only(global) {
            Err(failure) => Err(failure),
            Ok(()) => match Connection::new(global).await {
                Err(failure) => Err(failure),
                Ok(connection) => match verb {
                    Verb::Run(args) => run::run(&connection, global, args).await,
                    Verb::Logs(args) => logs::logs(&connection, global, args).await,
                    Verb::Explain(args) => explain::explain(&connection, global, args).await,
                    Verb::Version | Verb::Completion { .. } => version::version(&connection, global).await,
                },
            },
        },
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            output::failure(global, &failure);
            match failure.code {
                Some(exit::USAGE) | None if is_run => exit::OURS,
                code => code.unwrap_or(exit::FAILED),
            }
        }
    }
}

/// None of these verbs is a list.
fn lists_only(global: &Global) -> Result<(), Failure> {
    let flag = if global.all_namespaces {
        "-A"
    } else if global.selector.is_some() {
        "-l"
    } else if global.watch {
        "-w"
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!("{flag} is for lists, and this verb shows one thing")))
}

#[cfg(test)]
mod tests;

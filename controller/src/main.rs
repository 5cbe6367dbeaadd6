//! `drydock-controller`: reconciles Drydock's objects.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use drydock_controller::{release, run, telemetry};

/// The C library's own, in a static binary, has one lock for all threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Reconciles Drydock's objects: runs tools in dev containers on Kubernetes.
#[derive(Parser)]
#[command(name = "drydock-controller", version, disable_help_subcommand = true)]
struct CommandLine {
    /// What is logged: a level, or a filter in tracing's syntax
    #[arg(long, env = "DRYDOCK_LOG", value_name = "FILTER", default_value = "info", global = true)]
    log: String,
    /// How a line of the log looks
    #[arg(long, env = "DRYDOCK_LOG_FORMAT", value_enum, default_value_t, global = true)]
    log_format: telemetry::Format,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the controller
    Run(run::Options),
    /// Take Drydock's finalizers off all objects, before it is uninstalled
    ReleaseFinalizers(release::Options),
    /// Print the version
    Version,
}

#[tokio::main]
async fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    telemetry::start(&command_line.log, command_line.log_format);
    let result = match command_line.verb {
        Verb::Run(options) => run::run(options).await,
        Verb::ReleaseFinalizers(options) => release::run(options).await,
        Verb::Version => return version(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the controller ends");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "it was asked for")]
fn version() -> ExitCode {
    println!("{}", env!("CARGO_PKG_VERSION"));
    ExitCode::SUCCESS
}

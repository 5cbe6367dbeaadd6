//! The command line. Every option can be given as an environment variable too, which is how a pod gives it; none of these
//! variables reaches a tool.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::install::{Folder, install_binary, make_folder};
use crate::paths::AgentDir;
use crate::runs::registry::Settings;
use crate::runs::retention::Bounds;
use crate::{identity, serve, session, supervise};

/// The TLS port where none is given.
pub const DEFAULT_PORT: u16 = 41443;
/// The health port where none is given.
pub const DEFAULT_HEALTH_PORT: u16 = 41444;
/// The agent's folder where none is given.
pub const DEFAULT_DIR: &str = "/.drydock/agent";

/// Runs tools inside an environment pod of Drydock, and records what became of them.
#[derive(Debug, Parser)]
#[command(name = "drydock-agent", version, disable_help_subcommand = true)]
struct Cli {
    /// The agent's own folder: socket, journal and output of runs.
    #[arg(long, env = "DRYDOCK_DIR", default_value = DEFAULT_DIR, global = true, value_name = "DIR")]
    dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run as PID 1: start `serve`, start it again when it dies, end everything on TERM.
    Supervise(ServeArgs),
    /// Answer the controller and the plugin.
    Serve(ServeArgs),
    /// Join standard input and output to the agent's socket.
    Session,
    /// Print one JSON line: fingerprint, boot id, port, versions. Waits until the agent answers.
    Identity {
        /// How long to wait, in seconds.
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=600))]
        timeout: u64,
    },
    /// Copy this binary, make folders.
    Install {
        /// The folder that gets the binary.
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
        /// A folder to make, as uid:gid:mode:path; can be repeated.
        #[arg(long = "mkdir", value_name = "UID:GID:MODE:PATH")]
        folders: Vec<Folder>,
    },
    /// Fetch a repository, move the tree, find configurations. Prints one JSON document.
    Checkout {
        /// A file with the specification; without it the variable DRYDOCK_CHECKOUT has it.
        #[arg(long, value_name = "FILE")]
        spec: Option<PathBuf>,
    },
    /// Give git the credential of one place (called by git).
    #[command(hide = true)]
    Credential {
        /// The folder with the credential.
        folder: PathBuf,
        /// The only place that gets it, as scheme://host:port.
        origin: String,
        /// What git wants: get, store or erase.
        action: String,
    },
    /// Print the version.
    Version,
}

#[derive(Args, Clone, Debug)]
struct ServeArgs {
    /// PEM of the CA that signs the controller's certificate. Without it there is no TLS port, only the socket.
    #[arg(long, env = "DRYDOCK_CLIENT_CA", value_name = "PEM", hide_env_values = true)]
    client_ca: Option<String>,
    /// A file with that PEM.
    #[arg(long, env = "DRYDOCK_CLIENT_CA_FILE", value_name = "FILE", conflicts_with = "client_ca")]
    client_ca_file: Option<PathBuf>,
    /// TLS port; 0: any.
    #[arg(long, env = "DRYDOCK_PORT", default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Port that answers 200 over plain HTTP while the agent is ready; 0: none.
    #[arg(long, env = "DRYDOCK_HEALTH_PORT", default_value_t = DEFAULT_HEALTH_PORT)]
    health_port: u16,
    /// Whom runs are executed as where they do not say: name or uid, with :group if wanted.
    #[arg(long, env = "DRYDOCK_USER", default_value = "", value_name = "USER")]
    user: String,
    /// The folder in which runs begin where they do not say; without it the user's home.
    #[arg(long, env = "DRYDOCK_WORKSPACE_FOLDER", default_value = "", value_name = "DIR")]
    workspace_folder: String,
    /// Runs at the same time.
    #[arg(long, env = "DRYDOCK_MAX_RUNS", default_value_t = 256)]
    max_runs: usize,
    /// Finished runs whose output is kept.
    #[arg(long, env = "DRYDOCK_KEEP_OUTPUTS", default_value_t = Bounds::default().outputs)]
    keep_outputs: usize,
    /// Bytes of output that are kept of finished runs together.
    #[arg(long, env = "DRYDOCK_KEEP_BYTES", default_value_t = Bounds::default().bytes)]
    keep_bytes: u64,
}

/// Entry of every subcommand but the shim.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = std::env::var("DRYDOCK_LOG").ok().and_then(|text| text.parse().ok());
    let filter = filter.unwrap_or(tracing_subscriber::filter::LevelFilter::INFO);
    tracing_subscriber::fmt().json().with_writer(io::stderr).with_max_level(filter).init();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "drydock-agent: {}", with_sources(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let dir = AgentDir::new(cli.dir);
    match cli.command {
        Command::Supervise(_) => {
            // The same options, so that `serve` reads them in the same way; variables are inherited.
            let mut args = std::env::args_os().skip(1).collect::<Vec<_>>();
            if let Some(at) = args.iter().position(|arg| arg == "supervise") {
                args.remove(at);
            }
            return Ok(supervise::supervise(&dir, &args)?);
        }
        Command::Serve(args) => serve_until_told(dir, args)?,
        Command::Session => session::join(&dir)?,
        Command::Identity { timeout } => {
            let identity = identity::wait_for_identity(&dir, Duration::from_secs(timeout))?;
            writeln!(io::stdout(), "{}", serde_json::to_string(&identity)?)?;
        }
        Command::Install { to, folders } => {
            for folder in &folders {
                make_folder(folder).map_err(|error| format!("{}: {error}", folder.path.display()))?;
            }
            if let Some(to) = to {
                install_binary(&to).map_err(|error| format!("{}: {error}", to.display()))?;
            }
        }
        Command::Checkout { spec } => return Ok(crate::checkout::main(spec.as_deref())),
        Command::Credential { folder, origin, action } => {
            crate::checkout::credentials::answer(&folder, &origin, &action)?;
        }
        Command::Version => writeln!(io::stdout(), "{}", env!("CARGO_PKG_VERSION"))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn serve_until_told(dir: AgentDir, args: ServeArgs) -> Result<(), Failure> {
    let client_ca = match (args.client_ca, args.client_ca_file) {
        (Some(pem), _) => Some(pem),
        (None, Some(file)) => {
            Some(std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?)
        }
        (None, None) => None,
    };
    let boot_id = std::env::var(serve::BOOT_ID_ENV).ok().filter(|id| !id.is_empty());
    let options = serve::Options {
        dir,
        runs: Settings {
            boot_id: boot_id.ok_or("serve is started by supervise, which gives it a boot id")?,
            default_user: args.user,
            default_directory: args.workspace_folder,
            max_active: args.max_runs,
            kept: Bounds { outputs: args.keep_outputs, bytes: args.keep_bytes, ..Bounds::default() },
        },
        tls: client_ca.filter(|pem| !pem.trim().is_empty()).map(|pem| (args.port, pem)),
        health_port: (args.health_port != 0).then_some(args.health_port),
    };
    // One thread: little memory, and everything that takes long is another process.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(8).build()?;
    runtime.block_on(serve::serve(options))?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}

//! The kubectl plugin: `kubectl drydock`, and by itself `kubectl-drydock`.
//!
//! It uses the caller's kubeconfig and rights. What it does to the cluster is written through objects; an environment is
//! reached through `pods/exec` alone. Data goes to stdout, everything else to stderr.

mod agent;
mod cli;
mod completion;
mod connection;
mod duration;
mod exit;
mod explain;
mod failure;
mod kinds;
mod logs;
mod output;
mod place;
mod progress;
mod run;
mod text;
mod version;
mod watch;
mod whereabouts;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let cli = match cli::parse(&args) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no runtime: {error}");
            return ExitCode::from(exit::OURS);
        }
    };
    let code = runtime.block_on(cli::dispatch(cli));
    // A blocked read of stdin or write to stdout must not hold the process back.
    runtime.shutdown_background();
    ExitCode::from(code)
}

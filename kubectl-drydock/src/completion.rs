//! `completion`: the shell's script.

use std::io::Write as _;

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::exit;

/// Writes the script to stdout.
pub(crate) fn completion(shell: clap_complete::Shell) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kubectl-drydock", &mut script);
    match std::io::stdout().write_all(&script) {
        Ok(()) => exit::DONE,
        Err(_) => exit::FAILED,
    }
}

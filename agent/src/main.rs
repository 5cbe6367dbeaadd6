//! The agent of an environment pod: one static binary with subcommands.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A run waits for this: no command line parser, no runtime.
    if std::env::args_os().nth(1).is_some_and(|name| name == drydock_agent::shim::SUBCOMMAND) {
        return drydock_agent::shim::main();
    }
    drydock_agent::cli::main()
}

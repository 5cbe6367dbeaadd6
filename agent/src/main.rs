//! The agent of an environment pod: one static binary with subcommands.

fn main() {}

//! The kubectl plugin.

fn main() {}

//! `checkout` as a real process: against a real `git http-backend` and a real sshd on loopback. Needs git, ssh and sshd,
//! and uid 0 (it becomes the owner of the tree).

#![allow(clippy::unwrap_used, clippy::panic, clippy::too_many_lines, reason = "a test that fails says where")]

mod claim;
mod git_server;
mod hostile;
mod remotes;
mod ssh;
mod tree_moves;

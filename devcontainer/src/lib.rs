//! The Dev Container Specification as pure functions.
//!
//! From the bytes of a `devcontainer.json` and the paths of a tree to a typed configuration with its variables replaced, and for
//! whatever can't be honoured a [`Diagnostic`] with file, line, column and a way to fix it. Behaviour follows the specification,
//! and where that is silent the reference command line tool.
//!
//! The crate never reads a file, a clock, an environment or a network: everything is an argument. It knows no orchestrator.
//!
//! The way through it, in the order in which a caller goes:
//! 1. [`discover::discover`]: which paths of a tree are configurations;
//! 2. [`config::parse`]: bytes to [`Config`] and diagnostics, variables as written;
//! 3. [`resolve::resolve`]: the same with every variable replaced that is known before a container exists;
//! 4. [`substitute::substitute_document`]: the second pass, once the container's environment is known;
//! 5. [`unmapped::unmapped`]: the properties that the caller doesn't honour.

pub mod config;
pub mod diagnostic;
pub mod discover;
pub mod jsonc;
pub mod path;
pub mod resolve;
pub mod substitute;
pub mod unmapped;
pub mod workspace;

pub use config::Config;
pub use diagnostic::{Diagnostic, Position, Reason, Severity};
pub use jsonc::Document;

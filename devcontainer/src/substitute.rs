//! Variables: `${localEnv:X}` and its like, replaced from explicit values.
//!
//! The rule is the reference tool's: from `${` to the first `}` on the same line; `:` separates the name from its arguments; only
//! string values are replaced, never keys; what isn't a known variable stays byte for byte; what was put in is not looked at
//! again. One difference on purpose: a default is everything after the second `:`, so `${localEnv:X:https://h:1}` works.
//!
//! | variable | replaced by |
//! |---|---|
//! | `${localEnv:X}`, `${env:X}`, each with `:default` | [`Context::local_env`]; unset: the default, else nothing |
//! | `${containerEnv:X}`, with `:default` | [`Context::container_env`]; not within the property `containerEnv`, which it comes from |
//! | `${localWorkspaceFolder}`, `${localWorkspaceFolderBasename}` | [`Context::local_workspace_folder`] |
//! | `${containerWorkspaceFolder}`, `${containerWorkspaceFolderBasename}` | [`Context::container_workspace_folder`] |
//! | `${devcontainerId}` | [`Context::devcontainer_id`] |
//!
//! A variable whose value isn't known yet stays, and a later call with more knowledge replaces it.

mod devcontainer_id;
mod scan;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::diagnostic::{Collector, Diagnostic, MAX_POINTER_CHARS, Position, Reason, Severity, cut, quote};
use crate::jsonc::{Document, pointer_token};
use crate::path::basename;

pub use devcontainer_id::devcontainer_id;

/// The most that all strings of one value may hold once replaced, in bytes.
pub const MAX_SUBSTITUTED_BYTES: usize = 4 << 20;
/// The most findings of one call.
pub const MAX_FINDINGS: usize = 100;

/// The values of variables. What is absent isn't known: those variables stay as written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Context {
    /// What `${localEnv:X}` may see; never a process's own environment.
    pub local_env: Option<BTreeMap<String, String>>,
    /// The workspace's folder outside of the container.
    pub local_workspace_folder: Option<String>,
    /// The workspace's folder in the container, its own variables replaced ([`workspace::folder`](crate::workspace::folder)).
    pub container_workspace_folder: Option<String>,
    /// See [`devcontainer_id`].
    pub devcontainer_id: Option<String>,
    /// The environment of the real container, of its image too.
    pub container_env: Option<BTreeMap<String, String>>,
}

/// What is to be said about a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum Finding {
    /// It isn't set and has no default; it became empty.
    #[error("{} isn't set and has no default, it became empty", quote(variable))]
    Unset {
        /// As written, `${localEnv:X}`.
        variable: String,
    },
    /// It needs a name and has none; it stays as written.
    #[error("{} can't be resolved because it names no environment variable", quote(variable))]
    NameMissing {
        /// As written, `${localEnv}`.
        variable: String,
    },
    /// The strings would be larger than [`MAX_SUBSTITUTED_BYTES`]; from here on they stay as written.
    #[error("the configuration becomes larger than {limit} bytes", limit = MAX_SUBSTITUTED_BYTES)]
    TooLarge,
}

/// The text with its variables replaced, and what is to be said about them, each at most once.
#[must_use]
pub fn substitute_text(text: &str, context: &Context) -> (String, Vec<Finding>) {
    let mut pass = Pass::new(context, None);
    let replaced = pass.text("", text, Legal::Everywhere);
    let mut findings: Vec<Finding> = Vec::new();
    for found in pass.findings {
        if !findings.contains(&found.finding) {
            findings.push(found.finding);
        }
    }
    (replaced, findings)
}

/// The value with the variables of every string in it replaced, at any depth, and what is to be said, each with the JSON pointer
/// of its string (a long one is cut); at most [`MAX_FINDINGS`].
#[must_use]
pub fn substitute(value: &Value, context: &Context) -> (Value, Vec<(String, Finding)>) {
    let mut pass = Pass::new(context, None);
    let value = pass.value(&mut String::new(), value, Legal::Everywhere);
    (value, pass.findings.into_iter().map(|found| (found.pointer, found.finding)).collect())
}

/// The same for a configuration: `${containerEnv:X}` stays within its property `containerEnv`, places are kept, and what is to be
/// said is told with them. An unset variable is a warning, a missing name an error.
#[must_use]
pub fn substitute_document(
    file: &str,
    document: &Document,
    context: &Context,
) -> (Document, Vec<Diagnostic>) {
    let mut pass = Pass::new(context, Some(document));
    let value = match document.value() {
        Value::Object(members) => {
            let replace = |(name, member): (&String, &Value)| {
                let legal = if name == "containerEnv" { Legal::NotContainerEnv } else { Legal::Everywhere };
                let mut pointer = format!("/{}", pointer_token(name));
                (name.clone(), pass.value(&mut pointer, member, legal))
            };
            Value::Object(members.iter().map(replace).collect())
        }
        other => pass.value(&mut String::new(), other, Legal::Everywhere),
    };
    let mut diagnostics = Collector::new(file);
    for found in pass.findings {
        let (severity, reason, fix) = found.finding.kind();
        let place = (found.pointer.as_str(), || found.position);
        diagnostics.push(severity, reason, place, found.finding.to_string(), fix);
    }
    let substituted = document.is_substituted() || context.local_env.is_some();
    (document.with_value(value, substituted), diagnostics.finish())
}

impl Finding {
    fn kind(&self) -> (Severity, Reason, &'static str) {
        match self {
            Self::Unset { .. } => (
                Severity::Warning,
                Reason::UnsetVariable,
                "set it, or write a default: ${localEnv:NAME:default}",
            ),
            Self::NameMissing { .. } => {
                (Severity::Error, Reason::InvalidVariable, "write the name after a colon: ${localEnv:NAME}")
            }
            Self::TooLarge => {
                (Severity::Error, Reason::TooLarge, "set shorter values, or use them less often")
            }
        }
    }
}

/// Whether `${containerEnv:X}` may be replaced here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Legal {
    Everywhere,
    NotContainerEnv,
}

struct Found {
    pointer: String,
    position: Option<Position>,
    finding: Finding,
}

struct Pass<'a> {
    context: &'a Context,
    document: Option<&'a Document>,
    budget: usize,
    exhausted: bool,
    findings: Vec<Found>,
}

impl<'a> Pass<'a> {
    fn new(context: &'a Context, document: Option<&'a Document>) -> Self {
        Self { context, document, budget: MAX_SUBSTITUTED_BYTES, exhausted: false, findings: Vec::new() }
    }

    fn value(&mut self, pointer: &mut String, value: &Value, legal: Legal) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(pointer, text, legal)),
            Value::Array(elements) => {
                let elements = elements.iter().enumerate();
                Value::Array(elements.map(|(i, e)| self.child(pointer, &i.to_string(), e, legal)).collect())
            }
            Value::Object(members) => {
                let replace = |(name, member): (&String, &Value)| {
                    (name.clone(), self.child(pointer, &pointer_token(name), member, legal))
                };
                Value::Object(members.iter().map(replace).collect())
            }
            other => other.clone(),
        }
    }

    fn child(&mut self, pointer: &mut String, token: &str, value: &Value, legal: Legal) -> Value {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(token);
        let replaced = self.value(pointer, value, legal);
        pointer.truncate(length);
        replaced
    }

    fn text(&mut self, pointer: &str, text: &str, legal: Legal) -> String {
        if self.exhausted {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len().min(self.budget));
        for part in scan::parts(text) {
            let piece = match part {
                scan::Part::Text(text) => Cow::Borrowed(text),
                scan::Part::Variable { written, name, arguments } => {
                    match self.variable(written, name, arguments, legal) {
                        Ok(replaced) => replaced,
                        Err((replaced, finding)) => {
                            self.find(pointer, finding);
                            replaced
                        }
                    }
                }
            };
            if out.len() + piece.len() > self.budget {
                self.find(pointer, Finding::TooLarge);
                self.exhausted = true;
                return text.to_owned();
            }
            out.push_str(&piece);
        }
        self.budget -= out.len();
        out
    }

    /// What stands for the variable, with what is to be said about it as the error.
    fn variable<'t>(
        &self,
        written: &'t str,
        name: &str,
        arguments: Option<&'t str>,
        legal: Legal,
    ) -> Result<Cow<'t, str>, (Cow<'t, str>, Finding)> {
        let known = |value: Option<&str>| value.map_or(Cow::Borrowed(written), |v| Cow::Owned(v.to_owned()));
        let local = self.context.local_workspace_folder.as_deref();
        let container = self.context.container_workspace_folder.as_deref();
        let environment = match name {
            "localEnv" | "env" => self.context.local_env.as_ref(),
            "containerEnv" if legal == Legal::Everywhere => self.context.container_env.as_ref(),
            "containerEnv" => None,
            "localWorkspaceFolder" => return Ok(known(local)),
            "localWorkspaceFolderBasename" => return Ok(known(local.map(basename))),
            "containerWorkspaceFolder" => return Ok(known(container)),
            "containerWorkspaceFolderBasename" => return Ok(known(container.map(basename))),
            "devcontainerId" => return Ok(known(self.context.devcontainer_id.as_deref())),
            _ => return Ok(Cow::Borrowed(written)),
        };
        let Some(arguments) = arguments else {
            let finding = Finding::NameMissing { variable: named(written) };
            return Err((Cow::Borrowed(written), finding));
        };
        let Some(environment) = environment else {
            return Ok(Cow::Borrowed(written));
        };
        let (key, default) = match arguments.split_once(':') {
            Some((key, default)) => (key, Some(default)),
            None => (arguments, None),
        };
        match (environment.get(key), default) {
            (Some(value), _) => Ok(Cow::Owned(value.clone())),
            (None, Some(default)) => Ok(Cow::Borrowed(default)),
            (None, None) => Err((Cow::Borrowed(""), Finding::Unset { variable: named(written) })),
        }
    }

    fn find(&mut self, pointer: &str, finding: Finding) {
        let full = self.findings.len() >= MAX_FINDINGS;
        if full && finding == Finding::TooLarge {
            self.findings.pop();
        } else if full {
            return;
        }
        let position = self.document.map(|document| document.position(pointer));
        self.findings.push(Found { pointer: cut(pointer, MAX_POINTER_CHARS), position, finding });
    }
}

/// As written, cut: a name may be as long as the file.
fn named(written: &str) -> String {
    cut(written, MAX_POINTER_CHARS)
}

#[cfg(test)]
mod tests;

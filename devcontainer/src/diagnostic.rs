//! What is wrong with a file: typed reason, place, message and the way to fix it.
//!
//! A diagnostic is data for a status, never an `Err`. It is bounded, and quotes names and keys of a file, never values that came
//! from outside of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most diagnostics that one call returns; one more than this says how many were left out.
pub const MAX_DIAGNOSTICS: usize = 100;
/// The longest JSON pointer in a diagnostic, in characters; a longer one is cut and ends with `…`.
pub const MAX_POINTER_CHARS: usize = 256;
/// The longest piece of a file that a message quotes, in characters; a longer one is cut and ends with `…`.
pub const MAX_QUOTE_CHARS: usize = 64;

/// One thing that is wrong, or worth knowing, about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// Whether the configuration can be used all the same.
    pub severity: Severity,
    /// The kind of mistake, for programs.
    pub reason: Reason,
    /// The file, as the caller named it.
    pub file: String,
    /// JSON pointer (RFC 6901) of the value; empty where the file as a whole is meant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pointer: String,
    /// Where in the file; absent where it has no place (a refused link, say).
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to write instead; empty where there is nothing to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fix: String,
}

/// A place in a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Line, from 1. Ends of lines are LF, CRLF and a lone CR.
    pub line: u32,
    /// Column in characters (Unicode scalar values), from 1; a byte order mark doesn't count.
    pub column: u32,
}

/// Whether a configuration with this diagnostic can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Severity {
    /// It can: the named part was read in the way that the message says.
    Warning,
    /// It can't: the file has to be changed.
    Error,
}

/// The kind of mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    /// The file holds nothing but white space and comments.
    Empty,
    /// The file, or what it becomes with its variables replaced, is above the limit.
    TooLarge,
    /// Arrays and objects lie in each other deeper than the limit.
    TooDeep,
    /// The file is UTF-16, not UTF-8.
    Utf16,
    /// The file isn't valid UTF-8.
    NotUtf8,
    /// The character NUL, written or escaped.
    NulCharacter,
    /// Not JSON with comments.
    Syntax,
    /// The document isn't an object.
    NotAnObject,
    /// A key stands twice in one object; the last one counts.
    DuplicateKey,
    /// A value of another type than the specification says.
    WrongType,
    /// A value of the right type that isn't one of those allowed.
    InvalidValue,
    /// A property that must be there is absent.
    MissingProperty,
    /// Properties that exclude each other.
    ConflictingProperties,
    /// The configuration names no image, Dockerfile or compose file.
    NoSource,
    /// A mount that can't be read.
    InvalidMount,
    /// A feature's reference that names nothing.
    UnresolvableFeature,
    /// A path, or a link's target, that leaves the folder it has to stay in.
    PathEscapesWorkspace,
    /// A link whose target isn't there.
    LinkTargetMissing,
    /// Links that lead to each other.
    LinkCycle,
    /// A link whose target isn't a file.
    NotAFile,
    /// A path longer than the limit.
    PathTooLong,
    /// A variable without the name it needs.
    InvalidVariable,
    /// A variable that isn't set and has no default: it became empty.
    UnsetVariable,
    /// A value that can only be judged once its variables are replaced.
    UnresolvedVariable,
    /// Old spelling that still works.
    Deprecated,
    /// More diagnostics than the limit.
    TooManyDiagnostics,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// `FILE:LINE:COLUMN: POINTER: MESSAGE (FIX)`, without the parts that are absent.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(position) = self.position {
            write!(f, ":{}:{}", position.line, position.column)?;
        }
        if !self.pointer.is_empty() {
            write!(f, ": {}", self.pointer)?;
        }
        write!(f, ": {}", self.message)?;
        if !self.fix.is_empty() {
            write!(f, " ({})", self.fix)?;
        }
        Ok(())
    }
}

/// Whether one of them is an error.
#[must_use]
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}

/// Text of a file for use in a message: quoted, control characters escaped, cut after [`MAX_QUOTE_CHARS`].
#[must_use]
pub fn quote(text: &str) -> String {
    format!("\"{}\"", cut(text, MAX_QUOTE_CHARS).escape_debug())
}

/// The first `limit` characters, with `…` in place of what is left out.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A list of diagnostics about one file that doesn't grow without bound. Errors are never left out in favour of warnings. A place is
/// only looked up for what is kept: in a file of one long line that is dear.
#[derive(Debug)]
pub(crate) struct Collector {
    file: String,
    list: Vec<Diagnostic>,
    omitted: usize,
}

impl Collector {
    pub(crate) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), list: Vec::new(), omitted: 0 }
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn push(
        &mut self,
        severity: Severity,
        reason: Reason,
        (pointer, position): (&str, impl FnOnce() -> Option<Position>),
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        if self.list.len() >= MAX_DIAGNOSTICS {
            self.omitted += 1;
            let warning = self.list.iter().rposition(|d| d.severity == Severity::Warning);
            match warning {
                Some(index) if severity == Severity::Error => drop(self.list.remove(index)),
                _ => return,
            }
        }
        self.list.push(Diagnostic {
            severity,
            reason,
            file: self.file.clone(),
            pointer: cut(pointer, MAX_POINTER_CHARS),
            position: position(),
            message: message.into(),
            fix: fix.into(),
        });
    }

    /// In order of their place in the file.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|d| d.position);
        if self.omitted > 0 {
            self.list.push(Diagnostic {
                severity: Severity::Warning,
                reason: Reason::TooManyDiagnostics,
                file: self.file,
                pointer: String::new(),
                position: None,
                message: format!("{} more are not listed", self.omitted),
                fix: String::new(),
            });
        }
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_cut_and_escaped() {
        assert_eq!(quote("a\n\"b\""), "\"a\\n\\\"b\\\"\"");
        assert_eq!(quote(&"é".repeat(65)), format!("\"{}…\"", "é".repeat(64)));
        assert_eq!(quote(&"é".repeat(64)), format!("\"{}\"", "é".repeat(64)));
    }

    #[test]
    fn the_list_is_bounded_and_errors_push_warnings_out() {
        let mut collector = Collector::new("f");
        for line in 0..250 {
            let position = Some(Position { line, column: 1 });
            collector.push(Severity::Warning, Reason::DuplicateKey, ("/a", || position), "m", "");
        }
        collector.push(Severity::Error, Reason::WrongType, ("/b", || None), "m", "");
        let list = collector.finish();
        assert_eq!(list.len(), MAX_DIAGNOSTICS + 1);
        assert!(has_errors(&list));
        assert_eq!(list[MAX_DIAGNOSTICS].reason, Reason::TooManyDiagnostics);
        assert_eq!(list[MAX_DIAGNOSTICS].message, "151 more are not listed");
    }

    #[test]
    fn serialises_flat_and_back() {
        let diagnostic = Diagnostic {
            severity: Severity::Error,
            reason: Reason::WrongType,
            file: "a/.devcontainer.json".into(),
            pointer: "/init".into(),
            position: Some(Position { line: 3, column: 9 }),
            message: "expected true or false, found a string".into(),
            fix: String::new(),
        };
        let value = serde_json::to_value(&diagnostic).unwrap();
        assert_eq!(value["line"], 3);
        assert_eq!(value["column"], 9);
        assert_eq!(serde_json::from_value::<Diagnostic>(value).unwrap(), diagnostic);
        let without = Diagnostic { position: None, ..diagnostic.clone() };
        let value = serde_json::to_value(&without).unwrap();
        assert_eq!(serde_json::from_value::<Diagnostic>(value).unwrap(), without);
        assert_eq!(
            diagnostic.to_string(),
            "a/.devcontainer.json:3:9: /init: expected true or false, found a string"
        );
    }
}

//! Typed access to a document's members: each mistake becomes a diagnostic with its place.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::diagnostic::{Collector, Diagnostic, Position, Reason, Severity, quote};
use crate::jsonc::{Document, pointer_token, type_name};

/// A value and where it is.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    pub(super) pointer: String,
    pub(super) value: &'a Value,
}

impl<'a> Node<'a> {
    pub(super) fn root(document: &'a Document) -> Self {
        Self { pointer: String::new(), value: document.value() }
    }

    /// The member of that name; `null` is none.
    pub(super) fn member(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Self { pointer: format!("{}/{}", self.pointer, pointer_token(name)), value })
    }

    /// The members of an object, `null` ones too; of anything else none.
    pub(super) fn members(&self) -> impl Iterator<Item = (&'a str, Self)> {
        let pointer = self.pointer.clone();
        self.value.as_object().into_iter().flatten().map(move |(name, value)| {
            (name.as_str(), Self { pointer: format!("{pointer}/{}", pointer_token(name)), value })
        })
    }

    /// The elements of an array; of anything else none.
    pub(super) fn elements(&self) -> impl Iterator<Item = Self> {
        let pointer = self.pointer.clone();
        let elements = self.value.as_array().into_iter().flatten().enumerate();
        elements.map(move |(index, value)| Self { pointer: format!("{pointer}/{index}"), value })
    }
}

/// Reads members and collects what is wrong with them.
pub(super) struct Reader<'a> {
    document: &'a Document,
    diagnostics: Collector,
    severity: Severity,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &str, document: &'a Document) -> Self {
        Self { document, diagnostics: Collector::new(file), severity: Severity::Error }
    }

    pub(super) fn finish(self) -> Vec<Diagnostic> {
        self.diagnostics.finish()
    }

    /// The path of the file that is read.
    pub(super) fn file(&self) -> &str {
        self.diagnostics.file()
    }

    /// Whether the text is what it will be: no variable is left to be replaced in it.
    pub(super) fn is_settled(&self, text: &str) -> bool {
        self.document.is_substituted() || !text.contains("${")
    }

    /// Reads something that isn't worth refusing a configuration for: its mistakes are warnings.
    pub(super) fn hint<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let severity = std::mem::replace(&mut self.severity, Severity::Warning);
        let value = read(self);
        self.severity = severity;
        value
    }

    pub(super) fn error(
        &mut self,
        reason: Reason,
        node: &Node<'_>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let document = self.document;
        let position = || Some(document.position(&node.pointer));
        self.diagnostics.push(self.severity, reason, (&node.pointer, position), message, fix);
    }

    /// As [`error`](Self::error), about the member's name.
    pub(super) fn key_error(
        &mut self,
        reason: Reason,
        node: &Node<'_>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let document = self.document;
        let position = || Some(document.key_position(&node.pointer));
        self.diagnostics.push(self.severity, reason, (&node.pointer, position), message, fix);
    }

    pub(super) fn warn(
        &mut self,
        reason: Reason,
        node: &Node<'_>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.hint(|reader| reader.error(reason, node, message, fix));
    }

    pub(super) fn warn_at(
        &mut self,
        reason: Reason,
        pointer: &str,
        position: Position,
        message: String,
        fix: &str,
    ) {
        self.diagnostics.push(Severity::Warning, reason, (pointer, || Some(position)), message, fix);
    }

    pub(super) fn wrong_type(&mut self, node: &Node<'_>, expected: &str) {
        let message = format!("expected {expected}, found {}", type_name(node.value));
        let fix = match node.value {
            Value::String(text)
                if matches!(text.as_str(), "true" | "false") && expected == "true or false" =>
            {
                format!("write {text} without quotes")
            }
            value @ (Value::String(_) | Value::Number(_)) if expected.starts_with("an array") => {
                format!("write [{}]", short(value))
            }
            _ => String::new(),
        };
        self.error(Reason::WrongType, node, message, fix);
    }

    pub(super) fn boolean(&mut self, parent: &Node<'_>, name: &str) -> Option<bool> {
        let node = parent.member(name)?;
        let value = node.value.as_bool();
        if value.is_none() {
            self.wrong_type(&node, "true or false");
        }
        value
    }

    pub(super) fn string(&mut self, parent: &Node<'_>, name: &str) -> Option<String> {
        let node = parent.member(name)?;
        self.string_of(&node)
    }

    pub(super) fn string_of(&mut self, node: &Node<'_>) -> Option<String> {
        let text = node.value.as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong_type(node, "a string");
        }
        text
    }

    /// A string; an empty one is none, as in the reference tool.
    pub(super) fn filled_string(&mut self, parent: &Node<'_>, name: &str) -> Option<String> {
        self.string(parent, name).filter(|text| !text.is_empty())
    }

    pub(super) fn strings(&mut self, parent: &Node<'_>, name: &str) -> Vec<String> {
        let Some(node) = parent.member(name) else {
            return Vec::new();
        };
        self.strings_of(&node, "an array of strings")
    }

    /// A string alone, or an array of them.
    pub(super) fn one_or_many(&mut self, parent: &Node<'_>, name: &str) -> Vec<String> {
        match parent.member(name) {
            Some(Node { value: Value::String(text), .. }) => vec![text.clone()],
            Some(node) => self.strings_of(&node, "a string or an array of strings"),
            None => Vec::new(),
        }
    }

    pub(super) fn strings_of(&mut self, node: &Node<'_>, expected: &str) -> Vec<String> {
        if !node.value.is_array() {
            self.wrong_type(node, expected);
        }
        node.elements().filter_map(|element| self.string_of(&element)).collect()
    }

    pub(super) fn object<'n>(&mut self, parent: &Node<'n>, name: &str) -> Option<Node<'n>> {
        let node = parent.member(name)?;
        if node.value.is_object() {
            return Some(node);
        }
        self.wrong_type(&node, "an object");
        None
    }

    /// One of an enumeration's strings.
    pub(super) fn choice<T: DeserializeOwned>(&mut self, parent: &Node<'_>, name: &str) -> Option<T> {
        let node = parent.member(name)?;
        let text = self.string_of(&node)?;
        match serde_json::from_value(Value::String(text.clone())) {
            Ok(choice) => Some(choice),
            Err(_) => {
                let fix = format!("write one of {}", allowed::<T>().join(", "));
                self.error(
                    Reason::InvalidValue,
                    &node,
                    format!("{} isn't a value of {name}", quote(&text)),
                    fix,
                );
                None
            }
        }
    }
}

/// The strings that an enumeration is read from: serde tells them when it meets another.
fn allowed<T: DeserializeOwned>() -> Vec<String> {
    let Err(error) = serde_json::from_value::<T>(Value::String(String::new())) else {
        return Vec::new();
    };
    error.to_string().split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

fn short(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        other => other.to_string(),
    }
}

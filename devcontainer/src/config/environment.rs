//! Properties that are maps of environment variables.

use indexmap::IndexMap;
use serde_json::{Number, Value};

use super::SecretHint;
use super::reader::{Node, Reader};
use crate::diagnostic::{Reason, quote};

/// Whether a name can be that of an environment variable: not empty, without `=` and NUL.
#[must_use]
pub fn is_environment_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// A map of strings; `null` members are left out.
pub(super) fn container(
    reader: &mut Reader<'_>,
    parent: &Node<'_>,
    property: &str,
) -> IndexMap<String, String> {
    let variables = remote(reader, parent, property);
    variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// A map of strings or `null`.
pub(super) fn remote(
    reader: &mut Reader<'_>,
    parent: &Node<'_>,
    property: &str,
) -> IndexMap<String, Option<String>> {
    let Some(object) = reader.object(parent, property) else {
        return IndexMap::new();
    };
    let mut variables = IndexMap::new();
    for (name, node) in object.members() {
        if !is_environment_name(name) {
            let message = format!("{} isn't a name of an environment variable", quote(name));
            reader.key_error(Reason::InvalidValue, &node, message, "write a name without =");
            continue;
        }
        let value = match node.value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(scalar(reader, &node)),
            _ => {
                reader.wrong_type(&node, "a string");
                continue;
            }
        };
        variables.insert(name.to_owned(), value);
    }
    variables
}

/// Recommended secrets. Names are those that a shell takes.
pub(super) fn secrets(reader: &mut Reader<'_>, root: &Node<'_>) -> IndexMap<String, SecretHint> {
    let Some(object) = reader.object(root, "secrets") else {
        return IndexMap::new();
    };
    let mut secrets = IndexMap::new();
    for (name, node) in object.members() {
        if !is_shell_name(name) {
            let message = format!("{} isn't a name that a shell takes", quote(name));
            reader.key_error(
                Reason::InvalidValue,
                &node,
                message,
                "use letters, digits and _, a digit not first",
            );
            continue;
        }
        if !node.value.is_object() && !node.value.is_null() {
            reader.wrong_type(&node, "an object");
        }
        let description = reader.string(&node, "description");
        let documentation_url = reader.string(&node, "documentationUrl");
        secrets.insert(name.to_owned(), SecretHint { description, documentation_url });
    }
    secrets
}

fn is_shell_name(name: &str) -> bool {
    let first = name.chars().next();
    first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A number, true or false, taken as the text that the reference tool makes of it.
fn scalar(reader: &mut Reader<'_>, node: &Node<'_>) -> String {
    let text = match node.value {
        Value::Number(number) => javascript(number),
        other => other.to_string(),
    };
    let message = format!("expected a string, found {}", super::jsonc::type_name(node.value));
    reader.warn(
        Reason::WrongType,
        node,
        format!("{message}; it is taken as {}", quote(&text)),
        format!("write {}", quote(&text)),
    );
    text
}

/// A whole number that was written with a fraction loses it there.
fn javascript(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e21 => format!("{float:.0}"),
        _ => number.to_string(),
    }
}

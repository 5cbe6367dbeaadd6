//! JSON with comments: bytes to a value that remembers where everything stood.
//!
//! Accepted beyond JSON: comments, trailing commas, a UTF-8 byte order mark, any end of line, a tab written in a string. Refused,
//! with line and column, is whatever the reference parser only recovers from (missing commas, unclosed brackets, bare keys, a
//! line break in a string …): it would make a configuration of something the user didn't write. One parser for all files of the
//! specification. It never panics, and never holds more than a small multiple of [`MAX_BYTES`].

mod convert;
mod error;
mod positions;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::diagnostic::Position;

pub use error::{JsoncError, JsoncErrorKind};
use positions::Positions;

/// The largest file, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// How deep arrays and objects may lie in each other; the outermost is 1.
pub const MAX_DEPTH: usize = 64;
/// The most duplicate keys that a document lists.
pub const MAX_DUPLICATES: usize = 100;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A parsed file: the value, members in the order written, and the place of each part.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    value: Value,
    positions: Positions,
    duplicates: Vec<DuplicateKey>,
    substituted: bool,
}

/// A key that stands twice in one object. The last value counts, as in every common parser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DuplicateKey {
    /// JSON pointer of the member.
    pub pointer: String,
    /// Where the later key stands.
    pub position: Position,
}

impl Document {
    /// The value. Of a key that stands twice it holds the last value, at the place of the first.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The value alone.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.value
    }

    /// Where the value at a JSON pointer begins; of one that isn't there, where its nearest ancestor does.
    #[must_use]
    pub fn position(&self, pointer: &str) -> Position {
        self.positions.value(pointer)
    }

    /// Where the key of the member at a JSON pointer begins; of an element of an array, and of one that isn't there, as
    /// [`position`](Self::position).
    #[must_use]
    pub fn key_position(&self, pointer: &str) -> Position {
        self.positions.key(pointer)
    }

    /// Keys that stand twice, at most [`MAX_DUPLICATES`].
    #[must_use]
    pub fn duplicates(&self) -> &[DuplicateKey] {
        &self.duplicates
    }

    /// Whether the variables that are known before a container exists were replaced
    /// ([`substitute_document`](crate::substitute::substitute_document)).
    #[must_use]
    pub fn is_substituted(&self) -> bool {
        self.substituted
    }

    /// The same places with another value of the same shape.
    pub(crate) fn with_value(&self, value: Value, substituted: bool) -> Self {
        Self { value, substituted, ..self.clone() }
    }
}

/// Parses a document of any type (image metadata is an array).
///
/// # Errors
/// With the place and reason when the file isn't JSON with comments, holds nothing, or is above a limit.
pub fn parse(bytes: &[u8]) -> Result<Document, JsoncError> {
    let text = decode(bytes)?;
    convert::document(text)
}

/// Parses a document that has to be an object: a configuration, a feature's, a lock file.
///
/// # Errors
/// As [`parse`], and when the document isn't an object (`null` isn't one).
pub fn parse_object(bytes: &[u8]) -> Result<Document, JsoncError> {
    let document = parse(bytes)?;
    if document.value.is_object() {
        return Ok(document);
    }
    let found = type_name(&document.value);
    Err(JsoncError {
        kind: JsoncErrorKind::NotAnObject { found: found.to_owned() },
        position: document.position(""),
    })
}

/// One reference token of a JSON pointer (RFC 6901): `~` and `/` escaped.
#[must_use]
pub fn pointer_token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A value's type as a message calls it.
#[must_use]
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn decode(bytes: &[u8]) -> Result<&str, JsoncError> {
    let at_start = |kind| JsoncError { kind, position: Position { line: 1, column: 1 } };
    if bytes.len() > MAX_BYTES {
        return Err(at_start(JsoncErrorKind::TooLarge { bytes: bytes.len() }));
    }
    if is_utf16(bytes) {
        return Err(at_start(JsoncErrorKind::Utf16));
    }
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned();
        JsoncError { kind: JsoncErrorKind::NotUtf8, position: positions::position_in(&valid, valid.len()) }
    })?;
    match text.find('\0') {
        Some(offset) => {
            Err(JsoncError { kind: JsoncErrorKind::Nul, position: positions::position_in(text, offset) })
        }
        None => Ok(text),
    }
}

/// By its mark, or by its first character, which in JSON is one of ASCII.
fn is_utf16(bytes: &[u8]) -> bool {
    match bytes {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => true,
        [first, second, ..] => (*first == 0) != (*second == 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests;

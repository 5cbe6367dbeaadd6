//! From the parser's syntax tree to a document.

use std::collections::BTreeMap;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, ParseStringErrorKind};
use serde_json::{Map, Number, Value};

use super::positions::{Children, Node, Positions, position_in};
use super::{Document, DuplicateKey, JsoncError, JsoncErrorKind, MAX_DEPTH, MAX_DUPLICATES, pointer_token};
use crate::diagnostic::{MAX_POINTER_CHARS, cut};

/// Comments and trailing commas; nothing else that isn't JSON.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses text that has no byte order mark and no NUL.
pub(super) fn document(text: &str) -> Result<Document, JsoncError> {
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &OPTIONS)
        .map_err(|error| syntax_error(text, &error))?;
    let Some(root) = parsed.value else {
        return Err(JsoncError { kind: JsoncErrorKind::Empty, position: position_in(text, 0) });
    };
    let mut converter = Converter { text, path: Vec::new(), duplicates: Vec::new() };
    let (value, node) = converter.value(&root, root.start())?;
    Ok(Document {
        value,
        positions: Positions::new(text, node),
        duplicates: converter.duplicates,
        substituted: false,
    })
}

struct Converter<'a> {
    text: &'a str,
    path: Vec<String>,
    duplicates: Vec<DuplicateKey>,
}

impl Converter<'_> {
    fn value(&mut self, value: &ast::Value<'_>, key: usize) -> Result<(Value, Node), JsoncError> {
        let start = value.start();
        let leaf = Children::None;
        let (converted, children) = match value {
            ast::Value::NullKeyword(_) => (Value::Null, leaf),
            ast::Value::BooleanLit(literal) => (Value::Bool(literal.value), leaf),
            ast::Value::NumberLit(literal) => (self.number(literal)?, leaf),
            ast::Value::StringLit(literal) => (Value::String(self.string(literal)?), leaf),
            ast::Value::Array(array) => self.array(array)?,
            ast::Value::Object(object) => self.object(object)?,
        };
        Ok((converted, Node { key, value: start, children }))
    }

    fn array(&mut self, array: &ast::Array<'_>) -> Result<(Value, Children), JsoncError> {
        self.enter(array.start())?;
        let mut values = Vec::with_capacity(array.elements.len());
        let mut nodes = Vec::with_capacity(array.elements.len());
        for (index, element) in array.elements.iter().enumerate() {
            self.path.push(index.to_string());
            let (value, node) = self.value(element, element.start())?;
            self.path.pop();
            values.push(value);
            nodes.push(node);
        }
        Ok((Value::Array(values), Children::Elements(nodes)))
    }

    fn object(&mut self, object: &ast::Object<'_>) -> Result<(Value, Children), JsoncError> {
        self.enter(object.start())?;
        let mut values = Map::with_capacity(object.properties.len());
        let mut nodes = BTreeMap::new();
        for property in &object.properties {
            let start = property.name.start();
            let name = match &property.name {
                ast::ObjectPropName::String(literal) => self.string(literal)?,
                ast::ObjectPropName::Word(word) => word.value.to_owned(),
            };
            self.path.push(name.clone());
            let (value, node) = self.value(&property.value, start)?;
            if values.insert(name.clone(), value).is_some() && self.duplicates.len() < MAX_DUPLICATES {
                let position = position_in(self.text, start);
                self.duplicates.push(DuplicateKey { pointer: self.pointer(), position });
            }
            self.path.pop();
            nodes.insert(name.into_boxed_str(), node);
        }
        Ok((Value::Object(values), Children::Members(nodes)))
    }

    fn enter(&self, start: usize) -> Result<(), JsoncError> {
        if self.path.len() >= MAX_DEPTH { Err(self.error(JsoncErrorKind::TooDeep, start)) } else { Ok(()) }
    }

    fn string(&self, literal: &ast::StringLit<'_>) -> Result<String, JsoncError> {
        let start = literal.start();
        if literal.text(self.text).contains(['\n', '\r']) {
            return Err(self.error(JsoncErrorKind::LineBreakInString, start));
        }
        if literal.value.contains('\0') {
            return Err(self.error(JsoncErrorKind::Nul, start));
        }
        Ok(literal.value.to_string())
    }

    fn number(&self, literal: &ast::NumberLit<'_>) -> Result<Value, JsoncError> {
        serde_json::from_str::<Number>(literal.value)
            .map(Value::Number)
            .map_err(|_| self.error(JsoncErrorKind::NumberOutOfRange, literal.start()))
    }

    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for token in &self.path {
            pointer.push('/');
            pointer.push_str(&cut(&pointer_token(token), MAX_POINTER_CHARS));
        }
        cut(&pointer, MAX_POINTER_CHARS)
    }

    fn error(&self, kind: JsoncErrorKind, offset: usize) -> JsoncError {
        JsoncError { kind, position: position_in(self.text, offset) }
    }
}

fn syntax_error(text: &str, error: &ParseError) -> JsoncError {
    let kind = match error.kind() {
        ParseErrorKind::NestingDepthExceeded => JsoncErrorKind::TooDeep,
        ParseErrorKind::String(ParseStringErrorKind::InvalidUnicodeEscapeSequence(_)) => {
            JsoncErrorKind::LoneSurrogate
        }
        ParseErrorKind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            JsoncErrorKind::LineBreakInString
        }
        other => JsoncErrorKind::Syntax { message: lower_first(&other.to_string()) },
    };
    JsoncError { kind, position: position_in(text, error.range().start) }
}

/// Messages of ours begin in lower case.
fn lower_first(message: &str) -> String {
    let mut chars = message.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

//! Turns a derived definition into the one that is installed: bounds on everything, no explicit null, a status default,
//! and advice where a pattern refuses.
//!
//! What is said once here needn't be said at each field: a string, list or map of a spec without a bound of its own gets the general one.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use schemars::generate::SchemaSettings;
use schemars::transform::{AddNullable, Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::pattern;

/// General bound of a string, in characters.
pub const MAX_STRING: u64 = 4096;
/// General bound of a list.
pub const MAX_ITEMS: u64 = 256;
/// General bound of a map.
pub const MAX_PROPERTIES: u64 = 256;
/// General bound of a number: what every JSON reader keeps exactly.
pub const MAX_INTEGER: i64 = (1 << 53) - 1;
/// Bound of one string in a map of strings.
const MAX_MAP_STRING: u64 = 1024;
/// What a string matches that says nothing else of itself.
const NO_NUL: &str = "^[^\\x00]*$";
/// A quantity as Kubernetes writes it (`resource.Quantity`), at most 32 characters.
const QUANTITY: &str = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";

/// A definition that can't be finished.
#[derive(Debug)]
pub struct SchemaError(String);

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unexpected schema: {}", self.0)
    }
}

impl std::error::Error for SchemaError {}

/// The default of `status.observedGeneration`: no controller has seen the object yet (kstatus).
#[must_use]
pub fn unobserved() -> i64 {
    -1
}

/// Schema of free-form JSON of any type.
pub fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Schema of a free-form JSON object.
pub fn free_form_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Schema of a duration in Go syntax. Bounded so that reading one never fails or overflows.
pub fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 32, "pattern": pattern::DURATION})
}

/// The definition of `K` as it is installed.
///
/// # Errors
/// When the derived schema has another shape than expected, or a pattern without advice.
pub fn definition<K: CustomResourceExt + JsonSchema>() -> Result<CustomResourceDefinition, SchemaError> {
    let mut crd = serde_json::to_value(K::crd()).map_err(|e| SchemaError(e.to_string()))?;
    let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    let mut schema = schema_of::<K>();
    for (part, bounds) in [("spec", Bounds::All), ("status", Bounds::Collections)] {
        let node = schema
            .pointer_mut(&format!("/properties/{part}"))
            .ok_or_else(|| SchemaError(format!("{kind} has no {part}")))?;
        walk(node, bounds, part)?;
    }
    schema["properties"]["status"]["default"] = json!({"observedGeneration": unobserved()});
    *crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
        .ok_or_else(|| SchemaError(format!("{kind} has no version")))? = schema;
    serde_json::from_value(crd).map_err(|e| SchemaError(e.to_string()))
}

/// The YAML of a definition, as it is committed.
///
/// # Errors
/// When it can't be serialised.
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, SchemaError> {
    let mut value = serde_json::to_value(crd).map_err(|e| SchemaError(e.to_string()))?;
    whole_numbers(&mut value);
    serde_saphyr::to_string(&value).map_err(|e| SchemaError(e.to_string()))
}

/// As kube derives it, but the documentation of an optional field goes before that of its type.
fn schema_of<K: JsonSchema>() -> Value {
    let generator = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(FieldDoc)
        .with_transform(AddNullable::default())
        .with_transform(StructuralSchemaRewriter)
        .with_transform(OptionalEnum)
        .with_transform(OptionalIntOrString)
        .into_generator();
    generator.into_root_schema_for::<K>().to_value()
}

/// Drops the description of the alternatives of an optional field that has one itself.
#[derive(Clone, Debug)]
struct FieldDoc;

impl Transform for FieldDoc {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(node) = schema.as_object_mut().filter(|node| node.contains_key("description")) else {
            return;
        };
        let Some(alternatives) = node.get_mut("anyOf").and_then(Value::as_array_mut) else {
            return;
        };
        for alternative in alternatives.iter_mut().filter_map(Value::as_object_mut) {
            alternative.remove("description");
        }
    }
}

/// Which nodes get a general bound. A status is written by the controller alone, which bounds its strings itself.
#[derive(Clone, Copy, PartialEq)]
enum Bounds {
    All,
    Collections,
}

fn walk(schema: &mut Value, bounds: Bounds, path: &str) -> Result<(), SchemaError> {
    let Some(node) = schema.as_object_mut() else {
        return Ok(());
    };
    tidy(node);
    match node.get("type").and_then(Value::as_str) {
        Some("string") if bounds == Bounds::All => bound_string(node, path)?,
        Some("array") => {
            node.entry("maxItems").or_insert(json!(MAX_ITEMS));
        }
        Some("object") if node.contains_key("additionalProperties") => {
            node.entry("maxProperties").or_insert(json!(MAX_PROPERTIES));
        }
        Some("integer") if bounds == Bounds::All => {
            node.entry("minimum").or_insert(json!(-MAX_INTEGER));
            node.entry("maximum").or_insert(json!(MAX_INTEGER));
        }
        None if node.contains_key("x-kubernetes-int-or-string") && bounds == Bounds::All => {
            node.insert("pattern".into(), json!(QUANTITY));
            node.insert("maxLength".into(), json!(32));
        }
        _ => {}
    }
    if let Some(properties) = node.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties.iter_mut() {
            walk(property, bounds, &format!("{path}.{name}"))?;
            if name == "conditions" {
                property["x-kubernetes-list-type"] = json!("map");
                property["x-kubernetes-list-map-keys"] = json!(["type"]);
            }
        }
    }
    if let Some(items) = node.get_mut("items") {
        walk(items, bounds, &format!("{path}[]"))?;
    }
    if let Some(values) = node.get_mut("additionalProperties") {
        walk(values, bounds, &format!("{path}{{}}"))?;
        if values["type"] == "string" && bounds == Bounds::All {
            values["maxLength"] = json!(MAX_MAP_STRING);
        }
    }
    Ok(())
}

/// Nulls are never sent (an absent field is absent), and the API server knows no unsigned formats.
fn tidy(node: &mut Map<String, Value>) {
    node.remove("nullable");
    if let Some(format) = node.get("format").and_then(Value::as_str)
        && (format.starts_with("uint") || format == "double")
    {
        node.remove("format");
    }
    if let Some(Value::Array(members)) = node.get_mut("enum") {
        members.retain(|m| !m.is_null());
    }
}

fn bound_string(node: &mut Map<String, Value>, path: &str) -> Result<(), SchemaError> {
    if node.contains_key("enum") {
        return Ok(());
    }
    node.entry("maxLength").or_insert(json!(MAX_STRING));
    match node.get("pattern").and_then(Value::as_str).map(str::to_owned) {
        Some(pattern) => advise(node, &pattern, path),
        None => {
            node.insert("pattern".into(), json!(NO_NUL));
            Ok(())
        }
    }
}

/// A pattern alone is refused with the pattern; a rule beside it says in words what is wanted.
fn advise(node: &mut Map<String, Value>, pattern: &str, path: &str) -> Result<(), SchemaError> {
    let advice = pattern::advice(pattern)
        .ok_or_else(|| SchemaError(format!("{path} has a pattern without advice: {pattern}")))?;
    let field = path.rsplit('.').next().unwrap_or(path);
    let quoted = pattern.replace('\\', "\\\\").replace('\'', "\\'");
    let rule = json!({"rule": format!("self.matches('{quoted}')"), "message": format!("{field} {advice}")});
    let rules = node.entry("x-kubernetes-validations").or_insert(json!([]));
    if let Some(rules) = rules.as_array_mut() {
        rules.insert(0, rule);
    }
    Ok(())
}

/// Bounds are kept as floating-point numbers; whole ones are written as such.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15)
                && number.as_i64().is_none()
            {
                #[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^53")]
                let whole = whole as i64;
                *value = json!(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

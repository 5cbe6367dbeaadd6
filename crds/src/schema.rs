//! Turns a derived definition into the one that is installed: bounds on everything, no explicit null, a status default.
//!
//! What is said once here needn't be said at each field: a string, list or map of a spec without a bound of its own gets the general one.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// General bound of a string, in characters.
pub const MAX_STRING: u64 = 4096;
/// General bound of a list.
pub const MAX_ITEMS: u64 = 256;
/// General bound of a map.
pub const MAX_PROPERTIES: u64 = 256;
/// Bound of one string in a map of strings.
const MAX_MAP_STRING: u64 = 1024;

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

/// The definition as it is installed.
///
/// # Errors
/// When the derived definition has no schema at the expected place.
pub fn finish(derived: CustomResourceDefinition) -> Result<CustomResourceDefinition, SchemaError> {
    let mut crd = serde_json::to_value(derived).map_err(|e| SchemaError(e.to_string()))?;
    let kind = crd["spec"]["names"]["kind"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let schema = crd
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties")
        .and_then(Value::as_object_mut)
        .ok_or_else(|| SchemaError(format!("{kind} has no properties")))?;
    let spec = schema
        .get_mut("spec")
        .ok_or_else(|| SchemaError(format!("{kind} has no spec")))?;
    walk(spec, Bounds::All);
    let status = schema
        .get_mut("status")
        .ok_or_else(|| SchemaError(format!("{kind} has no status")))?;
    walk(status, Bounds::Collections);
    status["default"] = json!({"observedGeneration": -1});
    serde_json::from_value(crd).map_err(|e| SchemaError(e.to_string()))
}

/// Which nodes get a general bound. A status is written by the controller alone, which bounds its strings itself.
#[derive(Clone, Copy, PartialEq)]
enum Bounds {
    All,
    Collections,
}

fn walk(schema: &mut Value, bounds: Bounds) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    tidy(node);
    match node.get("type").and_then(Value::as_str) {
        Some("string") if bounds == Bounds::All => bound_string(node, MAX_STRING),
        Some("array") => bound_array(node),
        Some("object") if node.contains_key("additionalProperties") => {
            node.entry("maxProperties").or_insert(json!(MAX_PROPERTIES));
        }
        _ => {}
    }
    if let Some(properties) = node.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties.iter_mut() {
            walk(property, bounds);
            if name == "conditions" {
                property["x-kubernetes-list-type"] = json!("map");
                property["x-kubernetes-list-map-keys"] = json!(["type"]);
            }
        }
    }
    if let Some(items) = node.get_mut("items") {
        walk(items, bounds);
    }
    if let Some(values) = node.get_mut("additionalProperties") {
        walk(values, bounds);
        if values["type"] == "string" && bounds == Bounds::All {
            values["maxLength"] = json!(MAX_MAP_STRING);
        }
    }
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

fn bound_string(node: &mut Map<String, Value>, max: u64) {
    if node.contains_key("enum") || node.contains_key("x-kubernetes-int-or-string") {
        return;
    }
    node.entry("maxLength").or_insert(json!(max));
    if !node.contains_key("pattern") && !node.contains_key("format") {
        node.insert("pattern".into(), json!("^[^\\x00]*$"));
    }
}

fn bound_array(node: &mut Map<String, Value>) {
    node.entry("maxItems").or_insert(json!(MAX_ITEMS));
}

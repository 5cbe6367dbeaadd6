//! Makes an object that a schema admits: either with every field, or with the required ones alone.

use drydock_crds::pattern;
use serde_json::{Map, Value, json};

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fields {
    All,
    Required,
}

pub(crate) fn sample(schema: &Value, fields: Fields) -> Value {
    if let Some(members) = schema["enum"].as_array() {
        return members.last().unwrap().clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("1500m");
    }
    match schema["type"].as_str() {
        Some("object") => object(schema, fields),
        Some("array") => json!([sample(&schema["items"], fields)]),
        Some("string") => string(schema),
        Some("integer") => number(schema),
        Some("boolean") => json!(true),
        None => json!({"any": ["thing", 1, null]}),
        Some(other) => panic!("no sample of type {other}"),
    }
}

fn object(schema: &Value, fields: Fields) -> Value {
    if schema["additionalProperties"].is_object() {
        return json!({"key": sample(&schema["additionalProperties"], fields)});
    }
    let Some(properties) = schema["properties"].as_object() else {
        return match schema["x-kubernetes-preserve-unknown-fields"] == true {
            true => json!({"free": {"form": [1, "two"]}}),
            false => json!({}),
        };
    };
    let required = schema["required"].as_array();
    let wanted = |name: &str| fields == Fields::All || required.is_some_and(|r| r.iter().any(|n| n == name));
    let members: Map<String, Value> = properties
        .iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, property)| (name.clone(), sample(property, fields)))
        .collect();
    Value::Object(members)
}

fn string(schema: &Value) -> Value {
    if schema["format"] == "date-time" {
        return json!("2026-01-02T03:04:05Z");
    }
    json!(match schema["pattern"].as_str() {
        Some(pattern::DURATION) => "90s",
        Some(pattern::ABSOLUTE_PATH) => "/work/tree",
        Some(pattern::HOST) => "git.example.com:8443",
        Some(pattern::VARIABLE) => "MODE",
        _ => "shop",
    })
}

fn number(schema: &Value) -> Value {
    match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
        #[expect(clippy::cast_possible_truncation, reason = "bounds are whole")]
        (Some(minimum), Some(maximum)) => json!(((minimum + maximum) / 2.0) as i64),
        _ => json!(7),
    }
}

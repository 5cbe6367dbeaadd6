//! What every schema must hold, so that the API server takes it and a user can read it.

use serde_json::Value;

use super::{all, schema};

/// etcd's limit is above 1 MB, client-side apply keeps the whole object in an annotation of at most 256 KiB.
const MAX_BYTES: usize = 200_000;
const FORMATS: [&str; 3] = ["int32", "int64", "date-time"];

/// Calls `check` with every node below `node` and its path.
fn visit(node: &Value, path: &str, check: &mut dyn FnMut(&str, &Value)) {
    check(path, node);
    if let Some(properties) = node["properties"].as_object() {
        for (name, property) in properties {
            visit(property, &format!("{path}.{name}"), check);
        }
    }
    if node["items"].is_object() {
        visit(&node["items"], &format!("{path}[]"), check);
    }
    if node["additionalProperties"].is_object() {
        visit(&node["additionalProperties"], &format!("{path}{{}}"), check);
    }
}

/// Every path at which `complaint` finds something, of all kinds.
fn complaints(part: &str, complaint: impl Fn(&str, &Value) -> Option<&'static str>) -> Vec<String> {
    let mut found = Vec::new();
    for (kind, crd) in all() {
        let node = match part {
            "" => schema(&crd),
            part => &schema(&crd)["properties"][part],
        };
        let root = if part.is_empty() { kind } else { format!("{kind}.{part}") };
        visit(node, &root, &mut |path, node| {
            if let Some(complaint) = complaint(path, node) {
                found.push(format!("{path}: {complaint}"));
            }
        });
    }
    found
}

const NOTHING: [&str; 0] = [];

#[test]
fn every_node_is_structural() {
    let found = complaints("", |_, node| {
        let typed = node["type"].is_string()
            || node["x-kubernetes-int-or-string"] == true
            || node["x-kubernetes-preserve-unknown-fields"] == true;
        let keys = node.as_object()?;
        match () {
            () if !typed => Some("has no type"),
            () if keys.contains_key("$ref") => Some("has a $ref"),
            () if ["oneOf", "anyOf", "allOf", "not"].iter().any(|k| keys.contains_key(*k)) => {
                Some("has alternatives, which the API server explains badly")
            }
            () if node["nullable"] == true => Some("may be null, where absent is meant"),
            () if node["type"] == "number" => Some("is a floating-point number"),
            () if node["additionalProperties"].is_boolean() => Some("takes any property"),
            () => None,
        }
    });
    assert_eq!(found, NOTHING);
}

#[test]
fn every_format_is_one_that_the_api_server_knows() {
    let found = complaints("", |_, node| {
        let format = node["format"].as_str()?;
        (!FORMATS.contains(&format)).then_some("has an unknown format")
    });
    assert_eq!(found, NOTHING);
}

#[test]
fn everything_in_a_spec_is_bounded() {
    let found = complaints("spec", |_, node| match node["type"].as_str() {
        Some("string") if node["enum"].is_array() => None,
        Some("string") if !node["maxLength"].is_u64() => Some("is a string without maxLength"),
        Some("string") if !node["pattern"].is_string() => Some("is a string that may hold NUL"),
        Some("array") if !node["maxItems"].is_u64() => Some("is a list without maxItems"),
        Some("object") if node["additionalProperties"].is_object() && !node["maxProperties"].is_u64() => {
            Some("is a map without maxProperties")
        }
        Some("integer") if !node["minimum"].is_number() || !node["maximum"].is_number() => {
            Some("is a number without minimum and maximum")
        }
        None if node["x-kubernetes-int-or-string"] == true && !node["maxLength"].is_u64() => {
            Some("is a quantity without maxLength")
        }
        _ => None,
    });
    assert_eq!(found, NOTHING);
}

#[test]
fn every_list_and_map_of_a_status_is_bounded() {
    let found = complaints("status", |_, node| match node["type"].as_str() {
        Some("array") if !node["maxItems"].is_u64() => Some("is a list without maxItems"),
        Some("object") if node["additionalProperties"].is_object() && !node["maxProperties"].is_u64() => {
            Some("is a map without maxProperties")
        }
        _ => None,
    });
    assert_eq!(found, NOTHING);
}

#[test]
fn every_field_is_documented() {
    for (kind, crd) in all() {
        let mut found = Vec::new();
        visit(schema(&crd), &kind, &mut |path, node| {
            for (name, property) in node["properties"].as_object().into_iter().flatten() {
                let text = property["description"].as_str().unwrap_or_default();
                if text.len() < 4 || text.contains("Auto-generated") {
                    found.push(format!("{path}.{name}"));
                }
            }
        });
        // apiVersion, kind and metadata are added by the API server.
        assert_eq!(found, NOTHING, "without documentation");
        assert!(schema(&crd)["description"].as_str().unwrap().ends_with('.'), "{kind}");
    }
}

#[test]
fn the_documentation_of_an_optional_field_goes_before_that_of_its_type() {
    let crds = all();
    let (_, workspace) = crds.iter().find(|(kind, _)| kind == "Workspace").unwrap();
    let checkout = schema(workspace)
        .pointer("/properties/spec/properties/source/properties/git/properties/checkout/description")
        .unwrap();
    assert!(checkout.as_str().unwrap().starts_with("Whether the repository is cloned"), "{checkout}");
}

#[test]
fn nothing_is_called_phase() {
    let found = complaints("", |path, _| path.to_lowercase().ends_with(".phase").then_some("is a phase"));
    assert_eq!(found, NOTHING);
}

#[test]
fn conditions_are_a_map_by_type() {
    for (kind, crd) in all() {
        let conditions = &schema(&crd)["properties"]["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map", "{kind}");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], serde_json::json!(["type"]), "{kind}");
    }
}

#[test]
fn an_object_that_nobody_saw_says_so() {
    for (kind, crd) in all() {
        let status = &schema(&crd)["properties"]["status"];
        assert_eq!(status["default"], serde_json::json!({"observedGeneration": -1}), "{kind}");
        let required = status["required"].as_array();
        assert!(
            required.is_none_or(|names| names.iter().all(|name| name == "observedGeneration")),
            "{kind}: the default lacks {required:?}"
        );
    }
}

#[test]
fn every_rule_says_how_to_mend_the_object() {
    let found = complaints("", |_, node| {
        let rules = node["x-kubernetes-validations"].as_array()?;
        let bad = rules.iter().any(|rule| rule["message"].as_str().is_none_or(|text| text.len() < 15));
        bad.then_some("has a rule without a message")
    });
    assert_eq!(found, NOTHING);
}

#[test]
fn the_columns_say_ready_why_and_since_when() {
    for (kind, crd) in all() {
        let columns: Vec<&str> = crd["spec"]["versions"][0]["additionalPrinterColumns"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|column| column["priority"].as_i64().unwrap_or(0) == 0)
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        for expected in ["Ready", "Reason", "Age"] {
            assert!(columns.contains(&expected), "{kind} has no column {expected}: {columns:?}");
        }
        assert_eq!(columns.last(), Some(&"Age"), "{kind}");
    }
}

#[test]
fn names_are_those_of_the_documentation() {
    let expected = [
        ("Workspace", "workspaces", Some("ws")),
        ("DevcontainerInstance", "devcontainerinstances", Some("dc")),
        ("ContainerInstance", "containerinstances", Some("ctr")),
        ("ExecutionEnvironment", "executionenvironments", Some("xenv")),
        ("Project", "projects", Some("proj")),
        ("Plan", "plans", None),
        ("Tool", "tools", None),
        ("ToolRun", "toolruns", Some("trun")),
        ("Snapshot", "snapshots", None),
    ];
    let all = all();
    assert_eq!(all.len(), expected.len());
    for ((kind, crd), (expected_kind, plural, short)) in all.iter().zip(expected) {
        assert_eq!(kind, expected_kind);
        let names = &crd["spec"]["names"];
        assert_eq!(names["plural"], plural);
        assert_eq!(names["shortNames"][0].as_str(), short, "{kind}");
        assert_eq!(names["categories"][0], "drydock", "{kind}");
        assert_eq!(crd["spec"]["scope"], "Namespaced", "{kind}");
        assert!(crd["spec"]["versions"][0]["subresources"]["status"].is_object(), "{kind}");
    }
}

#[test]
fn selectable_fields_exist() {
    for (kind, crd) in all() {
        for field in crd["spec"]["versions"][0]["selectableFields"].as_array().into_iter().flatten() {
            let path = field["jsonPath"].as_str().unwrap();
            let pointer = path.split('.').skip(1).fold(String::new(), |p, name| p + "/properties/" + name);
            assert_eq!(
                schema(&crd).pointer(&pointer).map(|node| node["type"].clone()),
                Some("string".into()),
                "{kind}{path}"
            );
        }
    }
}

#[test]
fn every_definition_fits_into_an_annotation() {
    for (kind, crd) in all() {
        let bytes = serde_json::to_string(&crd).unwrap().len();
        assert!(bytes < MAX_BYTES, "{kind} is {bytes} bytes");
    }
}

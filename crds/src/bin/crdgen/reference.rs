//! `docs/reference/api.md`: every kind with every field, as the schemas have them.

use std::fmt::Write;

use serde_json::Value;

const INTRODUCTION: &str = "<!-- Generated from the API types by `make generate`. -->
# API reference: `drydock.dev/v1alpha1`

All kinds are namespaced; every reference stays in its own namespace. `kubectl explain KIND.spec` prints the same texts.
Condition types and reasons are listed in [conditions.md](conditions.md).
";

/// The whole page.
pub(crate) fn page(crds: &[Value]) -> String {
    let mut page = String::from(INTRODUCTION);
    page.push('\n');
    for crd in crds {
        let kind = kind(crd);
        let _ = writeln!(page, "- [{kind}](#{})", kind.to_lowercase());
    }
    for crd in crds {
        section(&mut page, crd);
    }
    page
}

/// The kind of a definition.
pub(crate) fn kind(crd: &Value) -> &str {
    crd["spec"]["names"]["kind"].as_str().unwrap_or_default()
}

fn section(page: &mut String, crd: &Value) {
    let names = &crd["spec"]["names"];
    let version = &crd["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let _ = writeln!(page, "\n## {}\n\n{}\n", kind(crd), text(schema));
    let mut facts = vec![format!("`kubectl get {}`", names["plural"].as_str().unwrap_or_default())];
    if let Some(short) = names["shortNames"][0].as_str() {
        facts.push(format!("short name `{short}`"));
    }
    let selectable: Vec<String> = version["selectableFields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|field| format!("`{}`", field["jsonPath"].as_str().unwrap_or_default()))
        .collect();
    if !selectable.is_empty() {
        facts.push(format!("field selectors {}", selectable.join(", ")));
    }
    let _ = writeln!(page, "{}.", facts.join(", "));
    for part in ["spec", "status"] {
        let node = &schema["properties"][part];
        let _ = writeln!(page, "\n### {} {part}\n\n| field | type | what it is |\n|---|---|---|", kind(crd));
        rows(page, node, "");
        rules(page, node, part);
    }
}

fn rows(page: &mut String, node: &Value, prefix: &str) {
    let required = node["required"].as_array();
    for (name, property) in node["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let must = required.is_some_and(|names| names.iter().any(|n| n == name));
        let _ = writeln!(
            page,
            "| `{path}`{} | {} | {} |",
            if must { " *" } else { "" },
            type_of(property),
            cell(text(property))
        );
        // Conditions are the same everywhere; their fields are Kubernetes' own.
        if name != "conditions" {
            rows(page, property, &format!("{path}."));
            rows(page, &property["items"], &format!("{path}[]."));
            rows(page, &property["additionalProperties"], &format!("{path}{{}}."));
        }
    }
}

/// The rules on `node` itself, which no single field explains.
fn rules(page: &mut String, node: &Value, part: &str) {
    let rules: Vec<&str> = node["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|rule| rule["message"].as_str())
        .collect();
    if rules.is_empty() {
        return;
    }
    let _ = writeln!(page, "\nThe API server refuses a {part} otherwise:\n");
    for rule in rules {
        let _ = writeln!(page, "- {rule}");
    }
}

fn text(node: &Value) -> &str {
    node["description"].as_str().unwrap_or_default()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn type_of(node: &Value) -> String {
    if let Some(members) = node["enum"].as_array() {
        let members: Vec<String> =
            members.iter().filter_map(Value::as_str).map(|m| format!("`{m}`")).collect();
        return members.join(", ");
    }
    if node["x-kubernetes-int-or-string"] == true {
        return "quantity".into();
    }
    match node["type"].as_str() {
        Some("array") => format!("list of {}", type_of(&node["items"])),
        Some("object") if node["additionalProperties"].is_object() => {
            format!("map of {}", type_of(&node["additionalProperties"]))
        }
        Some("string") if node["format"] == "date-time" => "time".into(),
        Some(name) => name.into(),
        None => "any JSON".into(),
    }
}

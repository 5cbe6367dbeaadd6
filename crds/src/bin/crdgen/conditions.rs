//! `docs/reference/conditions.md`: the closed vocabulary of conditions, from the enums and the schemas.

use std::fmt::Write;

use drydock_crds::tool_run::{Outcome, RouteRule};
use drydock_crds::{ConditionType, ProvisioningState, Reason};
use serde_json::Value;
use strum::{EnumMessage, IntoEnumIterator};

use super::reference::kind;

const INTRODUCTION: &str = "<!-- Generated from the API types by `make generate`. -->
# Conditions and reasons

Conditions are `metav1.Condition`. `Ready`, `Reconciling` and `Stalled` follow kstatus, so `kubectl wait`, Flux and `helm --wait` end on success
and on failure. `Stalled` is only for what needs a person. Types and reasons are API: they are never renamed within a version.
";

/// The whole page.
pub(crate) fn page(crds: &[Value]) -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n## Types\n\n| type | kinds | meaning when `True` |\n|---|---|---|\n");
    for condition in ConditionType::iter() {
        let kinds: Vec<&str> = crds.iter().filter(|crd| has(crd, condition)).map(kind).collect();
        let kinds = if kinds.len() == crds.len() { "all".to_owned() } else { kinds.join(", ") };
        let _ = writeln!(page, "| `{condition}` | {kinds} | {} |", documentation(&condition));
    }
    table(&mut page, "Reasons of conditions, transitions, Events and requests", "reason", Reason::iter());
    table(&mut page, "States of an environment", "`status.provisioningState`", ProvisioningState::iter());
    table(&mut page, "Outcomes of a tool run", "`status.outcome`", Outcome::iter());
    table(&mut page, "Rules of routing", "`status.route.rule`", RouteRule::iter());
    page
}

/// Whether the documentation of a kind's conditions names the type.
fn has(crd: &Value, condition: ConditionType) -> bool {
    crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/conditions/description")
        .and_then(Value::as_str)
        .is_some_and(|text| text.contains(&format!("`{condition}`")))
}

fn table<E: EnumMessage + std::fmt::Display>(
    page: &mut String,
    title: &str,
    column: &str,
    members: impl Iterator<Item = E>,
) {
    let _ = writeln!(page, "\n## {title}\n\n| {column} | meaning |\n|---|---|");
    for member in members {
        let _ = writeln!(page, "| `{member}` | {} |", documentation(&member));
    }
}

fn documentation(member: &impl EnumMessage) -> &'static str {
    member.get_documentation().unwrap_or_default()
}

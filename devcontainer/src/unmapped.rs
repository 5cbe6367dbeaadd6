//! Which properties of a configuration a caller doesn't honour, so that none is ignored silently.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{KNOWN_PROPERTIES, known_members};
use crate::diagnostic::cut;

/// The most that one answer lists.
pub const MAX_UNMAPPED: usize = 100;
/// The longest property name in an answer, in characters; a longer one is cut.
pub const MAX_PROPERTY_CHARS: usize = 128;

/// A property that isn't honoured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unmapped {
    /// `name`, or `name.member`.
    pub property: String,
    /// Why.
    pub reason: UnmappedReason,
}

/// Why a property isn't honoured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum UnmappedReason {
    /// The specification doesn't have it.
    UnknownProperty,
    /// The caller doesn't implement it.
    NotImplemented,
}

/// The properties of a configuration (the document's value) that the caller doesn't honour, in the order written, at most
/// [`MAX_UNMAPPED`].
///
/// `honoured` holds names of properties, each with all that is in it, or `name.member` where only some of it is. `null`, an empty
/// object and an empty array ask for nothing, and `$schema` never does. An unknown key is listed once, whatever is in it. Who
/// honours `customizations` honours the old `extensions`, `settings` and `devPort`; who honours `build` honours `dockerFile` and
/// `context`.
#[must_use]
pub fn unmapped(config: &Value, honoured: &BTreeSet<&str>) -> Vec<Unmapped> {
    let members = config.as_object().into_iter().flatten();
    members.flat_map(|(name, value)| of_property(name, value, honoured)).take(MAX_UNMAPPED).collect()
}

fn of_property(name: &str, value: &Value, honoured: &BTreeSet<&str>) -> Vec<Unmapped> {
    if !KNOWN_PROPERTIES.contains(&name) {
        return vec![because(name, UnmappedReason::UnknownProperty)];
    }
    if name == "$schema" || asks_for_nothing(value) {
        return Vec::new();
    }
    let whole = std::iter::once(name).chain(modern(name).iter().copied()).any(|name| honoured.contains(name));
    let prefix = format!("{name}.");
    let partly = honoured.iter().any(|honoured| honoured.starts_with(&prefix));
    let Some(object) = value.as_object().filter(|_| partly || known_members(name).is_some()) else {
        return if whole { Vec::new() } else { vec![because(name, UnmappedReason::NotImplemented)] };
    };
    let known = |key: &str| known_members(name).is_none_or(|members| members.contains(&key));
    let of_member = |(key, value): (&String, &Value)| {
        let property = format!("{name}.{key}");
        if !known(key) {
            return Some(because(&property, UnmappedReason::UnknownProperty));
        }
        let ignored = !whole && partly && !asks_for_nothing(value) && !honoured.contains(property.as_str());
        ignored.then(|| because(&property, UnmappedReason::NotImplemented))
    };
    let property = (!whole && !partly).then(|| because(name, UnmappedReason::NotImplemented));
    property.into_iter().chain(object.iter().filter_map(of_member)).take(MAX_UNMAPPED).collect()
}

/// The name that is bounded as an answer's is.
pub(crate) fn bounded(property: &str) -> String {
    cut(property, MAX_PROPERTY_CHARS)
}

fn because(property: &str, reason: UnmappedReason) -> Unmapped {
    Unmapped { property: bounded(property), reason }
}

fn asks_for_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// What honours an old property too.
fn modern(name: &str) -> &'static [&'static str] {
    match name {
        "extensions" | "settings" | "devPort" => &["customizations"],
        "dockerFile" => &["build", "build.dockerfile"],
        "context" => &["build", "build.context"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listed(config: &Value, honoured: &[&str]) -> Vec<(String, UnmappedReason)> {
        let answer = unmapped(config, &honoured.iter().copied().collect());
        answer.into_iter().map(|unmapped| (unmapped.property, unmapped.reason)).collect()
    }

    #[test]
    fn what_isn_t_honoured_is_listed_in_the_order_written() {
        use UnmappedReason::{NotImplemented, UnknownProperty};
        let config = json!({
            "$schema": "x", "runArgs": ["--init"], "image": "deb", "foo": {"bar": {"baz": 1}}, "mounts": [],
            "postCreateCommand": "make", "init": null, "hostRequirements": {"cpus": 2, "gpu": true, "moon": 1},
            "build": {"args": {"A": "1"}, "shoes": 1}, "extensions": ["a"], "context": "..",
        });
        assert_eq!(
            listed(&config, &["image", "hostRequirements.cpus", "build", "customizations"]),
            [
                ("runArgs".to_owned(), NotImplemented),
                ("foo".to_owned(), UnknownProperty),
                ("postCreateCommand".to_owned(), NotImplemented),
                ("hostRequirements.gpu".to_owned(), NotImplemented),
                ("hostRequirements.moon".to_owned(), UnknownProperty),
                ("build.shoes".to_owned(), UnknownProperty),
            ]
        );
        assert_eq!(
            listed(
                &json!({"build": {"args": {"A": "1"}}, "settings": {"a": 1}, "context": ".."}),
                &["build.args"]
            ),
            [("settings".to_owned(), NotImplemented), ("context".to_owned(), NotImplemented)]
        );
    }

    #[test]
    fn everything_honoured_nothing_listed() {
        let config: serde_json::Map<String, Value> =
            KNOWN_PROPERTIES.iter().map(|name| ((*name).to_owned(), json!("x"))).collect();
        assert_eq!(listed(&Value::Object(config), KNOWN_PROPERTIES), []);
        assert_eq!(listed(&json!([1]), &[]), []);
    }

    #[test]
    fn the_answer_is_bounded() {
        let config: serde_json::Map<String, Value> =
            (0..300).map(|i| (format!("{}{i}", "é".repeat(200)), json!(1))).collect();
        let answer = listed(&Value::Object(config), &[]);
        assert_eq!(answer.len(), MAX_UNMAPPED);
        assert_eq!(answer[0].0.chars().count(), MAX_PROPERTY_CHARS + 1);
    }
}

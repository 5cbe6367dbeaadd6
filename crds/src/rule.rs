//! CEL rules that several kinds share, composed so that the message always says how to mend the object.

use kube::core::Rule;

/// Exactly one of `fields` is set on the object that carries the rule.
#[must_use]
pub fn exactly_one(fields: &[&str]) -> Rule {
    Rule::new(format!("{} == 1", count(fields)))
        .message(format!("set exactly one of {}", listed(fields)).as_str())
}

/// At most one of `fields` is set on the object that carries the rule.
#[must_use]
pub fn at_most_one(fields: &[&str]) -> Rule {
    Rule::new(format!("{} <= 1", count(fields)))
        .message(format!("set at most one of {}", listed(fields)).as_str())
}

/// None of `fields` may be added, changed or removed once the object exists.
#[must_use]
pub fn immutable(fields: &[&str], advice: &str) -> Rule {
    let same = fields
        .iter()
        .map(|f| format!("has(self.{f}) == has(oldSelf.{f}) && (!has(self.{f}) || self.{f} == oldSelf.{f})"))
        .collect::<Vec<_>>()
        .join(" && ");
    Rule::new(same).message(advice)
}

/// The name of the object that carries the rule (a root object) fits into a label value.
#[must_use]
pub fn short_name() -> Rule {
    Rule::new("self.metadata.name.size() <= 63").message(
        "metadata.name must be at most 63 characters, as it is used in labels and in names of children",
    )
}

fn count(fields: &[&str]) -> String {
    let each = fields.iter().map(|f| format!("(has(self.{f}) ? 1 : 0)")).collect::<Vec<_>>();
    each.join(" + ")
}

fn listed(fields: &[&str]) -> String {
    fields.join(", ")
}

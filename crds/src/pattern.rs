//! Patterns that strings of a spec must match, each with what to say when one doesn't.

pub use crate::reference::{NAME_PATTERN, SUBDOMAIN_PATTERN};

/// A duration in Go syntax, without a sign: never negative, and small enough to be added up.
pub const DURATION: &str = r"^([0-9]{1,6}(\.[0-9]{1,6})?(ns|us|ms|s|m|h)){1,4}$";
/// An absolute path.
pub const ABSOLUTE_PATH: &str = "^/[^\\x00]*$";
/// A path from some root.
pub const RELATIVE_PATH: &str = "^[^/\\x00][^\\x00]*$";
/// The key of a Secret or ConfigMap.
pub const KEY: &str = "^[-._a-zA-Z0-9]+$";
/// A host, with a port or without.
pub const HOST: &str = "^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?$";
/// A user of a container, by name or number, with a group or without.
pub const USER: &str = "^[A-Za-z0-9_][-A-Za-z0-9_.]*(:[A-Za-z0-9_][-A-Za-z0-9_.]*)?$";
/// The name of an environment variable.
pub const VARIABLE: &str = "^[A-Za-z_][A-Za-z0-9_.-]*$";
/// The name of a branch as far as a pattern can say it (never an option).
pub const BRANCH: &str = "^[A-Za-z0-9_][A-Za-z0-9_./+@=-]*$";
/// An image reference (never an option).
pub const IMAGE: &str = "^[A-Za-z0-9][-A-Za-z0-9_./:@]*$";

const ADVICE: [(&str, &str); 11] = [
    (
        NAME_PATTERN,
        "must be a name of an object: lower-case letters, digits and '-', beginning and ending with a letter or digit",
    ),
    (
        SUBDOMAIN_PATTERN,
        "must be a name of an object: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit",
    ),
    (DURATION, "must be a duration such as 90s, 30m or 1h30m"),
    (ABSOLUTE_PATH, "must be an absolute path, beginning with '/'"),
    (RELATIVE_PATH, "must be a relative path, without '/' at its beginning"),
    (KEY, "must be a key of a Secret or ConfigMap: letters, digits, '-', '_' and '.'"),
    (HOST, "must be HOST or HOST:PORT, without scheme, user or path"),
    (USER, "must be a user's name or number, or USER:GROUP"),
    (
        VARIABLE,
        "must be the name of an environment variable: letters, digits, '_', '.' and '-', not beginning with a digit",
    ),
    (
        BRANCH,
        "must be the name of a branch: letters, digits and _ . / + @ = -, not beginning with '-' or '.'",
    ),
    (IMAGE, "must be an image reference such as docker.io/library/debian:trixie, without a scheme"),
];

/// What to say about a string that doesn't match `pattern`, without the field's name.
#[must_use]
pub fn advice(pattern: &str) -> Option<&'static str> {
    ADVICE.iter().find(|(known, _)| *known == pattern).map(|(_, advice)| *advice)
}

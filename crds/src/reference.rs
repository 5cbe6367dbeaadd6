//! References between objects: by name, always in the referrer's own namespace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pattern of an object's name (RFC 1123 label).
pub const NAME_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The pattern of a name that may hold dots (RFC 1123 subdomain), as Secrets and claims have.
pub const SUBDOMAIN_PATTERN: &str = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";

/// A reference to an object of ours in the same namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct LocalRef {
    /// Name of the object, in the same namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
}

impl LocalRef {
    /// A reference to `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// A reference to a Secret in the same namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret, in the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: String,
}

/// One key of a Secret or ConfigMap in the same namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// Name of the object, in the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: String,
    /// Key in the data of that object.
    #[schemars(length(min = 1, max = 253), regex(pattern = crate::pattern::KEY))]
    pub key: String,
}

/// The two kinds of instances.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    strum::IntoStaticStr,
    strum::Display,
    strum::EnumString,
)]
pub enum InstanceKind {
    /// An instance of a `devcontainer.json`.
    DevcontainerInstance,
    /// An instance of an image.
    ContainerInstance,
}

/// A reference to an instance of a stated kind.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct InstanceRef {
    /// Kind of the instance that is meant.
    pub kind: InstanceKind,
    /// Name of the instance, in the same namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
}

//! Mounts, in both forms: Docker's `type=volume,source=x,target=/y`, and an object.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::WorkspaceMount;
use super::reader::{Node, Reader};
use crate::diagnostic::{Reason, quote};

/// Keys that Docker knows beside type, source, target and read-only.
const OTHER_KEYS: &[&str] = &[
    "bind-nonrecursive",
    "bind-propagation",
    "bind-recursive",
    "consistency",
    "external",
    "image-subpath",
    "tmpfs-mode",
    "tmpfs-size",
    "volume-driver",
    "volume-label",
    "volume-nocopy",
    "volume-opt",
    "volume-subpath",
];

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// What kind; Docker's default is a volume.
    #[serde(rename = "type")]
    pub mount_type: MountType,
    /// A volume's name or a path; absent: an anonymous volume, or tmpfs.
    pub source: Option<String>,
    /// Where, in the container; absolute.
    pub target: String,
    /// Whether it can't be written to.
    pub read_only: bool,
    /// The other options, keys as Docker has them; a key without a value has an empty one.
    pub options: IndexMap<String, String>,
}

/// The kinds of mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MountType {
    /// A path of the host.
    Bind,
    /// A named or anonymous volume.
    Volume,
    /// Memory.
    Tmpfs,
}

/// Why a text isn't a mount.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MountError {
    /// A key that Docker doesn't know.
    #[error("{} isn't a key of a mount", quote(key))]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A type that isn't bind, volume or tmpfs.
    #[error("{} isn't a type of mount", quote(value))]
    UnknownType {
        /// What it says.
        value: String,
    },
    /// A key that needs a value.
    #[error("{} has no value", quote(key))]
    NoValue {
        /// The key.
        key: String,
    },
    /// A value of `readonly` that isn't true or false.
    #[error("{} is neither true nor false", quote(value))]
    NotBoolean {
        /// What it says.
        value: String,
    },
    /// No target.
    #[error("the mount has no target")]
    NoTarget,
    /// A target that isn't an absolute path.
    #[error("the target {} isn't an absolute path", quote(target))]
    RelativeTarget {
        /// What it says.
        target: String,
    },
    /// A bind without a source.
    #[error("a mount of type bind needs a source")]
    NoSource,
    /// A quote that isn't closed.
    #[error("a quote isn't closed")]
    OpenQuote,
}

impl Mount {
    /// Reads Docker's form: fields separated by commas, a field may be quoted (`"source=a,b"`), a value may hold `=`.
    ///
    /// # Errors
    /// For the first field that isn't one, and when what must be there is missing.
    pub fn parse(text: &str) -> Result<Self, MountError> {
        let mut draft = Draft::default();
        for field in fields(text)? {
            match field.split_once('=') {
                Some((key, value)) => draft.set(key.trim(), Some(value))?,
                None => draft.set(field.trim(), None)?,
            }
        }
        draft.finish()
    }
}

/// The mounts that can be read, in the order written.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node<'_>) -> Vec<Mount> {
    let Some(node) = root.member("mounts") else {
        return Vec::new();
    };
    if !node.value.is_array() {
        reader.wrong_type(&node, "an array of mounts");
    }
    node.elements().filter_map(|element| mount(reader, &element)).collect()
}

/// The workspace's own mount; an empty string says that there is none.
pub(super) fn read_workspace(reader: &mut Reader<'_>, root: &Node<'_>) -> WorkspaceMount {
    let Some(node) = root.member("workspaceMount") else {
        return WorkspaceMount::Default;
    };
    match node.value {
        Value::String(text) if text.is_empty() => WorkspaceMount::Nothing,
        Value::String(_) => mount(reader, &node).map_or(WorkspaceMount::Default, WorkspaceMount::Mount),
        _ => {
            reader.wrong_type(&node, "a string");
            WorkspaceMount::Default
        }
    }
}

fn mount(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Mount> {
    let (parsed, settled) = match node.value {
        Value::String(text) => (Mount::parse(text), reader.is_settled(text)),
        Value::Object(_) => (object(reader, node)?, reader.is_settled(&node.value.to_string())),
        _ => {
            reader.wrong_type(node, "a string or an object");
            return None;
        }
    };
    match parsed {
        Ok(mount) => Some(mount),
        Err(error) if settled => {
            let fix = "write type=volume,source=NAME,target=/PATH";
            reader.error(Reason::InvalidMount, node, error.to_string(), fix);
            None
        }
        Err(_) => {
            let message = "the mount can only be read once its variables are replaced";
            reader.warn(Reason::UnresolvedVariable, node, message, "");
            None
        }
    }
}

/// `type` may carry flags (`bind,readonly`): the reference tool hands it to Docker as it is.
fn object(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Result<Mount, MountError>> {
    let mut draft = Draft::default();
    let mut result = Ok(());
    for (name, member) in node.members().filter(|(_, member)| !member.value.is_null()) {
        let value = match member.value {
            Value::Bool(flag) => flag.to_string(),
            _ => reader.string_of(&member)?,
        };
        let step = match name {
            "type" => value.split(',').enumerate().try_for_each(|(index, part)| match part.split_once('=') {
                _ if index == 0 => draft.set("type", Some(part)),
                Some((key, value)) => draft.set(key, Some(value)),
                None => draft.set(part, None),
            }),
            _ => draft.set(name, Some(&value)),
        };
        result = result.and(step);
    }
    Some(result.and_then(|()| draft.finish()))
}

#[derive(Default)]
struct Draft {
    mount_type: Option<MountType>,
    source: Option<String>,
    target: Option<String>,
    read_only: bool,
    options: IndexMap<String, String>,
}

impl Draft {
    fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), MountError> {
        let required = || value.map(str::to_owned).ok_or_else(|| MountError::NoValue { key: key.to_owned() });
        match key.to_ascii_lowercase().as_str() {
            "type" => self.mount_type = Some(mount_type(&required()?)?),
            "source" | "src" => self.source = Some(required()?),
            "target" | "destination" | "dst" => self.target = Some(required()?),
            "readonly" | "ro" => self.read_only = value.map_or(Ok(true), boolean)?,
            other if OTHER_KEYS.contains(&other) => {
                self.options.insert(other.to_owned(), value.unwrap_or_default().to_owned());
            }
            _ => return Err(MountError::UnknownKey { key: key.to_owned() }),
        }
        Ok(())
    }

    fn finish(self) -> Result<Mount, MountError> {
        let mount_type = self.mount_type.unwrap_or(MountType::Volume);
        let target = self.target.filter(|target| !target.is_empty()).ok_or(MountError::NoTarget)?;
        if !target.starts_with('/') {
            return Err(MountError::RelativeTarget { target });
        }
        let source = self.source.filter(|source| !source.is_empty());
        if mount_type == MountType::Bind && source.is_none() {
            return Err(MountError::NoSource);
        }
        Ok(Mount { mount_type, source, target, read_only: self.read_only, options: self.options })
    }
}

fn mount_type(value: &str) -> Result<MountType, MountError> {
    match value.trim().to_ascii_lowercase().as_str() {
        "bind" => Ok(MountType::Bind),
        "volume" => Ok(MountType::Volume),
        "tmpfs" => Ok(MountType::Tmpfs),
        _ => Err(MountError::UnknownType { value: value.to_owned() }),
    }
}

fn boolean(value: &str) -> Result<bool, MountError> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(MountError::NotBoolean { value: value.to_owned() }),
    }
}

/// The fields of a line of comma separated values. A `"` at the beginning of a field quotes it, `""` in it is one.
fn fields(text: &str) -> Result<Vec<String>, MountError> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Ok(fields),
        }
    }
}

fn quoted_field(text: &str) -> Result<(String, &str), MountError> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"').ok_or(MountError::OpenQuote)?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None if rest.is_empty() || rest.starts_with(',') => return Ok((field, rest)),
            None => return Err(MountError::OpenQuote),
        }
    }
}

//! Where in a folder a configuration is.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::path::join;

/// The folder that a configuration belongs to, and which of the folder's configurations it is. Ordered by folder, a folder before
/// those in it, then by precedence.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The folder, from the root of the tree; of the root the empty path.
    pub directory: String,
    /// Which place it is.
    pub form: Form,
    /// `NAME` in `.devcontainer/NAME/devcontainer.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_name: Option<String>,
}

/// The places of the specification, in order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Form {
    /// `.devcontainer/devcontainer.json`
    Folder,
    /// `.devcontainer.json`
    DotFile,
    /// `.devcontainer/NAME/devcontainer.json`
    Named,
}

impl Place {
    /// The place of a path from the root of a tree; none where it isn't one of the specification.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        if !path.ends_with("devcontainer.json") {
            return None;
        }
        let mut components: Vec<&str> = path.split('/').collect();
        let (form, name) = match components.as_slice() {
            [.., ".devcontainer.json"] => (Form::DotFile, None),
            [.., ".devcontainer", name, "devcontainer.json"] if !name.is_empty() => {
                (Form::Named, Some(*name))
            }
            [.., ".devcontainer", "devcontainer.json"] => (Form::Folder, None),
            _ => return None,
        };
        components.truncate(components.len() - form.components());
        let usual = |component: &&str| !matches!(*component, "" | "." | ".." | ".devcontainer");
        if !components.iter().all(usual) || matches!(name, Some("." | "..")) {
            return None;
        }
        Some(Self { directory: components.join("/"), form, config_name: name.map(str::to_owned) })
    }

    /// The place's path from the root of the tree.
    #[must_use]
    pub fn config_path(&self) -> String {
        let name = self.config_name.as_deref().unwrap_or_default();
        match self.form {
            Form::Folder => join(&self.directory, ".devcontainer/devcontainer.json"),
            Form::DotFile => join(&self.directory, ".devcontainer.json"),
            Form::Named => join(&self.directory, &format!(".devcontainer/{name}/devcontainer.json")),
        }
    }

    /// How many folders lie between the root and this one; of the root itself 0.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.directory.split('/').filter(|component| !component.is_empty()).count()
    }
}

impl Form {
    fn components(self) -> usize {
        match self {
            Self::DotFile => 1,
            Self::Folder => 2,
            Self::Named => 3,
        }
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let directory = self.directory.split('/').cmp(other.directory.split('/'));
        directory.then(self.form.cmp(&other.form)).then_with(|| self.config_name.cmp(&other.config_name))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

//! Which paths of a tree are dev container configurations.
//!
//! Three places in any folder, in this order (specification, `devcontainer.json` lookup): `.devcontainer/devcontainer.json`,
//! `.devcontainer.json`, and one folder deeper `.devcontainer/NAME/devcontainer.json`. Folders that hold what others wrote
//! ([`EXCLUDED_FOLDERS`]) aren't looked into, nor is a `.devcontainer` folder itself looked into for further folders.
//!
//! It works on a listing, reads nothing, and follows a link only where the link is a configuration file, a `.devcontainer` folder
//! or a named folder in one, and only inside the tree. The listing is gone through at most four times; other links are never
//! followed, so a cycle of links costs nothing.

mod candidate;
mod exclude;
mod link;
mod place;

use serde::{Deserialize, Serialize};

use crate::diagnostic::{Diagnostic, Reason, Severity, quote};
use crate::path::basename;

pub use exclude::{EXCLUDED_FOLDERS, ExclusionError, Exclusions, MAX_EXCLUSION_CHARS, MAX_EXCLUSIONS};
pub use place::{Form, Place};

/// The most configurations of one tree; those nearest to the root are kept.
pub const MAX_CONFIGURATIONS: usize = 500;
/// The longest path of a configuration, in bytes.
pub const MAX_PATH_BYTES: usize = 1024;
/// How deep a configuration's folder may lie where nothing else is said; the root is 0.
pub const DEFAULT_MAX_DEPTH: usize = 16;

/// One path of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// From the root of the tree, `/` between components, normalised. Paths that aren't UTF-8 can't be named and are left out.
    pub path: &'a str,
    /// What it is.
    pub kind: EntryKind<'a>,
}

/// What a path of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind<'a> {
    /// A regular file.
    File,
    /// A folder (a listing may leave them out), or a submodule.
    Directory,
    /// A symbolic link.
    Symlink {
        /// The text of the link.
        target: &'a str,
    },
}

/// Where not to look.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folders, and single configurations, that are left out.
    pub exclusions: Exclusions,
    /// How deep a configuration's folder may lie; the root is 0.
    pub max_depth: usize,
}

/// What a tree has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Discovery {
    /// By folder (a folder before those in it), within one folder in order of precedence.
    pub configurations: Vec<Configuration>,
    /// How many more there are than [`MAX_CONFIGURATIONS`] (and links to whole `.devcontainer` folders beyond the first 100).
    pub omitted: usize,
}

/// One configuration file, read or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// Its path from the root of the tree, links as they are.
    pub config_path: String,
    /// Where it is in its folder.
    #[serde(flatten)]
    pub place: Place,
    /// Which file to read for it.
    pub file: ConfigFile,
}

/// Which file holds a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigFile {
    /// The path itself.
    Regular,
    /// Links lead to this path, which is a regular file of the tree. To be read without following links again.
    Linked(String),
    /// None: what the links lead to must not, or can't, be read.
    Refused(Refusal),
}

/// Why a configuration's file isn't read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A link is absolute, leaves the tree, or leads into `.git`.
    PathEscapesWorkspace,
    /// What a link leads to isn't in the tree.
    LinkTargetMissing,
    /// Links lead to each other.
    LinkCycle,
    /// What a link leads to isn't a regular file.
    NotAFile,
    /// The path is longer than [`MAX_PATH_BYTES`], or holds NUL.
    PathTooLong,
}

impl Default for Options {
    fn default() -> Self {
        Self { exclusions: Exclusions::default(), max_depth: DEFAULT_MAX_DEPTH }
    }
}

impl Options {
    /// Whether someone who walks a tree needs to look into this folder (of the root: the empty path). Links are never walked into.
    #[must_use]
    pub fn descends_into(&self, folder: &str) -> bool {
        let components: Vec<&str> = folder.split('/').filter(|component| !component.is_empty()).collect();
        match components.iter().position(|component| *component == ".devcontainer") {
            Some(at) => {
                at <= self.max_depth && components.len() <= at + 2 && !self.exclusions.excludes(folder)
            }
            None => components.len() <= self.max_depth && !self.exclusions.excludes_folder(folder),
        }
    }

    fn includes(&self, config_path: &str, place: &Place) -> bool {
        place.depth() <= self.max_depth
            && !self.exclusions.excludes_folder(&place.directory)
            && !self.exclusions.excludes(config_path)
    }
}

impl Discovery {
    /// The configurations of one folder, in order of precedence.
    pub fn in_directory<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = &'a Configuration> {
        self.configurations.iter().filter(move |found| found.place.directory == directory)
    }
}

impl Configuration {
    /// The regular file to read, from the root of the tree; none where it is refused.
    #[must_use]
    pub fn read_path(&self) -> Option<&str> {
        match &self.file {
            ConfigFile::Regular => Some(&self.config_path),
            ConfigFile::Linked(path) => Some(path),
            ConfigFile::Refused(_) => None,
        }
    }

    /// Why its file isn't read. Says nothing of what a link leads to.
    #[must_use]
    pub fn problem(&self) -> Option<Diagnostic> {
        let ConfigFile::Refused(refusal) = &self.file else {
            return None;
        };
        let (reason, message, fix) = refusal.texts();
        Some(Diagnostic {
            severity: Severity::Error,
            reason,
            file: crate::diagnostic::cut(&self.config_path, MAX_PATH_BYTES),
            pointer: String::new(),
            position: None,
            message: format!("{} {message}", quote(basename(&self.config_path))),
            fix: fix.to_owned(),
        })
    }
}

impl Refusal {
    fn texts(self) -> (Reason, &'static str, &'static str) {
        let commit = "commit the file itself, or link to a file of this repository with a relative path";
        match self {
            Self::PathEscapesWorkspace => {
                (Reason::PathEscapesWorkspace, "is reached by a link that leaves the workspace", commit)
            }
            Self::LinkTargetMissing => {
                (Reason::LinkTargetMissing, "is reached by a link to a file that isn't there", commit)
            }
            Self::LinkCycle => (Reason::LinkCycle, "is reached by links that lead to each other", commit),
            Self::NotAFile => {
                (Reason::NotAFile, "is reached by a link to something that isn't a file", commit)
            }
            Self::PathTooLong => (Reason::PathTooLong, "has a path that is too long", "use shorter names"),
        }
    }
}

/// Finds the configurations of a tree. The answer doesn't depend on the order of the listing.
pub fn discover<'a, I>(entries: I, options: &Options) -> Discovery
where
    I: Iterator<Item = Entry<'a>> + Clone,
{
    candidate::find(entries, options)
}

#[cfg(test)]
mod tests;

//! What of a tree isn't looked into.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use thiserror::Error;

use crate::diagnostic::quote;
use crate::path::parent;

/// Folders that hold what others wrote or what a build made: a configuration in one is never the user's own. By name, at any depth.
pub const EXCLUDED_FOLDERS: &[&str] = &[
    ".cache",
    ".cargo",
    ".git",
    ".gradle",
    ".hg",
    ".m2",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".npm",
    ".pnpm-store",
    ".svn",
    ".terraform",
    ".tox",
    ".venv",
    ".yarn",
    "__pycache__",
    "bower_components",
    "node_modules",
    "site-packages",
    "target",
    "third_party",
    "vendor",
    "venv",
];
/// The most globs of a user.
pub const MAX_EXCLUSIONS: usize = 100;
/// The longest glob, in characters.
pub const MAX_EXCLUSION_CHARS: usize = 256;

/// The built-in list and a user's globs.
///
/// A glob without `/` is a name at any depth; one with `/` is a path from the root. `*` and `?` stop at `/`, `**` doesn't. What a
/// glob matches is left out with everything in it: a folder, or a single configuration.
#[derive(Debug, Clone)]
pub struct Exclusions {
    globs: GlobSet,
}

/// Why a user's glob isn't one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExclusionError {
    /// It can't be read.
    #[error("{} isn't a glob: {message}", quote(glob))]
    Invalid {
        /// The glob.
        glob: String,
        /// What is wrong with it.
        message: String,
    },
    /// It is longer than [`MAX_EXCLUSION_CHARS`].
    #[error("{} is longer than {limit} characters", quote(glob), limit = MAX_EXCLUSION_CHARS)]
    TooLong {
        /// The glob.
        glob: String,
    },
    /// There are more than [`MAX_EXCLUSIONS`].
    #[error("{count} globs are more than {limit}", limit = MAX_EXCLUSIONS)]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// All together they are too large to be matched.
    #[error("the globs together are too large")]
    TooLarge,
}

impl Default for Exclusions {
    /// The built-in list alone.
    fn default() -> Self {
        Self { globs: GlobSet::empty() }
    }
}

impl Exclusions {
    /// The built-in list and these globs.
    ///
    /// # Errors
    /// For the first glob that can't be read, and above the limits.
    pub fn new<S: AsRef<str>>(globs: &[S]) -> Result<Self, ExclusionError> {
        if globs.len() > MAX_EXCLUSIONS {
            return Err(ExclusionError::TooMany { count: globs.len() });
        }
        let mut set = GlobSetBuilder::new();
        for glob in globs.iter().map(AsRef::as_ref) {
            if glob.chars().count() > MAX_EXCLUSION_CHARS {
                return Err(ExclusionError::TooLong { glob: glob.to_owned() });
            }
            let invalid = |message: String| ExclusionError::Invalid { glob: glob.to_owned(), message };
            let path = glob.trim_end_matches('/');
            if path.is_empty() {
                return Err(invalid("it is empty".to_owned()));
            }
            let pattern = if path.contains('/') {
                path.trim_start_matches('/').to_owned()
            } else {
                format!("**/{path}")
            };
            let built = GlobBuilder::new(&pattern).literal_separator(true).backslash_escape(true).build();
            set.add(built.map_err(|error| invalid(error.kind().to_string()))?);
        }
        let globs = set.build().map_err(|_| ExclusionError::TooLarge)?;
        Ok(Self { globs })
    }

    /// Whether a folder, or one that it lies in, is on the built-in list or matched by a glob.
    #[must_use]
    pub fn excludes_folder(&self, folder: &str) -> bool {
        folder.split('/').any(|name| EXCLUDED_FOLDERS.contains(&name)) || self.excludes(folder)
    }

    /// Whether a path, or a folder that it lies in, is matched by a glob of the user.
    #[must_use]
    pub fn excludes(&self, path: &str) -> bool {
        let mut path = path;
        while !self.globs.is_empty() && !path.is_empty() {
            if self.globs.is_match(path) {
                return true;
            }
            path = parent(path);
        }
        false
    }
}

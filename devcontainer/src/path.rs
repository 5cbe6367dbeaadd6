//! Paths inside a tree, as text: relative, `/` between components, the root is the empty path.
//!
//! Nothing here looks at a file system; `..` is resolved by text. A caller that follows links does that before
//! (see [`discover`](crate::discover)).

use thiserror::Error;

/// Why a path isn't one of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PathError {
    /// It begins with `/`.
    #[error("the path is absolute")]
    Absolute,
    /// It leaves the root of the tree.
    #[error("the path leaves the workspace")]
    Escapes,
    /// It holds the character NUL.
    #[error("the path holds the character NUL")]
    Nul,
}

/// The path without `.`, empty components and `..`.
///
/// # Errors
/// When it is absolute, leaves the root, or holds NUL.
pub fn normalize(path: &str) -> Result<String, PathError> {
    if path.contains('\0') {
        return Err(PathError::Nul);
    }
    if path.starts_with('/') {
        return Err(PathError::Absolute);
    }
    let mut components: Vec<&str> = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => drop(components.pop().ok_or(PathError::Escapes)?),
            name => components.push(name),
        }
    }
    Ok(components.join("/"))
}

/// What `relative` means where it stands in the file `file`: paths of a configuration are relative to its own folder.
///
/// # Errors
/// As [`normalize`].
pub fn resolve(file: &str, relative: &str) -> Result<String, PathError> {
    if relative.starts_with('/') {
        return Err(PathError::Absolute);
    }
    normalize(&join(parent(file), relative))
}

/// The folder that a path lies in; of a path without `/` the root.
#[must_use]
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Two paths in one; the root adds nothing.
#[must_use]
pub fn join(directory: &str, rest: &str) -> String {
    if directory.is_empty() { rest.to_owned() } else { format!("{directory}/{rest}") }
}

/// The last component, as POSIX `basename` and the reference tool have it: `/` at the end don't count, of the root it is empty.
#[must_use]
pub fn basename(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Whether `path` is `directory` or lies in it. Both are normalised.
#[must_use]
pub fn is_within(path: &str, directory: &str) -> bool {
    directory.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalizes_by_text() {
        for (path, expected) in [
            ("", Ok("")),
            (".", Ok("")),
            ("a//b/./c/", Ok("a/b/c")),
            ("a/../b", Ok("b")),
            ("a/..", Ok("")),
            ("..", Err(PathError::Escapes)),
            ("a/../../a", Err(PathError::Escapes)),
            ("/a", Err(PathError::Absolute)),
            ("a\0", Err(PathError::Nul)),
            ("..a/...", Ok("..a/...")),
        ] {
            assert_eq!(normalize(path), expected.map(str::to_owned), "{path:?}");
        }
    }

    #[test]
    fn resolves_from_the_folder_of_the_file_that_names_it() {
        let file = ".devcontainer/api/devcontainer.json";
        assert_eq!(resolve(file, "../Dockerfile"), Ok(".devcontainer/Dockerfile".into()));
        assert_eq!(resolve(file, "../.."), Ok(String::new()));
        assert_eq!(resolve(file, "../../.."), Err(PathError::Escapes));
        assert_eq!(resolve(".devcontainer.json", "./x"), Ok("x".into()));
        assert_eq!(resolve(file, "/etc"), Err(PathError::Absolute));
    }

    #[test]
    fn basenames_are_those_of_posix() {
        for (path, expected) in [("/a/b", "b"), ("/a/b//", "b"), ("b", "b"), ("/", ""), ("", "")] {
            assert_eq!(basename(path), expected, "{path:?}");
        }
    }

    #[test]
    fn within_means_whole_components() {
        assert!(is_within("a/b", "a"));
        assert!(is_within("a", "a"));
        assert!(is_within("a", ""));
        assert!(!is_within("ab", "a"));
    }
}

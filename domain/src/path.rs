//! Paths of a tool run: what a `path` means within its workspace, and how paths of the caller's machine become paths of
//! the environment and back.
//!
//! All of it is about text: no file system is asked, so symbolic links are followed by whoever opens the file (beneath the
//! workspace), and nothing here knows whether a path is a file or a folder.

use std::borrow::Cow;

use serde_json::Value;

/// Why a path can't be used. The run is `Rejected` for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It holds a NUL character.
    #[error("the path holds a NUL character: remove it")]
    Nul,
    /// Its `..` lead out of the workspace.
    #[error(
        "the path {0:?} leaves the workspace: paths are relative to the workspace root, and '..' may not lead out of it"
    )]
    Outside(String),
    /// It is absolute, and no `pathMapping.hostRoot` says what that means.
    #[error(
        "the path {0:?} is absolute: give it relative to the workspace root, or set pathMapping.hostRoot"
    )]
    Absolute(String),
    /// It is absolute, and not beneath `pathMapping.hostRoot`.
    #[error(
        "the path {path:?} isn't beneath pathMapping.hostRoot {host_root:?}: give it relative to the workspace root"
    )]
    NotMapped {
        /// The path as given.
        path: String,
        /// The root as given.
        host_root: String,
    },
    /// `pathMapping.hostRoot` is relative, `/`, or begins with `//`.
    #[error("pathMapping.hostRoot {0:?} must be an absolute path below '/', such as /home/me/project")]
    HostRoot(String),
}

/// A path within a workspace, normalised: no empty, `.` or `..` parts, no leading or trailing `/`; the root is `.`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(String);

impl WorkspacePath {
    /// The root of the workspace.
    #[must_use]
    pub fn root() -> Self {
        Self(".".to_owned())
    }

    /// Normalises `path`: relative to the workspace root, or absolute beneath `host_root`. An empty path is the root.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse(path: &str, host_root: Option<&HostRoot>) -> Result<Self, PathError> {
        if path.contains('\0') {
            return Err(PathError::Nul);
        }
        if !path.starts_with('/') {
            return join(path.split('/')).map(Self).ok_or_else(|| PathError::Outside(path.to_owned()));
        }
        let Some(root) = host_root else {
            return Err(PathError::Absolute(path.to_owned()));
        };
        let outside = || PathError::NotMapped { path: path.to_owned(), host_root: root.as_str().to_owned() };
        let absolute = join(path.split('/')).ok_or_else(outside)?;
        let below = match absolute.strip_prefix(&root.0[1..]) {
            Some("") => ".",
            Some(rest) => rest.strip_prefix('/').ok_or_else(outside)?,
            None => return Err(outside()),
        };
        Ok(Self(below.to_owned()))
    }

    /// The path; `.` for the root.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path itself, then each folder above it, ending with the root (`.`).
    pub fn ancestors(&self) -> impl Iterator<Item = &str> {
        let parts = if self.0 == "." { None } else { Some(self.0.as_str()) };
        std::iter::successors(parts, |path| path.rfind('/').map(|at| &path[..at])).chain(std::iter::once("."))
    }
}

/// The parts joined after `.` and `..` are resolved, `.` when nothing is left; none where `..` leads out.
fn join<'a>(parts: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut kept: Vec<&str> = Vec::new();
    for part in parts {
        match part {
            "" | "." => {}
            ".." => {
                kept.pop()?;
            }
            name => kept.push(name),
        }
    }
    Some(if kept.is_empty() { ".".to_owned() } else { kept.join("/") })
}

/// `pathMapping.hostRoot`, normalised: absolute, below `/`, no trailing `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoot(String);

impl HostRoot {
    /// Checks and normalises.
    ///
    /// # Errors
    /// [`PathError::Nul`], [`PathError::HostRoot`].
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.contains('\0') {
            return Err(PathError::Nul);
        }
        let refused = || PathError::HostRoot(text.to_owned());
        if !text.starts_with('/') || text.starts_with("//") {
            return Err(refused());
        }
        match join(text.split('/')) {
            Some(below) if below != "." => Ok(Self(format!("/{below}"))),
            _ => Err(refused()),
        }
    }

    /// The folder.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The two names of one folder: on the caller's machine, and in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathMapping {
    host: String,
    environment: String,
}

impl PathMapping {
    /// `workspace_folder` is an absolute path in the environment.
    #[must_use]
    pub fn new(host_root: &HostRoot, workspace_folder: &str) -> Self {
        let trimmed = workspace_folder.trim_end_matches('/');
        Self {
            host: host_root.0.clone(),
            environment: if trimmed.is_empty() { "/" } else { trimmed }.to_owned(),
        }
    }

    /// The text with each path beneath the caller's root replaced by the path in the environment.
    #[must_use]
    pub fn to_environment<'a>(&self, text: &'a str) -> Cow<'a, str> {
        replace(text, &self.host, &self.environment)
    }

    /// The way back.
    #[must_use]
    pub fn to_host<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.environment == "/" {
            return Cow::Borrowed(text);
        }
        replace(text, &self.environment, &self.host)
    }

    /// [`Self::to_environment`] of every string value at any depth; keys are left alone.
    pub fn value_to_environment(&self, value: &mut Value) {
        each_string(value, &|text| self.to_environment(text).into_owned());
    }

    /// [`Self::to_host`] of every string value at any depth; keys are left alone.
    pub fn value_to_host(&self, value: &mut Value) {
        each_string(value, &|text| self.to_host(text).into_owned());
    }
}

/// Every string value, without recursion, so that no nesting is too deep.
fn each_string(value: &mut Value, change: &dyn Fn(&str) -> String) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => *text = change(text),
            Value::Array(items) => open.extend(items.iter_mut()),
            Value::Object(map) => open.extend(map.values_mut()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Every occurrence of the folder `from` as whole components of an absolute path becomes `to`.
fn replace<'a>(text: &'a str, from: &str, to: &str) -> Cow<'a, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut searched = 0;
    while let Some(found) = text[searched..].find(from) {
        let start = searched + found;
        let end = start + from.len();
        searched = end;
        let before = text[..start].chars().next_back();
        let mut after = text[end..].chars();
        let next = after.next();
        if before.is_some_and(continues) || next.is_some_and(|c| c != '/' && continues(c)) {
            continue;
        }
        out.push_str(&text[copied..start]);
        // `/` has no end of its own: what follows brings the separator.
        if to != "/" || next != Some('/') {
            out.push_str(to);
        }
        copied = end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Whether a character beside a path belongs to it, so that no component begins or ends there.
fn continues(c: char) -> bool {
    c.is_alphanumeric() || !c.is_ascii() || matches!(c, '/' | '_' | '-' | '.' | '+' | '~' | '@' | '%' | '\\')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn root(text: &str) -> HostRoot {
        HostRoot::parse(text).unwrap()
    }

    #[test]
    fn a_path_is_normalised() {
        for (given, normal) in [
            ("", "."),
            (".", "."),
            ("./", "."),
            ("a", "a"),
            ("a/", "a"),
            ("./a//b/./c/", "a/b/c"),
            ("a/../b", "b"),
            ("a/..", "."),
            ("...", "..."),
            ("a\\..\\b", "a\\..\\b"),
        ] {
            assert_eq!(WorkspacePath::parse(given, None).unwrap().as_str(), normal, "{given:?}");
        }
    }

    #[test]
    fn a_path_that_leaves_is_refused() {
        for given in ["..", "a/../..", "../a", "a/../../a", "./.."] {
            assert_eq!(WorkspacePath::parse(given, None), Err(PathError::Outside(given.to_owned())));
        }
        assert_eq!(WorkspacePath::parse("a\0b", None), Err(PathError::Nul));
        assert_eq!(WorkspacePath::parse("/a", None), Err(PathError::Absolute("/a".to_owned())));
    }

    #[test]
    fn an_absolute_path_is_mapped_beneath_its_root_alone() {
        let home = root("/home/me/shop/");
        for (given, normal) in [
            ("/home/me/shop", "."),
            ("/home/me/shop/", "."),
            ("/home/me/shop/api", "api"),
            ("/home/me//shop/./api/../web", "web"),
            ("api", "api"),
        ] {
            assert_eq!(WorkspacePath::parse(given, Some(&home)).unwrap().as_str(), normal, "{given:?}");
        }
        for given in ["/home/me/shop2", "/home/me", "/home/me/shop/../x", "/..", "/"] {
            let refused = WorkspacePath::parse(given, Some(&home));
            assert!(matches!(refused, Err(PathError::NotMapped { .. })), "{given:?}: {refused:?}");
        }
    }

    #[test]
    fn a_host_root_is_absolute_and_below_the_root() {
        for given in ["", "home", "./x", "/", "//", "//server/share", "/./", "/a/..", "/.."] {
            assert_eq!(HostRoot::parse(given), Err(PathError::HostRoot(given.to_owned())));
        }
        assert_eq!(HostRoot::parse("/a\0"), Err(PathError::Nul));
        assert_eq!(root("/a/./b/").as_str(), "/a/b");
    }

    #[test]
    fn ancestors_end_with_the_root() {
        let of = |text: &str| {
            let path = WorkspacePath::parse(text, None).unwrap();
            path.ancestors().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of("a/b/c"), ["a/b/c", "a/b", "a", "."]);
        assert_eq!(of(""), ["."]);
    }

    #[test]
    fn strings_are_mapped_at_component_boundaries() {
        let mapping = PathMapping::new(&root("/home/me/shop"), "/workspaces/shop/");
        for (given, mapped) in [
            ("/home/me/shop", "/workspaces/shop"),
            ("/home/me/shop/", "/workspaces/shop/"),
            ("/home/me/shop/a b", "/workspaces/shop/a b"),
            ("--file=/home/me/shop/x", "--file=/workspaces/shop/x"),
            ("/home/me/shop/a:/home/me/shop/b", "/workspaces/shop/a:/workspaces/shop/b"),
            ("cd '/home/me/shop' && x", "cd '/workspaces/shop' && x"),
            ("/home/me/shop2", "/home/me/shop2"),
            ("/home/me/shop.git", "/home/me/shop.git"),
            ("/home/me/shop-x/y", "/home/me/shop-x/y"),
            ("/home/me/shopé", "/home/me/shopé"),
            ("/srv/home/me/shop/x", "/srv/home/me/shop/x"),
            ("https://host/home/me/shop", "https://host/home/me/shop"),
            ("home/me/shop", "home/me/shop"),
            ("", ""),
        ] {
            assert_eq!(mapping.to_environment(given), mapped, "{given:?}");
        }
        assert_eq!(mapping.to_host("/workspaces/shop/x: bad"), "/home/me/shop/x: bad");
        assert_eq!(mapping.to_host("/workspaces/shops"), "/workspaces/shops");
    }

    #[test]
    fn a_root_as_workspace_folder_has_no_way_back() {
        let mapping = PathMapping::new(&root("/home/me"), "/");
        assert_eq!(mapping.to_environment("/home/me/x"), "/x");
        assert_eq!(mapping.to_environment("/home/me"), "/");
        assert_eq!(mapping.to_host("/x"), "/x");
    }

    #[test]
    fn values_are_mapped_at_any_depth_and_keys_never() {
        let mapping = PathMapping::new(&root("/h/p"), "/w");
        let mut value = json!({"/h/p": ["/h/p/a", {"b": "/h/p", "n": 1, "z": null}], "c": "/h/px"});
        mapping.value_to_environment(&mut value);
        assert_eq!(value, json!({"/h/p": ["/w/a", {"b": "/w", "n": 1, "z": null}], "c": "/h/px"}));
        mapping.value_to_host(&mut value);
        assert_eq!(value, json!({"/h/p": ["/h/p/a", {"b": "/h/p", "n": 1, "z": null}], "c": "/h/px"}));
    }

    proptest! {
        #[test]
        fn a_normal_path_is_a_fixed_point(text in "[a-c./\u{0}é]{0,16}") {
            if let Ok(path) = WorkspacePath::parse(&text, None) {
                prop_assert_eq!(WorkspacePath::parse(path.as_str(), None), Ok(path.clone()));
                prop_assert!(path.as_str() == "." || path.as_str().split('/').all(|p| !matches!(p, "" | "." | "..")));
                prop_assert_eq!(path.ancestors().last(), Some("."));
            }
        }

        #[test]
        fn mapping_there_and_back_is_the_identity(text in "(/home/me/shop|/x|a|=|:| |\\.|é|/){0,8}") {
            let mapping = PathMapping::new(&root("/home/me/shop"), "/workspaces/shop");
            let there = mapping.to_environment(&text).into_owned();
            prop_assert_eq!(mapping.to_host(&there), text);
        }
    }
}

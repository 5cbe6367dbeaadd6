//! Symbolic links of a tree, followed by text.

use std::collections::BTreeMap;

use super::{Entry, EntryKind, MAX_PATH_BYTES, Refusal};

/// As many links as one path may go through, as on Linux.
const MAX_HOPS: usize = 40;
/// As many components as one path may have, those of the links on its way included.
const MAX_COMPONENTS: usize = 512;

/// The links of a tree: path to text.
pub(super) struct Links<'a> {
    targets: BTreeMap<&'a str, &'a str>,
}

impl<'a> Links<'a> {
    pub(super) fn new(entries: impl Iterator<Item = Entry<'a>>) -> Self {
        let targets = entries.filter_map(|entry| match entry.kind {
            EntryKind::Symlink { target } => Some((entry.path, target)),
            _ => None,
        });
        Self { targets: targets.collect() }
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &'a str> {
        self.targets.keys().copied()
    }

    /// The path without links. It is in the tree, though nothing need be there.
    pub(super) fn resolve(&self, path: &str) -> Result<String, Refusal> {
        let mut pending: Vec<&str> = path.split('/').rev().collect();
        let mut resolved = String::new();
        let (mut hops, mut components) = (0, 0);
        while let Some(component) = pending.pop() {
            components += 1;
            if components > MAX_COMPONENTS {
                return Err(Refusal::PathTooLong);
            }
            match component {
                "" | "." => continue,
                ".." if resolved.is_empty() => return Err(Refusal::PathEscapesWorkspace),
                ".." => {
                    resolved.truncate(resolved.rfind('/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            let before = resolved.len();
            if before > 0 {
                resolved.push('/');
            }
            resolved.push_str(component);
            let Some(target) = self.targets.get(resolved.as_str()) else {
                continue;
            };
            hops += 1;
            if target.starts_with('/') {
                return Err(Refusal::PathEscapesWorkspace);
            }
            if hops > MAX_HOPS {
                return Err(Refusal::LinkCycle);
            }
            if target.len() > MAX_PATH_BYTES {
                return Err(Refusal::PathTooLong);
            }
            resolved.truncate(before);
            pending.extend(target.split('/').rev());
        }
        if resolved.split('/').any(|component| component == ".git") {
            return Err(Refusal::PathEscapesWorkspace);
        }
        Ok(resolved)
    }
}

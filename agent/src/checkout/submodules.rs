//! Submodules, each handled as the repository it is in: fetched through a private git folder, moved only when clean. The
//! URL comes from the repository, so it is checked as one from a user, and the credential stays with its own host.

use std::fs;
use std::path::{Component, Path, PathBuf};

use drydock_protocol::checkout::{BehindReason, CheckoutReason};
use drydock_protocol::git::{GitUrl, Scheme};

use super::Scratch;
use super::failure::Failure;
use super::git::Call;
use super::repository::{Place, Repository};
use super::tree;

/// Submodules of submodules.
const DEPTH_MAX: usize = 8;
/// All together.
const COUNT_MAX: usize = 200;

/// A submodule as `.gitmodules` and the commit have it.
#[derive(Debug, PartialEq, Eq)]
struct Submodule {
    name: String,
    path: String,
    url: String,
    commit: String,
}

/// Checks out the submodules of a commit, theirs too.
///
/// # Errors
/// `SubmoduleFailed`, naming it; the others before it are there.
pub fn follow(
    repository: &Repository,
    commit: &str,
    url: &GitUrl,
    scratch: &Scratch,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut walk = Walk { origin: url.origin(), scratch, notes, count: 0 };
    walk.level(repository, commit, url, 1)
}

struct Walk<'a> {
    origin: String,
    scratch: &'a Scratch,
    notes: &'a mut Vec<String>,
    count: usize,
}

impl Walk<'_> {
    fn level(
        &mut self,
        parent: &Repository,
        commit: &str,
        url: &GitUrl,
        depth: usize,
    ) -> Result<(), Failure> {
        let Some(place) = parent.place().cloned() else {
            return Ok(());
        };
        for submodule in list(parent, commit)? {
            self.count += 1;
            if depth > DEPTH_MAX || self.count > COUNT_MAX {
                let message = format!("more than {COUNT_MAX} submodules, or deeper than {DEPTH_MAX}");
                return Err(Failure::new(CheckoutReason::TooLarge, message));
            }
            let failed = |failure: Failure| {
                let message = format!("submodule {:?}: {}", submodule.path, failure.message);
                Failure::new(CheckoutReason::SubmoduleFailed, message)
            };
            let url = resolve_url(url, &submodule.url).map_err(failed)?;
            let module = self.open(parent, &place, &submodule, &url).map_err(failed)?;
            let fetched = module.fetch(&url, Some(&submodule.commit), None).map_err(failed)?;
            module.publish(&fetched).map_err(failed)?;
            let state = tree::follow(&module, &fetched, &url, None).map_err(failed)?;
            match state.behind {
                Some(behind) if behind.reason != BehindReason::Held => {
                    self.notes.push(format!(
                        "submodule {:?} stays at {}: {}",
                        submodule.path, state.commit, behind.message
                    ));
                }
                _ => self.level(&module, &submodule.commit, &url, depth + 1)?,
            }
        }
        Ok(())
    }

    fn open(
        &self,
        parent: &Repository,
        place: &Place,
        submodule: &Submodule,
        url: &GitUrl,
    ) -> Result<Repository, Failure> {
        let module = Place {
            git_dir: place.git_dir.join("modules").join(&submodule.name),
            work_tree: place.work_tree.join(&submodule.path),
        };
        let mut git = parent.caller().clone();
        if url.scheme == Scheme::Ssh && url.origin() != self.origin {
            // The helper binds a password to its host; a key has to be bound here.
            git = git.with_access(Vec::new(), "false".to_owned());
        }
        prepare(&git, place, &module, submodule)?;
        Repository::open(git, &self.scratch.folder(&format!("module-{}", self.count)), Some(module))
    }
}

/// Makes the submodule's git folder and the file that leads to it, with relative paths: every pod sees the tree elsewhere.
fn prepare(
    git: &super::git::Git,
    parent: &Place,
    module: &Place,
    submodule: &Submodule,
) -> Result<(), Failure> {
    let io = |error: std::io::Error| Failure::io("its folders", &error);
    no_links(&parent.work_tree, &submodule.path)?;
    no_links(&parent.git_dir, &format!("modules/{}", submodule.name))?;
    fs::create_dir_all(&module.work_tree).map_err(io)?;
    if !module.git_dir.join("HEAD").exists() {
        if fs::read_dir(&module.work_tree).map_err(io)?.next().is_some() {
            return Err(Failure::new(CheckoutReason::ForeignTree, "files are in its folder already"));
        }
        fs::create_dir_all(&module.git_dir).map_err(io)?;
        let folder = module.git_dir.to_string_lossy();
        let args = vec![
            "init",
            "--quiet",
            "--bare",
            "--template=",
            "--shared=group",
            "--initial-branch=main",
            &folder,
        ];
        git.run(&Call { args, ..Call::default() })?;
        let config = module.git_dir.join("config").to_string_lossy().into_owned();
        let work_tree = relative(&module.git_dir, &module.work_tree).to_string_lossy().into_owned();
        for (name, value) in [("core.bare", "false"), ("core.worktree", &work_tree)] {
            git.run(&Call { args: vec!["config", "--file", &config, name, value], ..Call::default() })?;
        }
    }
    let link = module.work_tree.join(".git");
    if !link.exists() {
        let target = relative(&module.work_tree, &module.git_dir);
        fs::write(link, format!("gitdir: {}\n", target.display())).map_err(io)?;
    }
    Ok(())
}

/// No part of the path, as far as it exists, may be a link.
fn no_links(root: &Path, path: &str) -> Result<(), Failure> {
    let mut at = root.to_owned();
    for part in path.split('/') {
        at.push(part);
        if fs::symlink_metadata(&at).is_ok_and(|meta| !meta.is_dir()) {
            return Err(Failure::new(
                CheckoutReason::ForeignTree,
                format!("{path:?} leads over a link or a file"),
            ));
        }
    }
    Ok(())
}

fn list(repository: &Repository, commit: &str) -> Result<Vec<Submodule>, Failure> {
    let tree = repository.git(&["ls-tree", "-r", "-z", "--full-tree", commit], &[])?;
    let tree = String::from_utf8_lossy(&tree);
    let links: Vec<(&str, &str)> = tree
        .split('\0')
        .filter_map(|record| record.strip_prefix("160000 commit ")?.split_once('\t'))
        .collect();
    if links.is_empty() {
        return Ok(Vec::new());
    }
    let blob = format!("{commit}:.gitmodules");
    let config = repository.git(&["config", "--blob", &blob, "--list", "-z"], &[]).unwrap_or_default();
    parse(&String::from_utf8_lossy(&config), &links)
}

/// `key LF value NUL`, again and again; a gitlink that `.gitmodules` doesn't name is left alone, as git leaves it.
fn parse(config: &str, links: &[(&str, &str)]) -> Result<Vec<Submodule>, Failure> {
    let value = |name: &str, key: &str| {
        let wanted = format!("submodule.{name}.{key}");
        config
            .split('\0')
            .filter_map(|entry| entry.split_once('\n'))
            .rfind(|(each, _)| *each == wanted)
            .map(|(_, v)| v)
    };
    let names = config.split('\0').filter_map(|entry| {
        let (key, path) = entry.split_once('\n')?;
        Some((key.strip_prefix("submodule.")?.strip_suffix(".path")?, path))
    });
    let mut found = Vec::new();
    for (name, path) in names {
        let path = path.trim_end_matches('/');
        let Some((commit, _)) = links.iter().find(|(_, link)| *link == path) else {
            continue;
        };
        let url = value(name, "url").unwrap_or_default();
        if !is_plain(name) || !is_plain(path) {
            let message = format!("submodule {name:?} has a name or path that leaves its folder");
            return Err(Failure::new(CheckoutReason::SubmoduleFailed, message));
        }
        found.push(Submodule {
            name: name.into(),
            path: path.into(),
            url: url.into(),
            commit: (*commit).to_owned(),
        });
    }
    Ok(found)
}

/// A relative path of plain components, none of them `.git`.
fn is_plain(path: &str) -> bool {
    let plain =
        |part: Component<'_>| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git"));
    !path.is_empty()
        && !path.starts_with('-')
        && !path.contains('\0')
        && Path::new(path).components().all(plain)
}

/// A relative URL (`../lib`) goes from the parent's.
fn resolve_url(parent: &GitUrl, url: &str) -> Result<GitUrl, Failure> {
    let invalid = |message: String| Failure::new(CheckoutReason::InvalidUrl, message);
    if !url.starts_with("./") && !url.starts_with("../") {
        return GitUrl::parse(url).map_err(|error| invalid(error.to_string()));
    }
    let mut parts: Vec<&str> = parent.path.trim_end_matches('/').split('/').collect();
    for part in url.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                if parts.len() <= 1 {
                    return Err(invalid("its relative URL goes above the host".to_owned()));
                }
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    let resolved = GitUrl { path: parts.join("/"), ..parent.clone() };
    GitUrl::parse(&resolved.to_string()).map_err(|error| invalid(error.to_string()))
}

/// The way from one folder to another; both absolute.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_urls_go_from_the_parents() {
        let parent = GitUrl::parse("https://git.example/team/shop.git").unwrap();
        let resolved = |url: &str| resolve_url(&parent, url).map(|url| url.to_string());
        assert_eq!(resolved("../lib.git").unwrap(), "https://git.example/team/lib.git");
        assert_eq!(resolved("../../other/lib").unwrap(), "https://git.example/other/lib");
        assert_eq!(resolved("https://else.example/x").unwrap(), "https://else.example/x");
        for bad in ["../../../../x", "ext::sh -c x", "/srv/x", "file:///x", "-x"] {
            assert!(resolved(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn b071_names_and_paths_that_leave_the_folder_are_refused() {
        let config = |path: &str| format!("submodule.m.path\n{path}\0submodule.m.url\n../lib\0");
        assert_eq!(parse(&config("libs/m"), &[("abc", "libs/m")]).unwrap()[0].url, "../lib");
        assert!(parse(&config("../../x"), &[("abc", "../../x")]).is_err());
        assert!(parse(&config(".git/x"), &[("abc", ".git/x")]).is_err());
        assert!(parse(&config("elsewhere"), &[("abc", "libs/m")]).unwrap().is_empty());
    }

    #[test]
    fn ways_between_folders() {
        assert_eq!(
            relative(Path::new("/c/tree/a/m"), Path::new("/c/tree/.git/modules/m")),
            Path::new("../../.git/modules/m")
        );
    }
}

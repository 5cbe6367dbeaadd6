//! The files of a checkout: whether they may move to another commit, and the move. Work that isn't in the remote is never
//! touched; files that git doesn't know stay where they are.

use std::fs;
use std::path::Path;

use drydock_protocol::checkout::{Behind, BehindReason, CheckoutReason, TreeState};
use drydock_protocol::git::GitUrl;

use super::failure::Failure;
use super::repository::{Fetched, Place, Repository};

/// The commit at which Drydock left the tree last.
const PLACED: &str = "refs/drydock/tree";
/// Present while files are being moved: a move that was cut short is finished by the next pod.
const MOVING: &str = "drydock-moving";
/// What git leaves while an operation of a user is under way.
const UNDER_WAY: [&str; 6] =
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG"];
/// Changed files that are named.
const NAMED: usize = 5;

/// Makes `tree/.git` if it isn't there.
///
/// # Errors
/// `ForeignTree`: something else is in the folder; git's.
pub fn prepare(git: &super::git::Git, place: &Place) -> Result<(), Failure> {
    match fs::symlink_metadata(&place.git_dir) {
        Ok(meta) if meta.is_dir() => return check(place),
        Ok(_) => return Err(foreign("its .git is no folder")),
        Err(_) => {}
    }
    let failed = |error: std::io::Error| Failure::io("the folder tree", &error);
    if fs::read_dir(&place.work_tree).map_err(failed)?.next().is_some() {
        return Err(foreign("it has files and no .git"));
    }
    let tree = place.work_tree.to_string_lossy();
    let args = vec!["init", "--quiet", "--template=", "--shared=group", "--initial-branch=main", &tree];
    git.run(&super::git::Call { args, ..Default::default() }).map(drop)
}

/// The parts that are read and written must be what they seem: a link could lead anywhere.
fn check(place: &Place) -> Result<(), Failure> {
    let is = |name: &str, right: fn(&fs::Metadata) -> bool| {
        fs::symlink_metadata(place.git_dir.join(name)).map_or(name == "index", |meta| right(&meta))
    };
    let folders = ["objects", "refs"].iter().all(|name| is(name, fs::Metadata::is_dir));
    let files = ["HEAD", "config", "index"].iter().all(|name| is(name, fs::Metadata::is_file));
    if folders && files { Ok(()) } else { Err(foreign("its .git is not a plain repository")) }
}

fn foreign(what: &str) -> Failure {
    let message = format!("the claim's folder tree is not a checkout of Drydock's: {what}");
    Failure::new(CheckoutReason::ForeignTree, message)
}

/// The state without a fetch.
#[must_use]
pub fn state(repository: &Repository) -> Option<TreeState> {
    let commit = repository.resolve_there("HEAD")?;
    Some(TreeState { commit, moved: false, behind: None })
}

/// Moves the tree to what was fetched, if it may.
///
/// # Errors
/// Git's, and of the file system. What keeps the tree where it is is no error.
pub fn follow(
    repository: &Repository,
    fetched: &Fetched,
    url: &GitUrl,
    hold: Option<&str>,
) -> Result<TreeState, Failure> {
    let Some(place) = repository.place() else {
        return Err(Failure::new(CheckoutReason::Internal, "there is no tree to move"));
    };
    let moving = place.git_dir.join(MOVING);
    let cut_short = moving.exists();
    let old = repository.resolve_there("HEAD");
    if let Some(old) = &old {
        if *old == fetched.commit && !cut_short {
            return Ok(TreeState { commit: old.clone(), moved: false, behind: None });
        }
        let behind = match hold {
            Some(who) => Some(Behind { reason: BehindReason::Held, message: who.to_owned() }),
            None if cut_short => None,
            None => reason_to_stay(repository, place, old, fetched)?,
        };
        if let Some(behind) = behind {
            return Ok(TreeState { commit: old.clone(), moved: false, behind: Some(behind) });
        }
    }
    remove_stale_lock(place)?;
    let from = old.as_deref().filter(|_| !cut_short);
    let io = |error: std::io::Error| Failure::io("the tree", &error);
    fs::write(&moving, b"").map_err(io)?;
    // An error leaves the file there: the next pod finishes the move.
    if let Some(behind) = move_files(repository, from, &fetched.commit)? {
        fs::remove_file(&moving).map_err(io)?;
        let commit = from.unwrap_or_default().to_owned();
        return Ok(TreeState { commit, moved: false, behind: Some(behind) });
    }
    write_refs(repository, fetched)?;
    if old.is_none() {
        write_remote(repository, fetched, url)?;
    }
    fs::remove_file(&moving).map_err(io)?;
    Ok(TreeState { commit: fetched.commit.clone(), moved: true, behind: None })
}

/// Moves index and files. Without a commit to come from everything is laid down anew. What is in the way is no error, and
/// then nothing was moved.
fn move_files(repository: &Repository, from: Option<&str>, to: &str) -> Result<Option<Behind>, Failure> {
    let args = match from {
        Some(from) => vec!["read-tree", "-m", "-u", from, to],
        None => vec!["read-tree", "--reset", "-u", to],
    };
    let (code, words) = repository.try_git(&args)?;
    let in_the_way = ["would be overwritten", "would be removed", "not uptodate", "would lose untracked"];
    match code {
        0 => Ok(None),
        _ if from.is_some() && in_the_way.iter().any(|each| words.contains(each)) => {
            let message = Failure::of_git(&words).message;
            Ok(Some(Behind { reason: BehindReason::DirtyTree, message }))
        }
        _ => Err(Failure::of_git(&words)),
    }
}

fn reason_to_stay(
    repository: &Repository,
    place: &Place,
    old: &str,
    fetched: &Fetched,
) -> Result<Option<Behind>, Failure> {
    let stay = |reason, message: String| Ok(Some(Behind { reason, message }));
    if let Some(operation) = UNDER_WAY.iter().find(|name| place.git_dir.join(name).exists()) {
        return stay(BehindReason::DirtyTree, format!("an operation is under way in the tree ({operation})"));
    }
    let placed = repository.resolve_there(PLACED);
    let local =
        fetched.branch.as_ref().and_then(|branch| repository.resolve_there(&format!("refs/heads/{branch}")));
    for commit in [Some(old.to_owned()), local].into_iter().flatten() {
        let ours = Some(&commit) == placed.as_ref()
            || repository.git_succeeds(&["merge-base", "--is-ancestor", &commit, &fetched.commit])?;
        if !ours {
            return stay(BehindReason::LocalCommits, format!("{commit} is not in {}", fetched.name));
        }
    }
    repository.git(&["update-ref", "--no-deref", "HEAD", old], &[])?;
    let status =
        ["status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=all", "--no-renames"];
    let changed = repository.git(&status, &[])?;
    let changed: Vec<String> = changed
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.get(3..).map(|path| String::from_utf8_lossy(path).into_owned()))
        .collect();
    if changed.is_empty() {
        return Ok(None);
    }
    let more =
        if changed.len() > NAMED { format!(" and {} more", changed.len() - NAMED) } else { String::new() };
    let named = changed.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    stay(BehindReason::DirtyTree, format!("changed in the tree: {named}{more}"))
}

/// Nobody mounts the tree and this is the only pod that works on it: who made the lock is gone.
fn remove_stale_lock(place: &Place) -> Result<(), Failure> {
    let lock = place.git_dir.join("index.lock");
    match fs::remove_file(&lock) {
        Ok(()) => {
            tracing::warn!("removed an index.lock that nobody holds");
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::io("a stale index.lock", &error)),
    }
}

fn write_refs(repository: &Repository, fetched: &Fetched) -> Result<(), Failure> {
    let commit = &fetched.commit;
    let mut updates = format!("update {PLACED} {commit}\n");
    if let Some(branch) = &fetched.branch {
        updates.push_str(&format!("update refs/heads/{branch} {commit}\n"));
    }
    repository.git_there(&["update-ref", "--stdin"], updates.as_bytes())?;
    match &fetched.branch {
        Some(branch) => repository.git_there(&["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")], &[]),
        None => repository.git_there(&["update-ref", "--no-deref", "HEAD", commit], &[]),
    }
    .map(drop)
}

/// What `git clone` would have written, so that a user's `git pull` and `git push` know where to go.
fn write_remote(repository: &Repository, fetched: &Fetched, url: &GitUrl) -> Result<(), Failure> {
    let Some(place) = repository.place() else {
        return Ok(());
    };
    let file = place.git_dir.join("config");
    let set = |name: &str, value: &str| {
        let args = ["config", "--file", &path_text(&file), name, value];
        repository.caller().run(&super::git::Call { args: args.to_vec(), ..Default::default() }).map(drop)
    };
    set("remote.origin.url", &url.to_string())?;
    set("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")?;
    if let Some(branch) = &fetched.branch {
        set(&format!("branch.{branch}.remote"), "origin")?;
        set(&format!("branch.{branch}.merge"), &format!("refs/heads/{branch}"))?;
    }
    Ok(())
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

//! From a listing to configurations: what may be one, what the links on the way lead to, what is kept.

use std::collections::{BTreeMap, BTreeSet};

use super::link::Links;
use super::place::{Form, Place};
use super::{
    ConfigFile, Configuration, Discovery, Entry, EntryKind, MAX_CONFIGURATIONS, MAX_PATH_BYTES, Options,
    Refusal,
};
use crate::path::{basename, join, parent};

/// The most links to a `.devcontainer` folder, or to a named one, that are followed; those nearest to the root are.
const MAX_LINKED_FOLDERS: usize = 100;

/// A path that is, or may be, a configuration.
struct Candidate {
    place: Place,
    state: State,
}

enum State {
    Settled(ConfigFile),
    /// A link that wasn't followed yet.
    Link,
    /// Links lead there; whether it is a regular file is to be seen. If it isn't, a certain one is refused, any other is none.
    Resolved {
        target: String,
        certain: bool,
    },
}

type Candidates = BTreeMap<String, Candidate>;

pub(super) fn find<'a, I>(entries: I, options: &Options) -> Discovery
where
    I: Iterator<Item = Entry<'a>> + Clone,
{
    let links = Links::new(entries.clone());
    let (mut candidates, mut omitted) = keep_nearest(direct(entries.clone(), options));
    for (path, candidate) in &mut candidates {
        if matches!(candidate.state, State::Link) {
            candidate.state = resolved(&links, path, true);
        }
    }
    let (linked, omitted_links) = linked(entries.clone(), &links, options);
    candidates.extend(linked);
    settle(entries, &mut candidates);
    let (candidates, omitted_at_last) = keep_nearest(candidates);
    omitted += omitted_links + omitted_at_last;
    let mut configurations: Vec<Configuration> = candidates
        .into_iter()
        .filter_map(|(config_path, candidate)| match candidate.state {
            State::Settled(file) => Some(Configuration { config_path, place: candidate.place, file }),
            State::Link | State::Resolved { .. } => None,
        })
        .collect();
    configurations.sort_by(|a, b| a.place.cmp(&b.place));
    Discovery { configurations, omitted }
}

/// What stands in the listing itself.
fn direct<'a>(entries: impl Iterator<Item = Entry<'a>>, options: &Options) -> Candidates {
    let mut found = Candidates::new();
    for entry in entries {
        let state = match entry.kind {
            EntryKind::Directory => continue,
            _ if entry.path.len() > MAX_PATH_BYTES || entry.path.contains('\0') => {
                State::Settled(ConfigFile::Refused(Refusal::PathTooLong))
            }
            EntryKind::File => State::Settled(ConfigFile::Regular),
            EntryKind::Symlink { .. } => State::Link,
        };
        if let Some(place) = Place::of(entry.path).filter(|place| options.includes(entry.path, place)) {
            found.insert(entry.path.to_owned(), Candidate { place, state });
        }
    }
    found
}

/// Those nearest to the root, and how many are left out.
fn keep_nearest(candidates: Candidates) -> (Candidates, usize) {
    let omitted = candidates.len().saturating_sub(MAX_CONFIGURATIONS);
    if omitted == 0 {
        return (candidates, 0);
    }
    let mut sorted: Vec<(String, Candidate)> = candidates.into_iter().collect();
    sorted.sort_by(|(_, a), (_, b)| (a.place.depth(), &a.place).cmp(&(b.place.depth(), &b.place)));
    sorted.truncate(MAX_CONFIGURATIONS);
    (sorted.into_iter().collect(), omitted)
}

fn resolved(links: &Links<'_>, path: &str, certain: bool) -> State {
    match links.resolve(path) {
        Ok(target) => State::Resolved { target, certain },
        Err(refusal) => State::Settled(ConfigFile::Refused(refusal)),
    }
}

/// Configurations below a link: `.devcontainer` itself, or a named folder in it. Also, how many such links aren't followed.
fn linked<'a>(
    entries: impl Iterator<Item = Entry<'a>>,
    links: &Links<'a>,
    options: &Options,
) -> (Candidates, usize) {
    let followed = |link: &&str| {
        let config_path = join(link, "devcontainer.json");
        Place::of(&config_path).is_some_and(|place| options.includes(&config_path, &place))
    };
    let mut folders: Vec<&str> = links.paths().filter(followed).collect();
    folders.sort_by_key(|link| (link.split('/').count(), *link));
    let omitted = folders.len().saturating_sub(MAX_LINKED_FOLDERS);
    folders.truncate(MAX_LINKED_FOLDERS);

    let mut found = Candidates::new();
    let mut add = |config_path: String| {
        let Some(place) = Place::of(&config_path).filter(|place| options.includes(&config_path, place))
        else {
            return;
        };
        let state = resolved(links, &config_path, false);
        let refused = matches!(state, State::Settled(_));
        if !refused || place.form == Form::Folder {
            found.insert(config_path, Candidate { place, state });
        }
    };
    folders.iter().for_each(|link| add(join(link, "devcontainer.json")));
    for (link, name) in named_below(entries, links, &folders) {
        add(join(&join(link, &name), "devcontainer.json"));
    }
    (found, omitted)
}

/// The named folders below each link that stands for a `.devcontainer`: the first by name, as many as are kept at most.
fn named_below<'a>(
    entries: impl Iterator<Item = Entry<'a>>,
    links: &Links<'a>,
    folders: &[&'a str],
) -> Vec<(&'a str, String)> {
    let whole = |link: &&&str| basename(link) == ".devcontainer" && basename(parent(link)) != ".devcontainer";
    let whole = folders.iter().filter(whole);
    let targets: Vec<(&str, String)> =
        whole.filter_map(|link| Some((*link, links.resolve(link).ok()?))).collect();
    let mut names: BTreeMap<&str, BTreeSet<&str>> =
        targets.iter().map(|(_, target)| (target.as_str(), BTreeSet::new())).collect();
    if names.is_empty() {
        return Vec::new();
    }
    for entry in entries.filter(|entry| entry.kind != EntryKind::Directory) {
        let folder = parent(entry.path);
        if basename(entry.path) != "devcontainer.json" || folder.is_empty() {
            continue;
        }
        if let Some(names) = names.get_mut(parent(folder)) {
            names.insert(basename(folder));
            if names.len() > MAX_CONFIGURATIONS {
                names.pop_last();
            }
        }
    }
    let of_link = |(link, target): &(&'a str, String)| {
        let names = names.get(target.as_str()).into_iter().flatten();
        names.map(|name| (*link, (*name).to_owned())).collect::<Vec<_>>()
    };
    targets.iter().flat_map(of_link).collect()
}

/// Looks up what links lead to, and drops what was only a possibility.
fn settle<'a>(entries: impl Iterator<Item = Entry<'a>>, candidates: &mut Candidates) {
    let wanted: BTreeSet<String> = candidates
        .values()
        .filter_map(|candidate| match &candidate.state {
            State::Resolved { target, .. } => Some(target.clone()),
            State::Settled(_) | State::Link => None,
        })
        .collect();
    if wanted.is_empty() {
        return;
    }
    let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
    for entry in entries {
        match entry.kind {
            EntryKind::File => files.extend(wanted.get(entry.path)),
            EntryKind::Directory => folders.extend(wanted.get(entry.path)),
            EntryKind::Symlink { .. } => {}
        }
        let mut folder = parent(entry.path);
        while !folder.is_empty() {
            folders.extend(wanted.get(folder));
            folder = parent(folder);
        }
    }
    candidates.retain(|_, candidate| {
        let State::Resolved { target, certain } = &candidate.state else {
            return true;
        };
        let file = if files.contains(target) {
            ConfigFile::Linked(target.clone())
        } else if !certain {
            return false;
        } else if folders.contains(target) || target.is_empty() {
            ConfigFile::Refused(Refusal::NotAFile)
        } else {
            ConfigFile::Refused(Refusal::LinkTargetMissing)
        };
        candidate.state = State::Settled(file);
        true
    });
}

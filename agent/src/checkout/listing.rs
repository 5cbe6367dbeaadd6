//! A listing of a source tree, from git objects or from a folder, and the bytes of single files of it. What is found is
//! decided by [`devcontainer::discover`]; here nothing is followed, and every number has a bound.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use devcontainer::discover::{Entry, EntryKind, Options};
use drydock_protocol::checkout::CheckoutReason;
use drydock_protocol::limits;

use super::failure::Failure;
use super::repository::Repository;

/// Paths of a folder that are looked at.
const WALK_MAX: usize = 500_000;
/// Links whose text is read.
const LINKS_MAX: usize = 20_000;
/// Longest text of a link.
const LINK_MAX: usize = 4096;

/// A listing.
#[derive(Debug, Default)]
pub struct Listing {
    entries: Vec<Listed>,
    /// What was left out, for people.
    pub notes: Vec<String>,
}

#[derive(Debug)]
struct Listed {
    path: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    File,
    Directory,
    Link(String),
}

/// Where the bytes of a file come from.
pub enum Source<'a> {
    /// Objects of a commit.
    Commit(&'a Repository, &'a str),
    /// A folder.
    Folder(&'a Path),
}

/// The bytes of a file, or why not.
pub enum Content {
    /// All of them.
    Bytes(Vec<u8>),
    /// It has so many bytes.
    TooLarge(u64),
    /// For people.
    Unreadable(String),
}

impl Listing {
    /// Entries as the discovery takes them.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> + Clone {
        self.entries.iter().map(|listed| Entry {
            path: &listed.path,
            kind: match &listed.kind {
                Kind::File => EntryKind::File,
                Kind::Directory => EntryKind::Directory,
                Kind::Link(target) => EntryKind::Symlink { target },
            },
        })
    }

    /// Lists a commit.
    ///
    /// # Errors
    /// Git's.
    pub fn of_commit(repository: &Repository, commit: &str) -> Result<Self, Failure> {
        let output = repository.git(&["ls-tree", "-r", "-z", "--full-tree", commit], &[])?;
        let mut listing = Self::default();
        let mut links = Vec::new();
        for record in output.split(|byte| *byte == 0) {
            let Some((mode, id, path)) = parse_record(record) else {
                continue;
            };
            let kind = match mode {
                "120000" => {
                    links.push((listing.entries.len(), id.to_owned()));
                    Kind::Link(String::new())
                }
                "160000" => Kind::Directory,
                _ => Kind::File,
            };
            listing.entries.push(Listed { path: path.to_owned(), kind });
        }
        listing.read_links(repository, links)?;
        Ok(listing)
    }

    fn read_links(
        &mut self,
        repository: &Repository,
        mut links: Vec<(usize, String)>,
    ) -> Result<(), Failure> {
        if links.len() > LINKS_MAX {
            self.notes.push(format!("{} symbolic links: only the first {LINKS_MAX} were read", links.len()));
            links.truncate(LINKS_MAX);
        }
        if links.is_empty() {
            return Ok(());
        }
        let ids: String = links.iter().map(|(_, id)| format!("{id}\n")).collect();
        let output = repository.git(&["cat-file", "--batch"], ids.as_bytes())?;
        let texts = parse_batch(&output);
        for (index, id) in links {
            let text = texts.get(id.as_str()).filter(|bytes| bytes.len() <= LINK_MAX);
            let text = text.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
            self.entries[index].kind = Kind::Link(text);
        }
        Ok(())
    }

    /// Walks a folder, following no link.
    ///
    /// # Errors
    /// The folder itself isn't there.
    pub fn of_folder(root: &Path, options: &Options) -> Result<Self, Failure> {
        if !root.is_dir() {
            let message = "the folder is not there: check the claim's subPath";
            return Err(Failure::new(CheckoutReason::DirectoryNotFound, message));
        }
        let mut listing = Self::default();
        let mut open = vec![String::new()];
        while let Some(folder) = open.pop() {
            let Ok(entries) = fs::read_dir(root.join(&folder)) else {
                listing.note(format!("the folder {folder:?} can't be read"));
                continue;
            };
            for entry in entries.flatten() {
                if listing.entries.len() >= WALK_MAX {
                    listing.note(format!("only the first {WALK_MAX} files and folders were looked at"));
                    return Ok(listing);
                }
                let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
                    continue;
                };
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                let kind = if kind.is_symlink() {
                    let target = fs::read_link(entry.path())
                        .ok()
                        .and_then(|target| target.into_os_string().into_string().ok());
                    Kind::Link(target.unwrap_or_default())
                } else if kind.is_dir() {
                    if options.descends_into(&path) {
                        open.push(path.clone());
                    }
                    Kind::Directory
                } else if kind.is_file() {
                    Kind::File
                } else {
                    continue;
                };
                listing.entries.push(Listed { path, kind });
            }
        }
        Ok(listing)
    }

    fn note(&mut self, text: String) {
        if self.notes.len() < 20 {
            self.notes.push(text);
        }
    }
}

impl Source<'_> {
    /// Reads one file, [`limits::CONFIG_MAX`] bytes at most.
    #[must_use]
    pub fn read(&self, path: &str) -> Content {
        match self {
            Self::Commit(repository, commit) => read_blob(repository, commit, path),
            Self::Folder(root) => read_file(root, path),
        }
    }
}

fn read_blob(repository: &Repository, commit: &str, path: &str) -> Content {
    let name = format!("{commit}:{path}");
    let size = repository.git(&["cat-file", "-s", &name], &[]).and_then(|size| {
        let text = String::from_utf8_lossy(&size).trim().parse::<u64>();
        text.map_err(|error| Failure::new(CheckoutReason::GitFailed, error.to_string()))
    });
    match size {
        Ok(size) if size > limits::CONFIG_MAX as u64 => Content::TooLarge(size),
        Ok(_) => match repository.git(&["cat-file", "blob", &name], &[]) {
            Ok(bytes) => Content::Bytes(bytes),
            Err(failure) => Content::Unreadable(failure.message),
        },
        Err(failure) => Content::Unreadable(failure.message),
    }
}

/// Opens beneath the root without following any link: whoever writes to the folder may change it meanwhile.
fn read_file(root: &Path, path: &str) -> Content {
    use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
    let open = || -> std::io::Result<fs::File> {
        let root = fs::File::open(root)?;
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        let file = fs::File::from(openat2(&root, path, how)?);
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::other("it is no regular file"));
        }
        Ok(file)
    };
    let read = |file: fs::File| -> std::io::Result<Content> {
        let size = file.metadata()?.len();
        if size > limits::CONFIG_MAX as u64 {
            return Ok(Content::TooLarge(size));
        }
        let mut bytes = Vec::new();
        file.take(limits::CONFIG_MAX as u64 + 1).read_to_end(&mut bytes)?;
        Ok(if bytes.len() > limits::CONFIG_MAX {
            Content::TooLarge(bytes.len() as u64)
        } else {
            Content::Bytes(bytes)
        })
    };
    open().and_then(read).unwrap_or_else(|error| Content::Unreadable(error.to_string()))
}

/// `mode SP type SP id TAB path`; a path that isn't UTF-8 can't be named and is left out.
fn parse_record(record: &[u8]) -> Option<(&str, &str, &str)> {
    let (head, path) = std::str::from_utf8(record).ok()?.split_once('\t')?;
    let mut fields = head.split(' ');
    let (mode, _, id) = (fields.next()?, fields.next()?, fields.next()?);
    Some((mode, id, path))
}

/// `id SP type SP size LF bytes LF`, again and again.
fn parse_batch(mut output: &[u8]) -> HashMap<&str, &[u8]> {
    let mut found = HashMap::new();
    while let Some(end) = output.iter().position(|byte| *byte == b'\n') {
        let head = std::str::from_utf8(&output[..end]).unwrap_or_default();
        let rest = &output[end + 1..];
        let mut fields = head.split(' ');
        let (id, size) =
            (fields.next().unwrap_or_default(), fields.nth(1).and_then(|size| size.parse::<usize>().ok()));
        let Some(size) = size else {
            output = rest;
            continue;
        };
        let Some(bytes) = rest.get(..size) else { break };
        found.insert(id, bytes);
        output = rest.get(size + 1..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gits_answers_are_read() {
        assert_eq!(parse_record(b"100644 blob abc\ta b\tc"), Some(("100644", "abc", "a b\tc")));
        assert_eq!(parse_record(b""), None);
        let batch = parse_batch(b"aa blob 3\nx\ny\nbb missing\ncc blob 0\n\n");
        assert_eq!((batch["aa"], batch["cc"], batch.get("bb")), (b"x\ny".as_slice(), b"".as_slice(), None));
    }

    #[test]
    fn b005_a_walk_follows_no_link_and_stays_out_of_what_others_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for folder in ["a/.devcontainer", "node_modules/x/.devcontainer"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("devcontainer.json"), "{}").unwrap();
        }
        std::os::unix::fs::symlink(".", root.join("loop")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join(".devcontainer.json")).unwrap();
        let listing = Listing::of_folder(root, &Options::default()).unwrap();
        let found = devcontainer::discover::discover(listing.entries(), &Options::default());
        let paths: Vec<_> =
            found.configurations.iter().map(|each| (each.config_path.as_str(), each.read_path())).collect();
        let inside = "a/.devcontainer/devcontainer.json";
        assert_eq!(paths, [(".devcontainer.json", None), (inside, Some(inside))]);
        assert!(matches!(Source::Folder(root).read(".devcontainer.json"), Content::Unreadable(_)));
        assert!(matches!(
            Source::Folder(root).read("loop/a/.devcontainer/devcontainer.json"),
            Content::Unreadable(_)
        ));
        assert!(matches!(Source::Folder(root).read(inside), Content::Bytes(bytes) if bytes == b"{}"));
    }
}

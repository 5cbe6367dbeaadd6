//! One layer: a tar archive on disk, the same bytes for the same content.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::{Error, Result};

use super::hex;

/// A layer on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Layer {
    /// `sha256:…` of the archive.
    pub(crate) digest: String,
    /// Its length in bytes.
    pub(crate) size: u64,
    /// Where it lies.
    pub(crate) path: PathBuf,
}

/// One thing in a layer, owned by root.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    target: String,
    mode: u32,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Folder,
    File(PathBuf),
    Text(String),
    Link(String),
}

impl Entry {
    pub(crate) fn folder(target: &str, mode: u32) -> Self {
        Self { target: target.to_owned(), mode, content: Content::Folder }
    }

    /// A file with the content of the host's file `source`.
    pub(crate) fn file(target: &str, mode: u32, source: PathBuf) -> Self {
        Self { target: target.to_owned(), mode, content: Content::File(source) }
    }

    pub(crate) fn text(target: &str, text: &str) -> Self {
        Self { target: target.to_owned(), mode: 0o644, content: Content::Text(text.to_owned()) }
    }

    /// A symbolic link.
    pub(crate) fn link(target: &str, to: &str) -> Self {
        Self { target: target.to_owned(), mode: 0o777, content: Content::Link(to.to_owned()) }
    }
}

impl Layer {
    /// Writes the archive of `entries` into `folder`. Folders on the way to an entry are made.
    pub(crate) fn write(entries: &[Entry], folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        let draft = tempfile::NamedTempFile::new_in(folder).map_err(Error::file("make a file in", folder))?;
        let mut builder = Builder::new(io::BufWriter::new(draft.as_file()));
        let mut made = BTreeSet::new();
        for entry in entries {
            append(&mut builder, entry, &mut made)
                .map_err(Error::file("put into an image", &entry.target))?;
        }
        let finish = builder.into_inner().and_then(|mut writer| writer.flush());
        finish.map_err(Error::file("write", draft.path()))?;
        Self::adopt(draft, folder)
    }

    /// Names the archive `draft` by its digest and puts it into `folder`.
    pub(crate) fn adopt(draft: tempfile::NamedTempFile, folder: &Path) -> Result<Self> {
        let (digest, size) = digest_of(draft.path())?;
        let path = folder.join(digest.replace(':', "-")).with_extension("tar");
        draft.persist(&path).map_err(|error| Error::file("write", &path)(error.error))?;
        Ok(Self { digest, size, path })
    }
}

/// The `sha256:…` and length of a file.
pub(crate) fn digest_of(path: &Path) -> Result<(String, u64)> {
    let mut file = File::open(path).map_err(Error::file("open", path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        let count = file.read(&mut buffer).map_err(Error::file("read", path))?;
        if count == 0 {
            return Ok((format!("sha256:{}", hex(&hash.finalize())), size));
        }
        hash.update(&buffer[..count]);
        size += count as u64;
    }
}

fn append<W: Write>(builder: &mut Builder<W>, entry: &Entry, made: &mut BTreeSet<String>) -> io::Result<()> {
    let path = entry.target.trim_matches('/');
    let parents = path.match_indices('/').map(|(end, _)| &path[..end]);
    for parent in parents {
        if made.insert(parent.to_owned()) {
            builder.append_data(&mut header(EntryType::Directory, 0o755, 0), parent, io::empty())?;
        }
    }
    match &entry.content {
        Content::Folder => {
            made.insert(path.to_owned());
            builder.append_data(&mut header(EntryType::Directory, entry.mode, 0), path, io::empty())
        }
        Content::File(source) => {
            let file = File::open(source)?;
            let size = file.metadata()?.len();
            builder.append_data(&mut header(EntryType::Regular, entry.mode, size), path, file)
        }
        Content::Text(text) => {
            let size = text.len() as u64;
            builder.append_data(&mut header(EntryType::Regular, entry.mode, size), path, text.as_bytes())
        }
        Content::Link(to) => builder.append_link(&mut header(EntryType::Symlink, entry.mode, 0), path, to),
    }
}

/// Owner root, and a time that never changes.
fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_content_is_the_same_layer_with_folders_before_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let entries =
            [Entry::text("/etc/ssl/x", "1"), Entry::text("/etc/y", "2"), Entry::link("/bin/sh", "busybox")];
        let first = Layer::write(&entries, folder.path()).unwrap();
        let second = Layer::write(&entries, folder.path()).unwrap();
        assert_eq!(first.digest, second.digest);
        assert_eq!(first.size, fs::metadata(&first.path).unwrap().len());

        let mut archive = tar::Archive::new(File::open(&first.path).unwrap());
        let paths: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(paths, ["etc", "etc/ssl", "etc/ssl/x", "etc/y", "bin", "bin/sh"]);
    }
}

//! Image archives (`docker save`, `buildah push oci-archive:`): tar files of an OCI image layout.

use std::fs::{self, File};
use std::path::Path;

use serde_json::Value;

use crate::registry::{ImageReference, Registry};
use crate::{Error, Result};

/// Pushes the one image of the archive under its own name, or that of its file. Blocks.
pub(crate) fn push(registry: &Registry, archive: &Path) -> Result<ImageReference> {
    let work = tempfile::tempdir().map_err(Error::file("make a folder in", std::env::temp_dir()))?;
    let file = File::open(archive).map_err(Error::file("open", archive))?;
    tar::Archive::new(file).unpack(work.path()).map_err(Error::file("unpack", archive))?;
    let index = read(work.path(), "index.json", archive)?;
    let Some([entry]) = index["manifests"].as_array().map(Vec::as_slice) else {
        return Err(malformed(archive, "index.json does not list exactly one image"));
    };
    let digest = text(entry, "digest", archive)?;
    let (name, tag) = name_of(entry, archive);
    let bytes = fs::read(work.path().join(blob(&digest))).map_err(Error::file("read", archive))?;
    let manifest = read(work.path(), &blob(&digest), archive)?;
    let layers =
        manifest["layers"].as_array().ok_or_else(|| malformed(archive, "its manifest has no layers"))?;
    for part in std::iter::once(&manifest["config"]).chain(layers) {
        let digest = text(part, "digest", archive)?;
        registry.push_blob(&name, &digest, &work.path().join(blob(&digest)))?;
    }
    registry.push_manifest(&name, &tag, &digest, &bytes)
}

/// The repository and tag: the image's own, without its registry, else the file's name.
fn name_of(entry: &Value, archive: &Path) -> (String, String) {
    let annotations = &entry["annotations"];
    let own = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
    let own = own.iter().find_map(|key| annotations[key].as_str()).filter(|name| name.contains('/'));
    let file = archive.file_stem().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let full = own.unwrap_or(&file);
    let path = match full.split_once('/') {
        Some((registry, path)) if registry.contains(['.', ':']) => path,
        _ => full,
    };
    match path.rsplit_once(':') {
        Some((name, tag)) => (name.to_owned(), tag.to_owned()),
        None => (path.to_owned(), "latest".to_owned()),
    }
}

fn blob(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

fn read(folder: &Path, file: &str, archive: &Path) -> Result<Value> {
    let bytes =
        fs::read(folder.join(file)).map_err(|_| malformed(archive, &format!("it holds no {file}")))?;
    serde_json::from_slice(&bytes).map_err(|error| malformed(archive, &format!("{file}: {error}")))
}

fn text(value: &Value, field: &str, archive: &Path) -> Result<String> {
    let found = value[field].as_str().filter(|digest| !digest.contains(".."));
    found.map(str::to_owned).ok_or_else(|| malformed(archive, &format!("a descriptor has no {field}")))
}

fn malformed(archive: &Path, why: &str) -> Error {
    Error::invalid(format!("{} is no archive of an OCI image layout: {why}", archive.display()))
}

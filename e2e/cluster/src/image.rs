//! Container images without a container engine: layers as plain tar archives, a configuration and a manifest, as the
//! OCI Image Format Specification has them.
//!
//! Layers are not compressed, so a layer's digest is its `diff_id` too, and neither side spends time on what stays on
//! one machine.

pub(crate) mod archive;
pub(crate) mod debian;
pub(crate) mod layer;
pub(crate) mod standard;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::Result;
use layer::{Entry, Layer};

/// The media type of an image's manifest.
pub(crate) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";

/// An image to make from files of the host.
#[derive(Clone, Debug, Default)]
pub struct ImageBuild {
    /// The repository's name in the registry, such as `drydock/agent`.
    pub name: String,
    /// The tag; an empty one is `1`.
    pub tag: String,
    /// A standard image to build on (see [`Cluster::image`](crate::Cluster::image)), or none to start from nothing.
    pub base: Option<String>,
    /// The files to add.
    pub files: Vec<ImageFile>,
    /// The user that containers run as; none keeps the base's.
    pub user: Option<String>,
    /// The command that containers run; an empty one keeps the base's.
    pub entrypoint: Vec<String>,
    /// Further variables of the environment.
    pub env: BTreeMap<String, String>,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
}

/// A file of the host that goes into an image, owned by root.
#[derive(Clone, Debug)]
pub struct ImageFile {
    /// Where it lies on the host.
    pub source: PathBuf,
    /// Where it goes, absolute; its folders are made.
    pub target: String,
    /// Its permission bits, such as `0o755`.
    pub mode: u32,
}

/// What a container of an image is like; the part of an image's configuration that this crate sets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Settings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) env: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) entrypoint: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) cmd: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(crate) labels: BTreeMap<String, String>,
}

/// An image whose layers lie on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Image {
    layers: Vec<Layer>,
    settings: Settings,
}

/// Bytes and what names them.
pub(crate) struct Blob {
    pub(crate) digest: String,
    pub(crate) bytes: Vec<u8>,
}

impl Image {
    pub(crate) fn new(layers: Vec<Layer>, settings: Settings) -> Self {
        Self { layers, settings }
    }

    pub(crate) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The image's configuration.
    pub(crate) fn config(&self) -> Blob {
        let layers: Vec<&str> = self.layers.iter().map(|layer| layer.digest.as_str()).collect();
        blob(&json!({
            "architecture": architecture(),
            "os": "linux",
            "config": self.settings,
            "rootfs": {"type": "layers", "diff_ids": layers},
        }))
    }

    /// The image's manifest.
    pub(crate) fn manifest(&self) -> Blob {
        let config = self.config();
        let layers: Vec<Value> =
            self.layers.iter().map(|layer| descriptor(LAYER_TYPE, &layer.digest, layer.size)).collect();
        blob(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": descriptor(CONFIG_TYPE, &config.digest, config.bytes.len() as u64),
            "layers": layers,
        }))
    }
}

impl ImageBuild {
    /// Makes the image; its new layer goes into `folder`, which must live until it is pushed. Blocks.
    pub(crate) fn make(&self, base: Option<Image>, folder: &std::path::Path) -> Result<Image> {
        let Image { mut layers, mut settings } = base.unwrap_or(Image::new(Vec::new(), Settings::default()));
        let files = self.files.iter();
        let entries: Vec<Entry> =
            files.map(|file| Entry::file(&file.target, file.mode, file.source.clone())).collect();
        if !entries.is_empty() {
            layers.push(Layer::write(&entries, folder)?);
        }
        settings.user = self.user.clone().or(settings.user);
        if !self.entrypoint.is_empty() {
            settings.entrypoint.clone_from(&self.entrypoint);
            settings.cmd.clear();
        }
        for (name, value) in &self.env {
            let prefix = format!("{name}=");
            settings.env.retain(|variable| !variable.starts_with(&prefix));
            settings.env.push(format!("{prefix}{value}"));
        }
        settings.labels.extend(self.labels.clone());
        Ok(Image::new(layers, settings))
    }
}

/// `sha256:…` of bytes.
pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn blob(value: &Value) -> Blob {
    let bytes = value.to_string().into_bytes();
    Blob { digest: digest(&bytes), bytes }
}

fn descriptor(media_type: &str, digest: &str, size: u64) -> Value {
    json!({"mediaType": media_type, "digest": digest, "size": size})
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_keeps_what_it_does_not_set() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("tool");
        std::fs::write(&source, "x").unwrap();
        let settings = Settings { user: Some("dev".into()), env: vec!["A=1".into()], ..Settings::default() };
        let build = ImageBuild {
            files: vec![ImageFile { source, target: "/bin/tool".into(), mode: 0o755 }],
            entrypoint: vec!["/bin/tool".into()],
            env: [("B".to_owned(), "2".to_owned())].into(),
            ..ImageBuild::default()
        };
        let image = build.make(Some(Image::new(Vec::new(), settings)), folder.path()).unwrap();
        assert_eq!(image.settings.user.as_deref(), Some("dev"));
        assert_eq!(image.settings.env, ["A=1", "B=2"]);
        let config: Value = serde_json::from_slice(&image.config().bytes).unwrap();
        assert_eq!(config["config"]["Entrypoint"], json!(["/bin/tool"]));
        assert_eq!(config["rootfs"]["diff_ids"][0], image.layers()[0].digest.as_str());
    }
}

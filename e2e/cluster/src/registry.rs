//! The image registry of a cluster: how it is started and how images get into it.
//!
//! Speaks the part of the OCI Distribution Specification that pushing takes, over plain HTTP.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use ureq::http::Response;

use crate::image::{Image, MANIFEST_TYPE};
use crate::layout::Layout;
use crate::process::{Process, Start};
use crate::{Error, Result, control_plane, node};

const DEADLINE: Duration = Duration::from_secs(300);
const ANSWER_SHOWN: u64 = 500;

/// A registry's addresses, `HOST:PORT` each; all of them are the same registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    /// As the host pushes to it.
    pub host: String,
    /// As a node pulls from it, and so what a pod's `image` names.
    pub node: String,
    /// As a program in a pod reaches it.
    pub pod: String,
}

/// An image in a cluster's registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    /// For a pod's `image`: `REGISTRY/NAME@sha256:…`, with the registry as nodes see it.
    pub node: String,
    /// For programs in pods.
    pub pod: String,
    /// For programs on the host.
    pub host: String,
    /// For a pod's `image`, by tag: `REGISTRY/NAME:TAG`.
    pub tagged: String,
    /// `sha256:…` of the manifest.
    pub digest: String,
}

/// Starts a registry that keeps its images in the cluster's folder.
pub(crate) fn start(layout: &Layout, inside: &[String]) -> Result<Process> {
    let config = layout.root().join("registry.yml");
    let port = node::REGISTRY_PORT;
    let storage = layout.root().join("registry");
    let text = serde_json::json!({
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": true}},
        "storage": {
            "filesystem": {"rootdirectory": storage},
            "cache": {"blobdescriptor": "inmemory"},
            "delete": {"enabled": true},
        },
        "http": {"addr": format!(":{port}")},
    });
    std::fs::write(&config, text.to_string()).map_err(Error::file("write", &config))?;
    let argv = ["docker-registry", "serve", &config.display().to_string()].map(str::to_owned).into();
    Start::new("registry", control_plane::wrap(inside, argv)).spawn(layout)
}

impl Registry {
    /// The registry of a cluster whose node 1 has `address`.
    pub(crate) fn of_node(address: &str) -> Self {
        let port = node::REGISTRY_PORT;
        let seen = format!("{address}:{port}");
        Self { host: seen.clone(), node: format!("localhost:{port}"), pod: seen }
    }

    /// Whether it answers.
    pub(crate) fn ready(&self) -> std::result::Result<(), String> {
        let asked = agent(Duration::from_secs(2)).get(format!("http://{}/v2/", self.host)).call();
        match asked.map_err(|error| error.to_string())?.status().as_u16() {
            200 => Ok(()),
            status => Err(format!("answered {status}")),
        }
    }

    /// Uploads what the registry lacks of an image and tags it. Blocks.
    pub(crate) fn push(&self, image: &Image, name: &str, tag: &str) -> Result<ImageReference> {
        let agent = agent(DEADLINE);
        let manifest = image.manifest();
        if self.holds(&agent, &format!("{name}/manifests/{}", manifest.digest))? {
            self.put_manifest(&agent, name, tag, &manifest.bytes)?;
            return Ok(self.reference(name, tag, manifest.digest));
        }
        for layer in image.layers() {
            if !self.holds(&agent, &format!("{name}/blobs/{}", layer.digest))? {
                let file = File::open(&layer.path).map_err(Error::file("open", &layer.path))?;
                self.upload(&agent, name, &layer.digest, &file)?;
            }
        }
        let config = image.config();
        self.upload(&agent, name, &config.digest, config.bytes.as_slice())?;
        self.put_manifest(&agent, name, tag, &manifest.bytes)?;
        Ok(self.reference(name, tag, manifest.digest))
    }

    /// Uploads one blob from a file, unless it is there. Blocks.
    pub(crate) fn push_blob(&self, name: &str, digest: &str, path: &Path) -> Result<()> {
        let agent = agent(DEADLINE);
        if self.holds(&agent, &format!("{name}/blobs/{digest}"))? {
            return Ok(());
        }
        let file = File::open(path).map_err(Error::file("open", path))?;
        self.upload(&agent, name, digest, &file)
    }

    /// Uploads a manifest as it is and tags it. Blocks.
    pub(crate) fn push_manifest(
        &self,
        name: &str,
        tag: &str,
        digest: &str,
        bytes: &[u8],
    ) -> Result<ImageReference> {
        self.put_manifest(&agent(DEADLINE), name, tag, bytes)?;
        Ok(self.reference(name, tag, digest.to_owned()))
    }

    fn reference(&self, name: &str, tag: &str, digest: String) -> ImageReference {
        ImageReference {
            node: format!("{}/{name}@{digest}", self.node),
            pod: format!("{}/{name}@{digest}", self.pod),
            host: format!("{}/{name}@{digest}", self.host),
            tagged: format!("{}/{name}:{tag}", self.node),
            digest,
        }
    }

    fn holds(&self, agent: &Agent, path: &str) -> Result<bool> {
        let url = format!("http://{}/v2/{path}", self.host);
        let answer = agent.head(&url).header("Accept", MANIFEST_TYPE).call();
        match answer.map_err(|error| self.failed(&error.to_string()))?.status().as_u16() {
            200 => Ok(true),
            404 => Ok(false),
            status => Err(self.failed(&format!("HEAD {path} was answered {status}"))),
        }
    }

    fn upload(&self, agent: &Agent, name: &str, digest: &str, body: impl ureq::AsSendBody) -> Result<()> {
        let url = format!("http://{}/v2/{name}/blobs/uploads/", self.host);
        let begun = self.accept(agent.post(&url).send_empty(), 202)?;
        let location = begun.headers().get("location").and_then(|value| value.to_str().ok());
        let location = location.ok_or_else(|| self.failed("an upload was begun without a location"))?;
        let location = if location.starts_with('/') {
            format!("http://{}{location}", self.host)
        } else {
            location.to_owned()
        };
        let separator = if location.contains('?') { '&' } else { '?' };
        let put = agent.put(format!("{location}{separator}digest={digest}"));
        self.accept(put.header("Content-Type", "application/octet-stream").send(body), 201).map(drop)
    }

    fn put_manifest(&self, agent: &Agent, name: &str, tag: &str, bytes: &[u8]) -> Result<()> {
        let kind = serde_json::from_slice::<serde_json::Value>(bytes)
            .ok()
            .and_then(|manifest| manifest["mediaType"].as_str().map(str::to_owned))
            .unwrap_or_else(|| MANIFEST_TYPE.to_owned());
        let url = format!("http://{}/v2/{name}/manifests/{tag}", self.host);
        self.accept(agent.put(&url).header("Content-Type", &kind).send(bytes), 201).map(drop)
    }

    fn accept(
        &self,
        answer: std::result::Result<Response<ureq::Body>, ureq::Error>,
        expected: u16,
    ) -> Result<Response<ureq::Body>> {
        let answer = answer.map_err(|error| self.failed(&error.to_string()))?;
        if answer.status().as_u16() == expected {
            return Ok(answer);
        }
        let status = answer.status();
        let mut text = String::new();
        // What it says is a courtesy; the status is the reason.
        let _ = answer.into_body().into_reader().take(ANSWER_SHOWN).read_to_string(&mut text);
        Err(self.failed(&format!("answered {status} instead of {expected}: {text}")))
    }

    fn failed(&self, reason: &str) -> Error {
        Error::Registry { registry: self.host.clone(), reason: reason.to_owned() }
    }
}

/// Answers of any status are answers; the machine's proxy has no way to a registry of this machine.
fn agent(deadline: Duration) -> Agent {
    let config =
        Agent::config_builder().http_status_as_error(false).proxy(None).timeout_global(Some(deadline));
    Agent::new_with_config(config.build())
}

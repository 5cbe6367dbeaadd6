//! Where a container comes from: an image, a Dockerfile or compose files.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::environment;
use super::reader::{Node, Reader};
use crate::diagnostic::{Reason, quote};
use crate::path;

/// Where a container comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// A ready image.
    Image {
        /// Its reference, as written.
        image: String,
    },
    /// A Dockerfile.
    Dockerfile(Build),
    /// A service of a compose project.
    Compose {
        /// As written, relative to the configuration's folder; empty: compose's own default files.
        files: Vec<String>,
        /// The service that is the dev container.
        service: String,
        /// The services to start; absent: all.
        run_services: Option<Vec<String>>,
    },
}

/// What to build from a Dockerfile. Paths are as written, relative to the configuration's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    /// The Dockerfile.
    pub dockerfile: String,
    /// The build context; absent: the Dockerfile's folder.
    pub context: Option<String>,
    /// Build arguments.
    pub args: IndexMap<String, String>,
    /// The stage.
    pub target: Option<String>,
    /// Images whose layers may be used.
    pub cache_from: Vec<String>,
    /// Arguments of `docker build`.
    pub options: Vec<String>,
}

/// The source, told apart as the reference tool does: a Dockerfile, else an image, else compose.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node<'_>) -> Option<Source> {
    let build = reader.object(root, "build");
    let named =
        build.as_ref().and_then(|build| build.member("dockerfile")).or_else(|| root.member("dockerFile"));
    let (image, compose) = (root.member("image"), root.member("dockerComposeFile"));
    if let Some(dockerfile) = named {
        conflict(reader, &dockerfile, [image, compose]);
        return dockerfile_source(reader, root, build, &dockerfile);
    }
    if let Some(image) = image {
        conflict(reader, &image, [compose, None]);
        return image_source(reader, &image);
    }
    if compose.is_some() {
        return compose_source(reader, root);
    }
    let message = "the configuration says nothing about where its container comes from";
    reader.error(Reason::NoSource, root, message, "write one of image, build.dockerfile, dockerComposeFile");
    None
}

fn conflict(reader: &mut Reader<'_>, used: &Node<'_>, others: [Option<Node<'_>>; 2]) {
    for other in others.into_iter().flatten() {
        let message = format!("{} is used, this isn't", used.pointer);
        reader.warn(Reason::ConflictingProperties, &other, message, "remove one of them");
    }
}

fn image_source(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Source> {
    let image = reader.string_of(node)?;
    if reader.is_settled(&image)
        && (image.is_empty() || image.contains(|c: char| c.is_whitespace() || c.is_control()))
    {
        let fix = "write a reference such as mcr.microsoft.com/devcontainers/base:debian";
        reader.error(Reason::InvalidValue, node, format!("{} isn't an image reference", quote(&image)), fix);
        return None;
    }
    Some(Source::Image { image })
}

fn dockerfile_source(
    reader: &mut Reader<'_>,
    root: &Node<'_>,
    build: Option<Node<'_>>,
    dockerfile: &Node<'_>,
) -> Option<Source> {
    let nothing = Node { pointer: "/build".to_owned(), value: &serde_json::Value::Null };
    let options = build.unwrap_or(nothing);
    let context = options.member("context").or_else(|| root.member("context"));
    let file = reader.string_of(dockerfile)?;
    inside(reader, dockerfile, &file);
    let context = context.and_then(|node| {
        let context = reader.string_of(&node)?;
        inside(reader, &node, &context);
        Some(context)
    });
    Some(Source::Dockerfile(Build {
        dockerfile: file,
        context,
        args: environment::container(reader, &options, "args"),
        target: reader.filled_string(&options, "target"),
        cache_from: reader.one_or_many(&options, "cacheFrom"),
        options: reader.strings(&options, "options"),
    }))
}

fn compose_source(reader: &mut Reader<'_>, root: &Node<'_>) -> Option<Source> {
    let files = reader.one_or_many(root, "dockerComposeFile");
    if let Some(node) = root.member("dockerComposeFile") {
        files.iter().for_each(|file| inside(reader, &node, file));
    }
    let run_services = root.member("runServices").map(|_| reader.strings(root, "runServices"));
    if root.member("service").is_none() {
        let message = "service is missing: which service of the compose files is the dev container";
        reader.error(Reason::MissingProperty, root, message, "write \"service\": \"NAME\"");
        return None;
    }
    let service = reader.string(root, "service")?;
    Some(Source::Compose { files, service, run_services })
}

/// Refuses a path that leaves the workspace.
fn inside(reader: &mut Reader<'_>, node: &Node<'_>, relative: &str) {
    if !reader.is_settled(relative) {
        return;
    }
    if let Err(error) = path::resolve(reader.file(), relative) {
        let fix = "write a path relative to the folder of this file that stays in the workspace";
        reader.error(Reason::PathEscapesWorkspace, node, format!("{}: {error}", quote(relative)), fix);
    }
}

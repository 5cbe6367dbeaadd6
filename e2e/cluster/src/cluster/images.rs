//! Getting images into a cluster's registry.

use std::path::Path;

use crate::image::standard::{self, Standard};
use crate::image::{ImageBuild, archive};
use crate::registry::{ImageReference, Registry};
use crate::{Error, Result};

use super::{Cluster, blocking};

impl Cluster {
    /// The cluster's image registry. An API server alone has none.
    pub fn registry(&self) -> Result<&Registry> {
        self.registry.as_ref().ok_or_else(|| {
            Error::invalid(
                "this cluster has no image registry: use the profile `node`, or set DRYDOCK_REGISTRY=PUSH[,PULL] \
                 for a cluster of others",
            )
        })
    }

    /// A standard image, made and pushed if need be: `alp` (busybox), `deb` (Debian with bash, git, python3, ssh and a
    /// user `dev`), `nosh` (one static binary), `num` (a uid without a name), `root` (no user named), `pause`, `coredns`,
    /// `git-server`.
    ///
    /// The first `deb` of a machine takes a minute or two.
    pub async fn image(&self, name: &str) -> Result<ImageReference> {
        let registry = self.registry()?.clone();
        let image = Standard::named(name)?;
        let made = image.image().await?;
        blocking(move || registry.push(&made, image.name(), standard::TAG)).await
    }

    /// Makes an image of files of the host and pushes it.
    pub async fn push_image(&self, build: ImageBuild) -> Result<ImageReference> {
        let registry = self.registry()?.clone();
        let base = match &build.base {
            Some(name) => Some(Standard::named(name)?.image().await?),
            None => None,
        };
        blocking(move || {
            let folder =
                tempfile::tempdir().map_err(Error::file("make a folder in", std::env::temp_dir()))?;
            let image = build.make(base, folder.path())?;
            let tag = if build.tag.is_empty() { standard::TAG } else { &build.tag };
            registry.push(&image, &build.name, tag)
        })
        .await
    }

    /// Pushes the image of an archive (`docker save` of version 25 or newer, `buildah push oci-archive:`) under its own name.
    pub async fn load_image(&self, file: &Path) -> Result<ImageReference> {
        let registry = self.registry()?.clone();
        let file = file.to_owned();
        blocking(move || archive::push(&registry, &file)).await
    }
}

/// The names of the standard images.
pub fn standard_images() -> Vec<&'static str> {
    standard::ALL.iter().map(|image| image.name()).collect()
}

//! Builds the programs of a cluster from pinned Go modules, once, into a cache.
//!
//! Each module under `tools/` names one program's source by version (`go.mod`) and content (`go.sum`). What is built
//! lies in `${XDG_CACHE_HOME:-~/.cache}/drydock/bin/HASH`, where HASH covers the module's files; a program appears there
//! by a rename, so what exists is whole.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::process::Command;

use crate::command::{report, run_reporting};
use crate::{Error, Result, layout, packages};

/// A cold build of the largest program takes some four minutes on two cores.
const BUILD_DEADLINE: Duration = Duration::from_secs(45 * 60);

/// A program that a cluster or its tests need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The program's name, which is its file name too.
    pub name: &'static str,
    package: &'static str,
    module: &'static Module,
}

#[derive(Debug, PartialEq, Eq)]
struct Module {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    cgo: bool,
    tags: &'static str,
}

/// The files of a module under `tools/`, compiled in.
macro_rules! module {
    ($name:literal, cgo: $cgo:literal, tags: $tags:literal, files: [$($file:literal),*]) => {
        Module {
            name: $name,
            files: &[$(($file, include_str!(concat!("../tools/", $name, "/", $file)))),*],
            cgo: $cgo,
            tags: $tags,
        }
    };
}

static KUBERNETES: Module = module!("kubernetes", cgo: false, tags: "", files: ["go.mod", "go.sum"]);
static ETCD_MODULE: Module = module!("etcd", cgo: false, tags: "", files: ["go.mod", "go.sum"]);
static CONTAINERD_MODULE: Module = module!("containerd", cgo: false, tags: "", files: ["go.mod", "go.sum"]);
static RUNC_MODULE: Module =
    module!("runc", cgo: true, tags: "seccomp netgo osusergo", files: ["go.mod", "go.sum"]);
static COREDNS_MODULE: Module = module!("coredns", cgo: false, tags: "", files: ["go.mod", "go.sum"]);
static GIT_SERVER_MODULE: Module =
    module!("git-server", cgo: false, tags: "", files: ["go.mod", "go.sum", "main.go"]);
static HELM_MODULE: Module = module!("helm", cgo: false, tags: "", files: ["go.mod", "go.sum"]);

macro_rules! tool {
    ($constant:ident, $name:literal, $package:literal, $module:ident) => {
        #[doc = concat!("`", $name, "`, from `", $package, "`.")]
        pub const $constant: Tool = Tool { name: $name, package: $package, module: &$module };
    };
}

tool!(ETCD, "etcd", "go.etcd.io/etcd/server/v3", ETCD_MODULE);
tool!(KUBE_APISERVER, "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", KUBERNETES);
tool!(KUBECTL, "kubectl", "k8s.io/kubernetes/cmd/kubectl", KUBERNETES);
tool!(
    KUBE_CONTROLLER_MANAGER,
    "kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    KUBERNETES
);
tool!(KUBE_SCHEDULER, "kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", KUBERNETES);
tool!(KUBELET, "kubelet", "k8s.io/kubernetes/cmd/kubelet", KUBERNETES);
tool!(KUBE_PROXY, "kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", KUBERNETES);
tool!(RUNC, "runc", "github.com/opencontainers/runc", RUNC_MODULE);
tool!(CONTAINERD, "containerd", "github.com/containerd/containerd/v2/cmd/containerd", CONTAINERD_MODULE);
tool!(
    CONTAINERD_SHIM,
    "containerd-shim-runc-v2",
    "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
    CONTAINERD_MODULE
);
tool!(CTR, "ctr", "github.com/containerd/containerd/v2/cmd/ctr", CONTAINERD_MODULE);
tool!(COREDNS, "coredns", "github.com/coredns/coredns", COREDNS_MODULE);
tool!(GIT_SERVER, "git-server", "drydock/tools/git-server", GIT_SERVER_MODULE);
tool!(HELM, "helm", "helm.sh/helm/v4/cmd/helm", HELM_MODULE);

/// What an API server without nodes takes.
pub const API_TOOLS: &[Tool] = &[ETCD, KUBE_APISERVER, KUBECTL];

/// What a cluster with nodes takes, `helm` included.
pub const NODE_TOOLS: &[Tool] = &[
    ETCD,
    KUBE_APISERVER,
    KUBECTL,
    KUBELET,
    KUBE_CONTROLLER_MANAGER,
    KUBE_SCHEDULER,
    KUBE_PROXY,
    RUNC,
    CONTAINERD,
    CONTAINERD_SHIM,
    CTR,
    COREDNS,
    HELM,
    GIT_SERVER,
];

impl Tool {
    /// Where the program lies once it is built. Says nothing on whether it is.
    pub fn path(&self) -> Result<PathBuf> {
        Ok(self.module.folder()?.join(self.name))
    }

    fn link_flags(&self) -> String {
        let mut flags = "-s -w".to_owned();
        if self.module == &KUBERNETES {
            let version = self.version();
            let minor = version.split('.').nth(1).unwrap_or_default();
            for (variable, value) in
                [("gitVersion", version), ("gitMajor", "1"), ("gitMinor", minor), ("gitTreeState", "clean")]
            {
                flags.push_str(&format!(" -X k8s.io/component-base/version.{variable}={value}"));
            }
        }
        flags
    }

    /// The version that `go.mod` requires of the module the package lies in; empty for a program of our own.
    pub fn version(&self) -> &'static str {
        let go_mod =
            self.module.files.iter().find(|(name, _)| *name == "go.mod").map_or("", |(_, text)| text);
        go_mod
            .lines()
            .filter(|line| !line.contains("=>"))
            .filter_map(|line| {
                let line = line.trim().trim_start_matches("require ");
                let (module, version) = line.split_once(' ')?;
                self.package.starts_with(module).then(|| (module.len(), version.split(' ').next()))
            })
            .max_by_key(|(length, _)| *length)
            .and_then(|(_, version)| version)
            .unwrap_or("")
    }
}

impl Module {
    fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for (_, text) in self.files {
            hash.update(text.as_bytes());
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn folder(&self) -> Result<PathBuf> {
        Ok(layout::cache("bin")?.join(self.hash()))
    }

    /// Writes the module's files to a folder in which `go` can run.
    fn unpack(&self, target: &Path) -> Result<()> {
        fs::create_dir_all(target).map_err(Error::file("make", target))?;
        for (name, text) in self.files {
            let path = target.join(name);
            fs::write(&path, text).map_err(Error::file("write", &path))?;
        }
        Ok(())
    }
}

/// Builds what is missing of `tools`, one after the other: each build uses every core.
///
/// Two processes never build one module at once; the second finds the first one's result.
pub async fn build(tools: &[Tool]) -> Result<()> {
    for tool in tools {
        if !tool.path()?.exists() {
            build_one(tool).await?;
        }
    }
    Ok(())
}

async fn build_one(tool: &Tool) -> Result<()> {
    let target = tool.path()?;
    let folder = tool.module.folder()?;
    fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
    let _lock = lock(folder.with_extension("lock"), tool).await?;
    if target.exists() {
        return Ok(());
    }
    sweep(&folder)?;
    if tool.module.cgo {
        packages::install().await?;
    }
    let work = tempfile::tempdir_in(&folder).map_err(Error::file("make a folder in", &folder))?;
    tool.module.unpack(work.path())?;
    let built = work.path().join("built");
    let mut go = Command::new("go");
    go.arg("build").arg("-trimpath").arg("-o").arg(&built);
    go.arg("-ldflags").arg(tool.link_flags()).arg("-tags").arg(tool.module.tags).arg(tool.package);
    go.current_dir(work.path());
    go.env("CGO_ENABLED", if tool.module.cgo { "1" } else { "0" });
    go.env("GOFLAGS", "-mod=readonly").env("GOWORK", "off");
    let what = format!("building {} {}", tool.name, tool.version());
    run_reporting(what.trim_end(), go, BUILD_DEADLINE).await.map_err(explain)?;
    fs::rename(&built, &target).map_err(Error::file("publish", &target))
}

/// Removes what killed builds left. The caller holds the lock, so no build is under way.
fn sweep(folder: &Path) -> Result<()> {
    for entry in
        fs::read_dir(folder).map_err(Error::file("read", folder))?.filter_map(std::result::Result::ok)
    {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            fs::remove_dir_all(entry.path()).map_err(Error::file("remove", entry.path()))?;
        }
    }
    Ok(())
}

fn explain(error: Error) -> Error {
    match error {
        Error::Spawn { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Error::Machine {
            what: "the Go toolchain is missing".to_owned(),
            remedy: "install Go 1.26 or newer and put `go` into PATH".to_owned(),
        },
        other => other,
    }
}

/// Waits for the lock of a module. Said once, as the other run reports its own progress elsewhere.
async fn lock(path: PathBuf, tool: &Tool) -> Result<File> {
    let file = File::create(&path).map_err(Error::file("make", &path))?;
    if file.try_lock().is_ok() {
        return Ok(file);
    }
    let what = format!("waiting for another run that builds {}", tool.module.name);
    report(&what);
    let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file));
    tokio::pin!(locked);
    loop {
        tokio::select! {
            joined = &mut locked => {
                let locked = joined.map_err(std::io::Error::other).and_then(|result| result);
                return locked.map_err(Error::file("lock", &path));
            }
            () = tokio::time::sleep(Duration::from_secs(15)) => report(&what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_pinned_modules() {
        for tool in NODE_TOOLS.iter().filter(|tool| **tool != GIT_SERVER) {
            assert!(tool.version().starts_with('v'), "{} has version {:?}", tool.name, tool.version());
        }
        assert_eq!(KUBELET.version(), KUBECTL.version());
    }

    #[test]
    fn kubernetes_programs_know_their_version() {
        let flags = KUBELET.link_flags();
        assert!(flags.contains(&format!("version.gitVersion={}", KUBELET.version())), "{flags}");
        assert!(!ETCD.link_flags().contains("gitVersion"));
    }

    #[test]
    fn each_module_has_a_folder_of_its_own() {
        let mut folders: Vec<_> = NODE_TOOLS.iter().map(|tool| tool.module.folder().unwrap()).collect();
        folders.sort();
        folders.dedup();
        assert_eq!(folders.len(), 7);
    }
}

//! A Debian root file system as a layer, made by debootstrap from the mirror that this machine itself uses.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use crate::command::{command, report, run, run_reporting};
use crate::{Error, Result};

use super::layer::Layer;

/// The release; later than what most machines run, for its container tools.
const SUITE: &str = "trixie";
/// What is in it besides the essentials.
const PACKAGES: &str = "bash,ca-certificates,curl,git,openssh-client,procps,python3";
const DEADLINE: Duration = Duration::from_secs(20 * 60);
/// What a package leaves that no test reads; `dev`, `proc` and `sys` are the runtime's.
const LEFT_OUT: &[&str] = &[
    "./dev/*",
    "./proc/*",
    "./sys/*",
    "./var/cache/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
    "./usr/share/doc/*",
    "./usr/share/locale/*",
    "./usr/share/man/*",
];

/// The user in it, by the arguments of `useradd`.
const USER: &[&str] = &["--create-home", "--uid", "1000", "--shell", "/bin/bash", "dev"];

/// Everything that decides what is in the layer, for the cache.
pub(crate) fn recipe() -> String {
    format!("{SUITE} {PACKAGES} {USER:?} {LEFT_OUT:?}")
}

/// Makes the layer in `folder`: [`PACKAGES`], and a user `dev` with uid 1000 whose shell is bash.
pub(crate) async fn root_layer(folder: &Path) -> Result<Layer> {
    let mirror = mirror()?;
    let work = tempfile::tempdir_in(folder).map_err(Error::file("make a folder in", folder))?;
    let root = work.path().join("root");
    // In a mount namespace of its own, what a killed debootstrap mounted is gone with it.
    let mut debootstrap = command(["unshare", "--mount", "debootstrap", "--variant=minbase"]);
    debootstrap.arg(format!("--include={PACKAGES}")).arg(SUITE).arg(&root).arg(&mirror);
    for variable in ["http", "https"] {
        if let Some(proxy) = apt_proxy(variable).await {
            debootstrap.env(format!("{variable}_proxy"), proxy);
        }
    }
    let what = format!("making the Debian base image ({SUITE})");
    run_reporting(&what, debootstrap, DEADLINE).await?;
    let mut user = command(["chroot"]);
    user.arg(&root).arg("useradd").args(USER);
    run(user, Duration::from_secs(30)).await?;

    report("packing the Debian base image");
    let archive = tempfile::NamedTempFile::new_in(folder).map_err(Error::file("make a file in", folder))?;
    let mut pack = Command::new("tar");
    pack.args(["--sort=name", "--numeric-owner", "--one-file-system"]);
    pack.args(LEFT_OUT.iter().map(|pattern| format!("--exclude={pattern}")));
    pack.arg("-C").arg(&root).arg("-cf").arg(archive.path()).arg(".");
    run(pack, DEADLINE).await?;
    Layer::adopt(archive, folder)
}

/// The mirror from which this machine's apt gets its own release.
fn mirror() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release").map_err(Error::file("read", "/etc/os-release"))?;
    let codename =
        release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or_default();
    let mut files = vec![Path::new("/etc/apt/sources.list").to_owned()];
    let folder = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten();
    files.extend(folder.filter_map(|entry| Some(entry.ok()?.path())));
    let texts = files.iter().filter_map(|path| fs::read_to_string(path).ok());
    texts.filter_map(|text| mirror_of(&text, codename)).next().ok_or_else(|| Error::Machine {
        what: format!("no apt source of this machine serves {codename}"),
        remedy: "the Debian image is made from the mirror that apt uses; add it to /etc/apt/sources.list"
            .to_owned(),
    })
}

/// The address of the first source of `release` itself, in the format of `sources.list` or of `*.sources`.
fn mirror_of(sources: &str, release: &str) -> Option<String> {
    let one_line = sources.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().filter(|word| !word.contains('=')).collect();
        let is_ours = words.first() == Some(&"deb") && words.get(2) == Some(&release);
        is_ours.then(|| words[1].to_owned())
    });
    let stanza = || {
        sources.split("\n\n").find_map(|stanza| {
            let field = |name: &str| stanza.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let is_ours = field("Types:")?.split_whitespace().any(|kind| kind == "deb")
                && field("Suites:")?.split_whitespace().any(|suite| suite == release);
            is_ours.then(|| field("URIs:")?.split_whitespace().next().map(str::to_owned))?
        })
    };
    one_line.or_else(stanza)
}

async fn apt_proxy(scheme: &str) -> Option<String> {
    let asked = command(["apt-config", "shell", "PROXY", &format!("Acquire::{scheme}::Proxy")]);
    let printed = run(asked, Duration::from_secs(10)).await.ok()?;
    let value = printed.trim().strip_prefix("PROXY='")?.strip_suffix('\'')?.to_owned();
    (!value.is_empty() && value != "DIRECT").then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_that_of_the_release_itself() {
        let stanzas = "Types: deb deb-src\nURIs: http://security.example/x\nSuites: bookworm-security\n\n\
                       Types: deb\n# a comment\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\n";
        assert_eq!(mirror_of(stanzas, "bookworm").as_deref(), Some("http://mirror.example/debian"));
        let lines = "deb http://other.example stable main\ndeb [arch=amd64 signed-by=/k] http://mirror.example/d bookworm main\n";
        assert_eq!(mirror_of(lines, "bookworm").as_deref(), Some("http://mirror.example/d"));
        assert_eq!(mirror_of(lines, "trixie"), None);
    }
}

//! The Debian packages that a cluster with nodes takes; installs what is missing.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use crate::command::{command, run, run_reporting};
use crate::{Error, Result};

const PACKAGES: &[&str] = &[
    "busybox-static",
    "ca-certificates",
    "conntrack",
    "containernetworking-plugins",
    "debootstrap",
    "docker-registry",
    "gcc",
    "git",
    "iproute2",
    "iptables",
    "libc6-dev",
    "libseccomp-dev",
    "mount",
    "nftables",
    "openssh-client",
    "pkg-config",
    "socat",
    "util-linux",
];
const DEADLINE: Duration = Duration::from_secs(15 * 60);

/// Fails unless this is root, without which there are no namespaces.
pub(crate) fn require_root() -> Result<()> {
    if is_root() {
        return Ok(());
    }
    Err(Error::Machine {
        what: "a cluster with nodes needs root".to_owned(),
        remedy: "run as root, or use the profile `api`".to_owned(),
    })
}

/// Makes sure that every package is there. Needs a Debian, and root if one is missing.
pub(crate) async fn install() -> Result<()> {
    if !Path::new("/usr/bin/dpkg-query").exists() {
        return Err(Error::Machine {
            what: "this machine is no Debian".to_owned(),
            remedy: "use a Debian 12 or newer, or another cluster with DRYDOCK_CLUSTER=kind or =current"
                .to_owned(),
        });
    }
    let missing = missing().await?;
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() {
        return Err(Error::Machine {
            what: format!("the Debian packages {} are missing", missing.join(", ")),
            remedy: "install them, or run as root".to_owned(),
        });
    }
    let mut update = Command::new("apt-get");
    update.arg("update");
    run_reporting("reading the lists of Debian packages", update, DEADLINE).await?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    install.args(["install", "--yes", "--no-install-recommends"]).args(&missing);
    let what = format!("installing {}", missing.join(", "));
    run_reporting(&what, install, DEADLINE).await.map(drop)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

async fn missing() -> Result<Vec<&'static str>> {
    // dpkg-query fails when it knows nothing of one of them, and still prints the others.
    let mut query =
        command(["sh", "-c", r#"dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" || true"#, "sh"]);
    query.args(PACKAGES);
    let printed = run(query, Duration::from_secs(30)).await?;
    let installed: Vec<&str> = printed.lines().filter_map(|line| line.strip_suffix(" installed")).collect();
    Ok(PACKAGES.iter().copied().filter(|package| !installed.contains(package)).collect())
}

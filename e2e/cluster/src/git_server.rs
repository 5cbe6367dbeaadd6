//! A git server in the cluster: smart HTTP and ssh, for the repositories of tests.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::command::{command, run};
use crate::{Error, Result};

const MANIFEST: &str = include_str!("../manifests/git-server.yaml");
const NAMESPACE: &str = "drydock-git";
const HOST: &str = "git.drydock-git.svc.cluster.local";
const HTTP_PORT: u16 = 30080;
const SSH_PORT: u16 = 30022;
const DEADLINE: Duration = Duration::from_secs(120);

/// The git server of a cluster. Everybody may read and push; what is under `private/` takes [`user`](Self::user) and
/// [`password`](Self::password) over HTTP, and everything takes [`private_key`](Self::private_key) over ssh.
///
/// Repositories live as long as the server's pod. A push makes the repository it goes to.
#[derive(Clone, Debug)]
pub struct GitServer {
    /// `http://…`, as pods reach it; a repository is `URL/NAME.git`.
    pub url: String,
    /// `http://…`, as the host reaches it.
    pub host_url: String,
    /// `ssh://git@…`, as pods reach it.
    pub ssh_url: String,
    /// `ssh://git@…`, as the host reaches it.
    pub host_ssh_url: String,
    /// The lines of a `known_hosts` file for both.
    pub known_hosts: String,
    /// The private key that ssh takes, in OpenSSH's format.
    pub private_key: String,
    /// The user of private repositories.
    pub user: String,
    /// Its password.
    pub password: String,
}

impl Cluster {
    /// The cluster's git server, deployed if it is not there yet.
    pub async fn git_server(&self) -> Result<GitServer> {
        let image = self.image("git-server").await?;
        let secret = match self.secret().await? {
            Some(secret) => secret,
            None => {
                self.apply(
                    &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
                        .to_string(),
                )
                .await?;
                self.apply(&new_secret().await?.to_string()).await?;
                self.secret().await?.ok_or_else(|| Error::invalid("the git server's Secret is gone again"))?
            }
        };
        self.apply(&MANIFEST.replace("IMAGE", &image.node)).await?;
        self.kubectl(&["rollout", "status", "deployment/git", "-n", NAMESPACE, "--timeout=100s"]).await?;
        let address = self.node_address().await?;
        answers(&address, HTTP_PORT).await?;
        GitServer::new(&secret, &address)
    }

    async fn secret(&self) -> Result<Option<serde_json::Value>> {
        let arguments = ["get", "secret", "git-server", "-n", NAMESPACE, "-o", "json", "--ignore-not-found"];
        let printed = self.kubectl(&arguments).await?;
        Ok(serde_json::from_str(&printed).ok())
    }

    async fn node_address(&self) -> Result<String> {
        let path = r#"jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}"#;
        let printed = self.kubectl(&["get", "nodes", "-o", path]).await?;
        let address = printed.split_whitespace().next().map(str::to_owned);
        address.ok_or_else(|| Error::invalid("no node of the cluster has an InternalIP"))
    }
}

/// Waits until the host reaches a node's port: kube-proxy follows a rollout with some delay.
async fn answers(address: &str, port: u16) -> Result<()> {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        match tokio::net::TcpStream::connect((address, port)).await {
            Ok(_) => return Ok(()),
            Err(error) if tokio::time::Instant::now() >= deadline => {
                return Err(Error::invalid(format!(
                    "the git server doesn't answer at {address}:{port}: {error}"
                )));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

impl GitServer {
    fn new(secret: &serde_json::Value, address: &str) -> Result<Self> {
        use base64::Engine;
        let field = |name: &str| {
            let bytes =
                base64::engine::general_purpose::STANDARD.decode(secret["data"][name].as_str()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        let field = |name: &str| {
            field(name)
                .ok_or_else(|| Error::invalid(format!("the Secret {NAMESPACE}/git-server lacks {name}")))
        };
        let host_key = field("host-public-key")?;
        let host_key = host_key.trim();
        Ok(Self {
            url: format!("http://{HOST}"),
            host_url: format!("http://{address}:{HTTP_PORT}"),
            ssh_url: format!("ssh://git@{HOST}"),
            host_ssh_url: format!("ssh://git@{address}:{SSH_PORT}"),
            known_hosts: format!("{HOST} {host_key}\n[{address}]:{SSH_PORT} {host_key}\n"),
            private_key: field("private-key")?,
            user: field("user")?,
            password: field("password")?,
        })
    }

    /// The host's URL of a repository, with credentials if it is private.
    pub fn push_url(&self, repository: &str) -> String {
        if repository.starts_with("private/") {
            let rest = self.host_url.trim_start_matches("http://");
            return format!("http://{}:{}@{rest}/{repository}", self.user, self.password);
        }
        format!("{}/{repository}", self.host_url)
    }

    /// Makes `folder`'s content the one commit of branch `main` of `repository` (such as `shop.git` or
    /// `private/shop.git`), whatever was there, and returns the commit. The folder itself is not touched.
    pub async fn push_folder(&self, repository: &str, folder: &Path) -> Result<String> {
        let work = tempfile::tempdir().map_err(Error::file("make a folder in", std::env::temp_dir()))?;
        let git = |words: &[&str]| {
            let mut git = git(work.path());
            git.arg("--work-tree").arg(folder).args(words).current_dir(folder);
            run(git, DEADLINE)
        };
        git(&["init", "--quiet", "--initial-branch=main"]).await?;
        git(&["add", "--all", "--force"]).await?;
        git(&["commit", "--quiet", "--allow-empty", "--no-verify", "--message=Content"]).await?;
        git(&["push", "--quiet", "--force", &self.push_url(repository), "main"]).await?;
        Ok(git(&["rev-parse", "HEAD"]).await?.trim().to_owned())
    }
}

/// git with a repository of its own and nothing of the user's or the machine's settings.
fn git(repository: &Path) -> Command {
    let mut git = command(["git", "--git-dir"]);
    git.arg(repository);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0");
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), "Tests").env(format!("GIT_{who}_EMAIL"), "tests@drydock.invalid");
        git.env(format!("GIT_{who}_DATE"), "2026-01-01T00:00:00Z");
    }
    git.env("no_proxy", "*");
    git
}

async fn new_secret() -> Result<serde_json::Value> {
    let (host_key, host_public_key) = key_pair().await?;
    let (private_key, authorized_key) = key_pair().await?;
    let password = std::fs::read_to_string("/proc/sys/kernel/random/uuid")
        .map_err(Error::file("read", "/proc/sys/kernel/random/uuid"))?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "git-server", "namespace": NAMESPACE},
        "stringData": {
            "host-key": host_key,
            "host-public-key": host_public_key,
            "private-key": private_key,
            "authorized-key": authorized_key,
            "user": "git",
            "password": password.trim(),
        },
    }))
}

async fn key_pair() -> Result<(String, String)> {
    let work = tempfile::tempdir().map_err(Error::file("make a folder in", std::env::temp_dir()))?;
    let path = work.path().join("key");
    let mut keygen = command(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]);
    keygen.arg(&path);
    run(keygen, Duration::from_secs(10)).await?;
    let read = |path: &Path| std::fs::read_to_string(path).map_err(Error::file("read", path));
    Ok((read(&path)?, read(&path.with_extension("pub"))?))
}

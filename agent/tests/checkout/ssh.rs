//! ssh with a real sshd on loopback: the key works, the host key is always checked.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use drydock_protocol::checkout::CheckoutReason;

use crate::claim::Claim;
use crate::git_server::{Repository, run};

struct Sshd {
    folder: tempfile::TempDir,
    port: u16,
    server: Child,
}

impl Sshd {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        run(&["chmod", "755", path.to_str().unwrap()], path);
        for name in ["host", "client", "stranger"] {
            run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name], path);
        }
        std::fs::copy(path.join("client.pub"), path.join("authorized")).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        std::fs::create_dir_all("/run/sshd").unwrap();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host\nAuthorizedKeysFile {0}/authorized\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nAcceptEnv GIT_PROTOCOL\n",
            path.display()
        );
        std::fs::write(path.join("config"), config).unwrap();
        let server = Command::new("/usr/sbin/sshd")
            .args(["-D", "-f"])
            .arg(path.join("config"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "sshd did not come");
        }
        Self { folder, port, server }
    }

    fn secret(&self, key: &str, host: &str) -> tempfile::TempDir {
        let secret = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap();
        std::fs::write(secret.path().join("ssh-privatekey"), read(key).trim_end()).unwrap();
        let known = format!("[127.0.0.1]:{} {}", self.port, read(&format!("{host}.pub")));
        std::fs::write(secret.path().join("known_hosts"), known).unwrap();
        secret
    }

    fn claim(&self, repository: &Repository, secret: &Path) -> Claim {
        let mut claim =
            Claim::new(&format!("ssh://root@127.0.0.1:{}{}", self.port, repository.bare.display()));
        claim.source().credentials = Some(secret.to_str().unwrap().to_owned());
        claim
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_key_fetches_and_the_host_key_is_checked() {
    let sshd = Sshd::start();
    let repositories = tempfile::tempdir().unwrap();
    let repository = Repository::create(repositories.path().join("shop.git"));
    repository.write(".devcontainer.json", "{}");
    let commit = repository.push("one");

    let right = sshd.secret("client", "host");
    let claim = sshd.claim(&repository, right.path());
    let report = claim.checkout();
    assert_eq!((report.tree.unwrap().commit, report.devcontainers.len()), (commit, 1));

    let reason = |secret: &Path| sshd.claim(&repository, secret).try_checkout().error.unwrap().reason;
    assert_eq!(reason(sshd.secret("client", "stranger").path()), CheckoutReason::HostKeyUnknown);
    assert_eq!(reason(sshd.secret("stranger", "host").path()), CheckoutReason::AuthenticationFailed);
    let without = sshd.secret("client", "host");
    std::fs::remove_file(without.path().join("known_hosts")).unwrap();
    assert_eq!(reason(without.path()), CheckoutReason::InvalidCredentials);
}

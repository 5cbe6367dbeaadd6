//! The credential of one repository, in a folder in memory that the user git runs as alone can read: no value ever is in a
//! URL, an argument, a variable or a configuration. The helper gives it to one place only.

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use drydock_protocol::checkout::{CheckoutReason, Owner};
use drydock_protocol::git::{GitUrl, Scheme};

use super::failure::Failure;

/// Bytes of one file of a credential.
const FILE_MAX: u64 = 256 * 1024;
/// The parts that are taken from the mounted Secret.
const PARTS: [&str; 5] = ["username", "password", "ssh-privatekey", "known_hosts", "ca.crt"];

/// A private folder; removed when dropped.
#[derive(Debug)]
pub struct Credentials {
    folder: PathBuf,
    parts: Vec<&'static str>,
    secrets: Vec<String>,
}

impl Credentials {
    /// Takes the parts over from the mounted folder, if there is one.
    ///
    /// # Errors
    /// A part that the URL's scheme needs is missing, or nothing can be written.
    pub fn take_over(mounted: Option<&Path>, url: &GitUrl, owner: Owner) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::io("the credential's folder", &error);
        let mut credentials =
            Self { folder: private_folder(owner).map_err(failed)?, parts: Vec::new(), secrets: Vec::new() };
        for part in PARTS {
            let Some(bytes) = mounted.and_then(|mounted| read_part(&mounted.join(part))) else {
                continue;
            };
            if matches!(part, "username" | "password") {
                credentials
                    .secrets
                    .extend(String::from_utf8(bytes.clone()).map(|text| text.trim_end().to_owned()));
            }
            credentials.write(part, bytes, owner).map_err(failed)?;
        }
        credentials.check(mounted, url)?;
        Ok(credentials)
    }

    fn write(&mut self, part: &'static str, mut bytes: Vec<u8>, owner: Owner) -> io::Result<()> {
        // A key without its last newline isn't read by ssh.
        if part == "ssh-privatekey" && bytes.last() != Some(&b'\n') {
            bytes.push(b'\n');
        }
        let path = self.folder.join(part);
        crate::paths::create_private(&path)?.write_all(&bytes)?;
        give_to(&path, owner)?;
        self.parts.push(part);
        Ok(())
    }

    fn check(&self, mounted: Option<&Path>, url: &GitUrl) -> Result<(), Failure> {
        let missing = |what: &str| {
            Err(Failure::new(CheckoutReason::InvalidCredentials, format!("the Secret has no {what}")))
        };
        match url.scheme {
            Scheme::Ssh if !self.has("known_hosts") => {
                missing("known_hosts, which ssh needs: host keys are always checked")
            }
            Scheme::Ssh if !self.has("ssh-privatekey") => missing("ssh-privatekey"),
            Scheme::Http | Scheme::Https
                if mounted.is_some() && !self.has("password") && !self.has("ca.crt") =>
            {
                missing("password")
            }
            _ => Ok(()),
        }
    }

    fn has(&self, part: &str) -> bool {
        self.parts.contains(&part)
    }

    /// The folder: also git's `HOME`, where nothing else is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Values that must not be in a message.
    #[must_use]
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// `-c` options for git.
    #[must_use]
    pub fn options(&self, url: &GitUrl, binary: &Path) -> Vec<String> {
        // The empty one takes back whatever a configuration names.
        let mut options = vec!["credential.helper=".to_owned()];
        if self.has("password") {
            let (binary, folder) = (binary.display(), self.folder.display());
            options.push(format!("credential.helper=!'{binary}' credential '{folder}' '{}'", url.origin()));
        }
        if self.has("ca.crt") {
            options.push(format!("http.sslCAInfo={}", self.folder.join("ca.crt").display()));
        }
        options
    }

    /// The command that git reaches ssh by.
    #[must_use]
    pub fn ssh_command(&self) -> String {
        let folder = self.folder.display();
        format!(
            "ssh -F /dev/null -i '{folder}/ssh-privatekey' -o IdentitiesOnly=yes -o IdentityAgent=none -o BatchMode=yes \
             -o StrictHostKeyChecking=yes -o UserKnownHostsFile='{folder}/known_hosts' -o GlobalKnownHostsFile=/dev/null \
             -o UpdateHostKeys=no -o ConnectTimeout=20 -o ServerAliveInterval=15 -o ServerAliveCountMax=4"
        )
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        // It is memory of this container, which is about to end.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Answers git's question on standard input, for one place alone.
///
/// # Errors
/// The streams break.
pub fn answer(folder: &Path, origin: &str, action: &str) -> io::Result<()> {
    if action != "get" {
        return Ok(());
    }
    let (mut protocol, mut host) = (String::new(), String::new());
    for line in io::stdin().lock().take(64 * 1024).lines() {
        let line = line?;
        if let Some(value) = line.strip_prefix("protocol=") {
            value.clone_into(&mut protocol);
        } else if let Some(value) = line.strip_prefix("host=") {
            value.clone_into(&mut host);
        }
    }
    let asked = GitUrl::parse(&format!("{protocol}://{host}/x")).map(|url| url.origin());
    if asked.as_deref() != Ok(origin) {
        return Ok(());
    }
    let part = |name: &str| {
        let bytes = read_part(&folder.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']).to_owned()
    };
    let (username, password) = (part("username"), part("password"));
    if username.contains('\n') || password.contains('\n') || password.is_empty() {
        return Ok(());
    }
    // Many servers take any name with a token.
    let username = if username.is_empty() { "git".to_owned() } else { username };
    write!(io::stdout(), "username={username}\npassword={password}\n")
}

fn read_part(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A new folder in memory, or beside other temporary files where there is no shared memory.
fn private_folder(owner: Owner) -> io::Result<PathBuf> {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = super::unique_folder(&parent, "drydock-git")?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
    give_to(&folder, owner)?;
    Ok(folder)
}

/// Makes the owner the owner, where this process may.
fn give_to(path: &Path, owner: Owner) -> io::Result<()> {
    if nix::unistd::geteuid().is_root() { chown(path, Some(owner.uid), Some(owner.gid)) } else { Ok(()) }
}

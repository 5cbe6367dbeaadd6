//! Users and groups of the image, read from its own `/etc/passwd` and `/etc/group`. No name service is ever asked: a
//! static binary can't load the image's modules, and a run must not wait for a directory server.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes read of `/etc/passwd` and `/etc/group`.
const FILE_MAX: u64 = 4 * 1024 * 1024;

/// Whom a run is executed as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// All groups, the primary one too.
    pub groups: Vec<u32>,
    /// The name; of a user that the image doesn't know, its number.
    pub name: String,
    /// Home folder; `/` where the image doesn't know the user.
    pub home: PathBuf,
    /// Login shell as the image has it; may not exist.
    pub shell: Option<PathBuf>,
}

/// Why there is no such user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// A name that isn't in `/etc/passwd`.
    #[error("no user {0:?} in /etc/passwd")]
    NoUser(String),
    /// A name that isn't in `/etc/group`.
    #[error("no group {0:?} in /etc/group")]
    NoGroup(String),
}

/// The image's users and groups.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    passwd: String,
    group: String,
}

impl Accounts {
    /// Reads both files below `root`; one that isn't there is empty.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        Self { passwd: read_bounded(&root.join("etc/passwd")), group: read_bounded(&root.join("etc/group")) }
    }

    /// Accounts from texts in the format of the two files.
    #[must_use]
    pub fn from_texts(passwd: &str, group: &str) -> Self {
        Self { passwd: passwd.to_owned(), group: group.to_owned() }
    }

    /// Resolves `name`, `uid`, or either with `:group`. A number needs no entry. With a group given there are no
    /// supplementary groups, as with `docker run --user`.
    ///
    /// # Errors
    /// A name that the image doesn't have.
    pub fn resolve(&self, spec: &str) -> Result<User, UserError> {
        let (who, group) = spec.split_once(':').map_or((spec, None), |(who, group)| (who, Some(group)));
        let entry = self.users().find(|entry| entry.name == who);
        let entry = entry.or_else(|| {
            let uid = who.parse::<u32>().ok()?;
            self.users().find(|entry| entry.uid == uid)
        });
        let mut user = match entry {
            Some(entry) => self.known(&entry),
            None => unknown(who.parse().map_err(|_| UserError::NoUser(who.to_owned()))?),
        };
        if let Some(group) = group.filter(|group| !group.is_empty()) {
            user.gid = self.resolve_group(group)?;
            user.groups = vec![user.gid];
        }
        Ok(user)
    }

    fn known(&self, entry: &PasswdEntry<'_>) -> User {
        let mut groups = vec![entry.gid];
        for (gid, members) in self.groups().map(|(_, gid, members)| (gid, members)) {
            if members.split(',').any(|member| member == entry.name) && !groups.contains(&gid) {
                groups.push(gid);
            }
        }
        let home = if entry.home.is_empty() { "/" } else { entry.home };
        User {
            uid: entry.uid,
            gid: entry.gid,
            groups,
            name: entry.name.to_owned(),
            home: home.into(),
            shell: (!entry.shell.is_empty()).then(|| entry.shell.into()),
        }
    }

    fn resolve_group(&self, group: &str) -> Result<u32, UserError> {
        let named = self.groups().find(|(name, _, _)| *name == group).map(|(_, gid, _)| gid);
        named.or_else(|| group.parse().ok()).ok_or_else(|| UserError::NoGroup(group.to_owned()))
    }

    fn users(&self) -> impl Iterator<Item = PasswdEntry<'_>> {
        self.passwd.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with(['#', '+', '-']))?;
            let uid = fields.nth(1)?.parse().ok()?;
            let gid = fields.next()?.parse().ok()?;
            let home = fields.nth(1).unwrap_or_default();
            let shell = fields.next().unwrap_or_default().trim_end();
            Some(PasswdEntry { name, uid, gid, home, shell })
        })
    }

    fn groups(&self) -> impl Iterator<Item = (&str, u32, &str)> {
        self.group.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| !name.is_empty())?;
            let gid = fields.nth(1)?.parse().ok()?;
            Some((name, gid, fields.next().unwrap_or_default().trim_end()))
        })
    }
}

struct PasswdEntry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
    shell: &'a str,
}

/// A number without an entry has group 0 alone, as container runtimes have it.
fn unknown(uid: u32) -> User {
    User { uid, gid: 0, groups: vec![0], name: uid.to_string(), home: "/".into(), shell: None }
}

fn read_bounded(path: &Path) -> String {
    // Room for what most images have: one read, in the way of every run.
    let mut bytes = Vec::with_capacity(16 * 1024);
    if let Ok(file) = File::open(path) {
        // What can't be read doesn't count; the entries before it do.
        let _ = file.take(FILE_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        Accounts::from_texts(
            "root:x:0:0:root:/root:/bin/bash\n# a comment\nbroken\ndev:x:1000:1001:Dev,,,:/home/dev:/bin/zsh\n\
             +::::::\n7:x:2000:2000::/home/seven:/bin/sh\nbare:x:3000:3000::",
            "root:x:0:\ndev:x:1001:\nsudo:x:27:root,dev\ndocker:x:998:devil,dev\n",
        )
    }

    #[test]
    fn a_name_has_all_its_groups() {
        let user = accounts().resolve("dev").unwrap();
        assert_eq!((user.uid, user.gid, user.groups), (1000, 1001, vec![1001, 27, 998]));
        assert_eq!(
            (user.home.as_path(), user.shell.unwrap().as_path()),
            (Path::new("/home/dev"), Path::new("/bin/zsh"))
        );
    }

    #[test]
    fn a_number_is_a_name_first_then_an_entry_then_itself() {
        assert_eq!(accounts().resolve("7").unwrap().uid, 2000);
        assert_eq!(accounts().resolve("1000").unwrap().name, "dev");
        let user = accounts().resolve("12345").unwrap();
        assert_eq!((user.uid, user.gid, user.name.as_str()), (12345, 0, "12345"));
        assert_eq!((user.home.as_path(), user.shell), (Path::new("/"), None));
    }

    #[test]
    fn a_group_replaces_all_groups() {
        let user = accounts().resolve("dev:sudo").unwrap();
        assert_eq!((user.gid, user.groups), (27, vec![27]));
        assert_eq!(accounts().resolve("1234:5678").unwrap().groups, vec![5678]);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(accounts().resolve("nobody"), Err(UserError::NoUser("nobody".into())));
        assert_eq!(accounts().resolve("dev:x"), Err(UserError::NoGroup("x".into())));
        assert_eq!(accounts().resolve("broken"), Err(UserError::NoUser("broken".into())));
        assert_eq!(accounts().resolve("bare").unwrap().home, Path::new("/"));
        assert_eq!(Accounts::default().resolve("0").unwrap().uid, 0);
    }
}

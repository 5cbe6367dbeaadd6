//! The environment variables of a tool and the shell that runs a script: which they are, given the container's
//! environment, the user and the request. Never reads the process's own environment by itself.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use devcontainer::substitute::{Context, substitute_text};

use crate::user::User;

/// Where the container has none.
pub const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Prefix of the agent's own variables, which never reach a tool.
pub const OWN_PREFIX: &[u8] = b"DRYDOCK_";

/// The variable that holds the configuration's `remoteEnv`: a JSON list of pairs of a name and a value, or null to take a variable
/// away. Values may name `${containerEnv:X}`.
pub const REMOTE_ENV: &str = "DRYDOCK_REMOTE_ENV";

/// Shells that only say that nobody may log in.
const NO_LOGIN: [&str; 3] = ["nologin", "false", "true"];

/// Variables in order, each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(Vec<(Vec<u8>, Vec<u8>)>);

impl Environment {
    /// Composes: the container's, what is always right for this user, the configuration's `remoteEnv` (of the container's variable
    /// [`REMOTE_ENV`]), then the request's in order.
    pub fn compose(
        container: impl IntoIterator<Item = (OsString, OsString)>,
        user: &User,
        shell: Option<&Path>,
        request: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
    ) -> Self {
        let mut environment = Self::default();
        let mut remote = Vec::new();
        for (name, value) in container {
            if name == REMOTE_ENV {
                // What isn't such a list was written by somebody else: it says nothing.
                remote = serde_json::from_slice(value.as_bytes()).unwrap_or_default();
            }
            environment.set(name.into_vec(), value.into_vec());
        }
        let container = environment.to_map();
        environment.set_default(b"PATH", DEFAULT_PATH);
        environment.set_default(b"LANG", b"C.UTF-8");
        environment.set_default(b"TERM", b"dumb");
        environment.set(b"HOME".to_vec(), user.home.as_os_str().as_bytes().to_vec());
        environment.set(b"USER".to_vec(), user.name.clone().into_bytes());
        environment.set(b"LOGNAME".to_vec(), user.name.clone().into_bytes());
        match shell {
            Some(shell) => environment.set(b"SHELL".to_vec(), shell.as_os_str().as_bytes().to_vec()),
            None => environment.0.retain(|(name, _)| name != b"SHELL"),
        }
        environment.set_remote(remote, container);
        for (name, value) in request {
            environment.set(name, value);
        }
        environment
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// `NAME=value` for `execve`; what has a NUL is left out (requests were checked before).
    #[must_use]
    pub fn to_cstrings(&self) -> Vec<CString> {
        let joined =
            |(name, value): &(Vec<u8>, Vec<u8>)| CString::new([name, b"=".as_slice(), value].concat()).ok();
        self.0.iter().filter_map(joined).collect()
    }

    /// The variables that are text: what `${containerEnv:X}` may name.
    fn to_map(&self) -> BTreeMap<String, String> {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let pairs = self.0.iter();
        pairs.filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
    }

    fn set_remote(&mut self, remote: Vec<(String, Option<String>)>, container: BTreeMap<String, String>) {
        let context = Context { container_env: Some(container), ..Context::default() };
        for (name, value) in remote {
            match value {
                Some(value) => {
                    let (value, _) = substitute_text(&value, &context);
                    self.set(name.into_bytes(), value.into_bytes());
                }
                None => self.0.retain(|(known, _)| *known != name.as_bytes()),
            }
        }
    }

    fn set(&mut self, name: Vec<u8>, value: Vec<u8>) {
        if name.is_empty() || name.contains(&b'=') || name.starts_with(OWN_PREFIX) {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    fn set_default(&mut self, name: &[u8], value: &[u8]) {
        if self.get(name).is_none_or(<[u8]>::is_empty) {
            self.set(name.to_vec(), value.to_vec());
        }
    }
}

/// The user's login shell if the image has it, else `/bin/sh` if the image has that.
#[must_use]
pub fn find_shell(user: &User) -> Option<PathBuf> {
    let login = user
        .shell
        .as_ref()
        .filter(|shell| shell.file_name().is_some_and(|name| NO_LOGIN.iter().all(|none| name != *none)));
    login
        .map(PathBuf::as_path)
        .into_iter()
        .chain([Path::new("/bin/sh")])
        .find(|path| is_executable(path))
        .map(Into::into)
}

/// Whether a file is there that somebody may execute.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.is_absolute()
        && std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Where `execve` is tried for a command, in order: itself when it has a slash, else each folder of `PATH`.
#[must_use]
pub fn candidates(command: &[u8], path: Option<&[u8]>) -> Vec<CString> {
    if command.contains(&b'/') {
        return CString::new(command).into_iter().collect();
    }
    let join = |folder: &[u8]| {
        let folder = if folder.is_empty() { b".".as_slice() } else { folder };
        CString::new([folder, b"/".as_slice(), command].concat()).ok()
    };
    path.unwrap_or(DEFAULT_PATH).split(|byte| *byte == b':').filter_map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        crate::user::Accounts::from_texts("dev:x:1000:1000::/home/dev:/bin/sh", "").resolve("dev").unwrap()
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        of.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn the_order_is_container_user_request() {
        let container = [("HOME", "/root"), ("A", "1"), ("B", "1"), ("DRYDOCK_X", "no"), ("SHELL", "/gone")];
        let container = container.map(|(name, value)| (name.into(), value.into()));
        let request = pairs(&[("B", "2"), ("C", "3"), ("C", "4"), ("DRYDOCK_Y", "no")]);
        let made = Environment::compose(container, &user(), None, request);
        let text: Vec<_> = made.to_cstrings().into_iter().map(|each| each.into_string().unwrap()).collect();
        assert_eq!(
            text,
            [
                "HOME=/home/dev",
                "A=1",
                "B=2",
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "LANG=C.UTF-8",
                "TERM=dumb",
                "USER=dev",
                "LOGNAME=dev",
                "C=4"
            ]
        );
    }

    #[test]
    fn a_request_may_set_what_is_always_right() {
        let made = Environment::compose(
            [],
            &user(),
            Some(Path::new("/bin/sh")),
            pairs(&[("HOME", "/x"), ("PATH", "/y")]),
        );
        assert_eq!((made.get(b"HOME"), made.get(b"PATH")), (Some(b"/x".as_slice()), Some(b"/y".as_slice())));
        assert_eq!(made.get(b"SHELL"), Some(b"/bin/sh".as_slice()));
    }

    #[test]
    fn a_shell_that_is_missing_or_refuses_log_ins_is_passed_over() {
        for shell in ["/no/such/zsh", "/usr/sbin/nologin", "/bin/false"] {
            let user = User { shell: Some(shell.into()), ..user() };
            assert_eq!(find_shell(&user), Some("/bin/sh".into()), "{shell}");
        }
    }

    #[test]
    fn a_command_is_looked_up_in_the_runs_own_path() {
        let names = |found: Vec<CString>| {
            found.into_iter().map(|each| each.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(candidates(b"x", Some(b"/a::/b"))), ["/a/x", "./x", "/b/x"]);
        assert_eq!(names(candidates(b"./x", Some(b"/a"))), ["./x"]);
    }

    #[test]
    fn remote_env_sees_the_container_and_is_overridden_by_the_run() {
        let remote = r#"[["PATH","/opt/bin:${containerEnv:PATH}"],["GONE",null],["WHO","${containerEnv:NONE:nobody}"],["X","remote"]]"#;
        let container = [("PATH", "/usr/bin"), ("GONE", "1"), (REMOTE_ENV, remote)];
        let container = container.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let environment = Environment::compose(container, &user(), None, pairs(&[("X", "run")]));
        for (name, value) in [("PATH", "/opt/bin:/usr/bin"), ("WHO", "nobody"), ("X", "run")] {
            assert_eq!(environment.get(name.as_bytes()), Some(value.as_bytes()), "{name}");
        }
        assert_eq!(environment.get(b"GONE"), None);
        assert_eq!(environment.get(REMOTE_ENV.as_bytes()), None);
    }

    #[test]
    fn a_remote_env_that_isnt_one_says_nothing() {
        let container = [(OsString::from(REMOTE_ENV), OsString::from("{"))];
        let environment = Environment::compose(container, &user(), None, pairs(&[]));
        assert_eq!(environment.get(b"HOME"), Some(b"/home/dev".as_slice()));
    }
}

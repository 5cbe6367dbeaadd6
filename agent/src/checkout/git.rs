//! Calls git: with nothing of this process's environment, no configuration but what is said here, a
//! deadline, and bounded output. Never runs a hook, a helper or a filter that a repository names: [`super::repository`]
//! sees to it that no configuration of a tree is read where that would matter.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use drydock_protocol::checkout::CheckoutReason;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::failure::Failure;

/// Bytes of standard output that are taken: a listing of two million files.
const STDOUT_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of standard error that are remembered.
const STDERR_MAX: usize = 16 * 1024;

/// Options of every call.
const OPTIONS: [&str; 18] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.sharedRepository=group",
    "core.alternateRefsCommand=true",
    "core.pager=cat",
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.http.allow=always",
    "protocol.ssh.allow=always",
    "http.followRedirects=false",
    "http.lowSpeedLimit=100",
    "http.lowSpeedTime=60",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "safe.directory=*",
];

/// How git is called.
#[derive(Clone, Debug)]
pub struct Git {
    home: PathBuf,
    options: Vec<String>,
    ssh_command: Option<String>,
    deadline: Instant,
}

/// One call.
#[derive(Clone, Debug, Default)]
pub struct Call<'a> {
    /// Options of this call, before the command.
    pub globals: Vec<String>,
    /// The command and its arguments.
    pub args: Vec<&'a str>,
    /// Variables; git's own places (`GIT_OBJECT_DIRECTORY` …).
    pub env: Vec<(&'static str, PathBuf)>,
    /// Standard input.
    pub stdin: Vec<u8>,
}

impl Git {
    /// Calls with an empty home folder, until `deadline`.
    #[must_use]
    pub fn new(home: &Path, deadline: Instant) -> Self {
        Self { home: home.to_owned(), options: Vec::new(), ssh_command: None, deadline }
    }

    /// With a credential's options.
    #[must_use]
    pub fn with_access(mut self, options: Vec<String>, ssh_command: String) -> Self {
        self.options = options;
        self.ssh_command = Some(ssh_command);
        self
    }

    /// Runs to the end; the standard output.
    ///
    /// # Errors
    /// Git's own failure typed by its words; `Timeout`; `TooLarge`.
    pub fn run(&self, call: &Call<'_>) -> Result<Vec<u8>, Failure> {
        match self.try_run(call)? {
            (0, stdout, _) => Ok(stdout),
            (_, _, stderr) => Err(Failure::of_git(&stderr)),
        }
    }

    /// Runs to the end; exit code, standard output, the end of standard error.
    ///
    /// # Errors
    /// Git couldn't be run; `Timeout`; `TooLarge`.
    pub fn try_run(&self, call: &Call<'_>) -> Result<(i32, Vec<u8>, String), Failure> {
        let internal = |error: io::Error| Failure::io("running git", &error);
        let mut child = self.command(call).spawn().map_err(internal)?;
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Failure::new(CheckoutReason::Internal, "git was started without its streams"));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Git may end without reading it.
                let _ = stdin.write_all(&call.stdin);
                drop(stdin);
            });
            let errors = scope.spawn(|| read_tail(stderr));
            let (done, watch) = std::sync::mpsc::channel::<()>();
            let deadline = self.deadline;
            let watchdog = scope.spawn(move || {
                let left = deadline.saturating_duration_since(Instant::now());
                let late = watch.recv_timeout(left) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
                if late {
                    // The whole group: git's transports are processes of their own.
                    let _ = killpg(group, Signal::SIGKILL);
                }
                late
            });
            let output = read_bounded(stdout);
            if output.is_none() {
                let _ = killpg(group, Signal::SIGKILL);
            }
            let status = child.wait().map_err(internal);
            drop(done);
            let late = watchdog.join().unwrap_or(false);
            let errors = errors.join().unwrap_or_default();
            if late {
                return Err(Failure::new(CheckoutReason::Timeout, "git did not come to an end in time"));
            }
            let output =
                output.ok_or_else(|| Failure::new(CheckoutReason::TooLarge, "git's answer is too large"))?;
            Ok((status?.code().unwrap_or(-1), output, errors))
        })
    }

    fn command(&self, call: &Call<'_>) -> Command {
        let mut command = Command::new("git");
        for option in OPTIONS.iter().copied().chain(self.options.iter().map(String::as_str)) {
            command.args(["-c", option]);
        }
        command.args(&call.globals).args(&call.args).env_clear();
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        command.env("PATH", path).env("HOME", &self.home).env("LC_ALL", "C");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "false").env("GIT_OPTIONAL_LOCKS", "0");
        command.env("GIT_COMMITTER_NAME", "Drydock").env("GIT_COMMITTER_EMAIL", "drydock@localhost");
        command.env("GIT_SSH_COMMAND", self.ssh_command.as_deref().unwrap_or("false"));
        command.envs(call.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.current_dir(&self.home);
        command
    }
}

fn read_bounded(stream: impl Read) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(STDOUT_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= STDOUT_MAX).then_some(bytes)
}

fn read_tail(mut stream: impl Read) -> String {
    let mut tail = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        tail.extend_from_slice(&buffer[..count]);
        if tail.len() > 2 * STDERR_MAX {
            tail.drain(..tail.len() - STDERR_MAX);
        }
    }
    String::from_utf8_lossy(&tail).into_owned()
}

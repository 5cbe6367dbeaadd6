//! Makes the main process of a run: user, folder, descriptors, `exec`. Everything that allocates is prepared before the
//! fork; the child says which step failed and with which errno.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use drydock_protocol::agent::StartRequest;
use drydock_protocol::agent::start_request::What;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::unistd::{ForkResult, Gid, Pid, Uid};

use crate::environment::{Environment, candidates, find_shell};
use crate::runs::record::{Outcome, Stage};
use crate::shim::job::Job;
use crate::user::{Accounts, User};

/// How much likelier the kernel's killer takes a tool than the agent.
const OOM_SCORE_MORE: i32 = 200;

/// Everything `exec` needs.
pub struct Plan {
    user: User,
    switch_user: bool,
    directory: CString,
    candidates: Vec<CString>,
    args: Vec<CString>,
    env: Vec<CString>,
    oom_score_adj: String,
    command: String,
}

/// The descriptors of the main process.
pub struct ChildEnds {
    /// Standard input.
    pub stdin: OwnedFd,
    /// Standard output.
    pub stdout: OwnedFd,
    /// Standard error.
    pub stderr: OwnedFd,
}

impl Plan {
    /// Resolves user, shell, environment and folder.
    ///
    /// # Errors
    /// The outcome of a run that can't be executed.
    pub fn make(job: &Job) -> Result<Self, Outcome> {
        let request = &job.request;
        let user = resolve_user(&request.user, &job.header.default_user)?;
        let me = nix::unistd::geteuid();
        let switch_user = me.is_root();
        if !switch_user && user.uid != me.as_raw() {
            let message =
                format!("UserNotPossible: the agent runs as uid {me} and may not become uid {}", user.uid);
            return Err(cannot(Stage::User, libc::EPERM, message));
        }
        let shell = find_shell(&user);
        let values = request.env.iter().map(|each| (each.name.clone().into_bytes(), each.value.clone()));
        let env = Environment::compose(std::env::vars_os(), &user, shell.as_deref(), values);
        let args = arguments(request, shell)?;
        let program = args.first().cloned().unwrap_or_default();
        let directory = [&request.working_directory, &job.header.default_directory]
            .into_iter()
            .find(|path| !path.is_empty())
            .map_or_else(|| user.home.clone(), PathBuf::from);
        let directory = if request.nearest_directory { nearest_folder(directory) } else { directory };
        let directory = CString::new(directory.into_os_string().into_encoded_bytes()).unwrap_or_default();
        Ok(Self {
            candidates: candidates(program.as_bytes(), env.get(b"PATH")),
            command: program.to_string_lossy().into_owned(),
            args,
            env: env.to_cstrings(),
            directory,
            user,
            switch_user,
            oom_score_adj: oom_score_adj(),
        })
    }

    /// Forks. The reader gives the failure, or ends empty when `exec` has happened.
    ///
    /// # Errors
    /// No pipe or no process could be made.
    #[allow(unsafe_code, reason = "fork")]
    pub fn spawn(&self, ends: ChildEnds) -> io::Result<(Pid, File)> {
        let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        // SAFETY: this process has one thread, so the child may do what it likes until `exec`.
        match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => Ok((child, File::from(reader))),
            ForkResult::Child => {
                let (stage, errno) = self.become_tool(&ends);
                let report = [stage as i32, errno as i32].map(i32::to_le_bytes).concat();
                let _ = File::from(writer).write_all(&report);
                // SAFETY: ends the child without running anything of the parent's.
                unsafe { libc::_exit(127) }
            }
        }
    }

    /// The outcome that a child reported; `None` when `exec` has happened.
    pub fn read_failure(&self, reader: &mut File) -> Option<Outcome> {
        let mut report = [0; 8];
        reader.read_exact(&mut report).ok()?;
        let number =
            |at: usize| i32::from_le_bytes([report[at], report[at + 1], report[at + 2], report[at + 3]]);
        let stage = [Stage::Exec, Stage::Chdir, Stage::User, Stage::System]
            .into_iter()
            .find(|s| *s as i32 == number(0));
        let stage = stage.unwrap_or(Stage::System);
        let errno = number(4);
        let name = Errno::from_raw(errno);
        let what = match stage {
            Stage::Exec => format!("exec {:?}", self.command),
            Stage::Chdir => format!("working directory {:?}", self.directory.to_string_lossy()),
            Stage::User => format!("UserNotPossible: becoming uid {}", self.user.uid),
            Stage::Shell | Stage::System => "preparing the process".to_owned(),
        };
        Some(cannot(stage, errno, format!("{what}: {} ({name:?})", name.desc())))
    }

    /// Returns only when something failed.
    fn become_tool(&self, ends: &ChildEnds) -> (Stage, Errno) {
        let _ = nix::unistd::setsid();
        if let Err(errno) = reset_signals() {
            return (Stage::System, errno);
        }
        let wired = nix::unistd::dup2_stdin(&ends.stdin)
            .and_then(|()| nix::unistd::dup2_stdout(&ends.stdout))
            .and_then(|()| nix::unistd::dup2_stderr(&ends.stderr));
        if let Err(errno) = wired {
            return (Stage::System, errno);
        }
        close_others_on_exec();
        // Not everywhere allowed, and no reason not to run.
        let _ = std::fs::write("/proc/self/oom_score_adj", &self.oom_score_adj);
        if self.switch_user
            && let Err(errno) = become_user(&self.user)
        {
            return (Stage::User, errno);
        }
        if let Err(errno) = nix::unistd::chdir(self.directory.as_c_str()) {
            return (Stage::Chdir, errno);
        }
        (Stage::Exec, self.exec())
    }

    /// As `execvpe(3)`, but a file without `#!` isn't handed to a shell.
    fn exec(&self) -> Errno {
        let mut denied = None;
        for candidate in &self.candidates {
            match nix::unistd::execve(candidate, &self.args, &self.env) {
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(Errno::EACCES) => denied = Some(Errno::EACCES),
                Err(errno) => return errno,
                Ok(never) => match never {},
            }
        }
        denied.unwrap_or(Errno::ENOENT)
    }
}

/// The folder itself, or the nearest one above that is there.
fn nearest_folder(path: PathBuf) -> PathBuf {
    let found = path.ancestors().find(|p| p.is_dir());
    found.map_or_else(|| path.clone(), Into::into)
}

fn resolve_user(asked: &str, default: &str) -> Result<User, Outcome> {
    let accounts = Accounts::read("/".as_ref());
    let own = nix::unistd::geteuid().to_string();
    let spec = [asked, default, &own].into_iter().find(|spec| !spec.is_empty()).unwrap_or("0");
    accounts.resolve(spec).map_err(|error| cannot(Stage::User, 0, error.to_string()))
}

fn arguments(request: &StartRequest, shell: Option<PathBuf>) -> Result<Vec<CString>, Outcome> {
    let args = match &request.what {
        Some(What::Argv(argv)) => argv.args.clone(),
        Some(What::Script(script)) => {
            let no_shell = || {
                let message = "NoShell: the image has neither the user's login shell nor /bin/sh";
                cannot(Stage::Shell, libc::ENOENT, message.to_owned())
            };
            let shell = shell.ok_or_else(no_shell)?.into_os_string().into_encoded_bytes();
            let fixed = [shell.clone(), b"-c".to_vec(), script.clone(), shell];
            fixed.into_iter().chain(request.script_args.iter().cloned()).collect()
        }
        None => Vec::new(),
    };
    let has_nul = |_| cannot(Stage::Exec, libc::EINVAL, "an argument has a NUL character".to_owned());
    args.into_iter().map(CString::new).collect::<Result<_, _>>().map_err(has_nul)
}

fn cannot(stage: Stage, errno: i32, message: String) -> Outcome {
    Outcome::CannotExecute { stage, errno, message }
}

fn oom_score_adj() -> String {
    let own = std::fs::read_to_string("/proc/self/oom_score_adj")
        .ok()
        .and_then(|text| text.trim().parse::<i32>().ok());
    (own.unwrap_or(0) + OOM_SCORE_MORE).min(1000).to_string()
}

/// A tool begins with the defaults, whatever this process, or who started the agent, made of signals.
#[allow(unsafe_code, reason = "signal dispositions")]
fn reset_signals() -> nix::Result<()> {
    // The kernel's own structure: all zeros is the default handler, no flags. The C library would refuse the two signals
    // that it keeps for itself, and a tool would begin with them as whoever started the agent left them.
    let default = [0_u64; 4];
    for number in 1..=64 {
        let none = std::ptr::null_mut::<u64>();
        // SAFETY: the kernel reads the structure and runs no code of ours; KILL and STOP are refused.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, number, default.as_ptr(), none, 8) };
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

/// Nothing but the three streams goes through `exec`, whatever the agent was started with.
#[allow(unsafe_code, reason = "no safe wrapper exists")]
fn close_others_on_exec() {
    // SAFETY: marks descriptors, closes none; an old kernel refuses, and then only foreign ones are left open.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

fn become_user(user: &User) -> nix::Result<()> {
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    nix::unistd::setgroups(&groups)?;
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    nix::unistd::setresgid(gid, gid, gid)?;
    nix::unistd::setresuid(uid, uid, uid)
}

/// A pair of pipes' ends: `(ours, the child's)` for a stream that is read.
///
/// # Errors
/// No descriptor is left.
pub fn output_pipe() -> io::Result<(File, OwnedFd)> {
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    set_nonblocking(&reader)?;
    Ok((File::from(reader), writer))
}

/// A pipe for standard input; without input it is `/dev/null`.
///
/// # Errors
/// No descriptor is left.
pub fn input_pipe(empty: bool) -> io::Result<(Option<File>, OwnedFd)> {
    if empty {
        return Ok((None, File::open("/dev/null")?.into()));
    }
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    set_nonblocking(&writer)?;
    Ok((Some(File::from(writer)), reader))
}

fn set_nonblocking(fd: impl AsFd) -> nix::Result<()> {
    let flags = OFlag::from_bits_truncate(nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_GETFL)?);
    nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}

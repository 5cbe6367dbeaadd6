//! Begins an attempt: the folder that claims it, the journal, then the shim. What may be secret goes to the shim in memory.

use std::fs;
use std::io::{self, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use drydock_protocol::agent::{StartRequest, Streams};
use drydock_protocol::limits;
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::journal::Meta;
use super::kept::Kept;
use super::registry::Settings;
use super::watch::{Shim, try_lock};
use crate::paths::{RunDir, write_whole};
use crate::process::{monotonic_ms, unix_ms};
use crate::shim::job::{Header, Job};

/// Writes the journal into the attempt's new folder, then makes the shim.
pub(super) fn launch(settings: &Settings, dir: &RunDir, request: StartRequest) -> io::Result<(Meta, Shim)> {
    let limit = if request.output_limit == 0 { limits::OUTPUT_DEFAULT } else { request.output_limit };
    let meta = Meta {
        run_uid: request.run_uid.clone(),
        attempt: request.attempt,
        boot_id: settings.boot_id.clone(),
        accepted_at_ms: unix_ms(),
        user: request.user.clone(),
        working_directory: request.working_directory.clone(),
        timeout_ms: request.timeout_ms,
        kept: Kept::with_limit(limit),
        combined: request.streams() == Streams::Combined,
    };
    let lock = try_lock(dir).ok_or_else(|| io::Error::other("the run's lock is held"))?;
    write_whole(&dir.meta(), &serde_json::to_vec(&meta)?)?;
    let name = format!("{}/{}", meta.run_uid, meta.attempt);
    let header = Header {
        dir: dir.path().to_owned(),
        default_user: settings.default_user.clone(),
        default_directory: settings.default_directory.clone(),
        accepted_ms: monotonic_ms(),
        kept: meta.kept,
    };
    let mut job = fs::File::from(memfd_create("drydock-job", MFdFlags::MFD_CLOEXEC)?);
    job.write_all(&Job { header, request }.encode()?)?;
    job.rewind()?;
    let child = Command::new("/proc/self/exe")
        .arg0("drydock-agent")
        .args([crate::shim::SUBCOMMAND, &name])
        .stdin(Stdio::from(job))
        .stdout(Stdio::from(lock))
        .spawn()?;
    Ok((meta, Shim::Own(child)))
}

/// Makes the folder of an attempt. Its making claims the attempt: it fails when it is there.
pub(super) fn create_run_dir(dir: &RunDir) -> io::Result<()> {
    let parent: PathBuf = dir.path().parent().map(Into::into).unwrap_or_default();
    fs::create_dir_all(parent)?;
    fs::create_dir(dir.path())
}

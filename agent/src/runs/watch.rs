//! Waits for the end of a shim: a child of this `serve`, or one that an earlier `serve` started.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::Duration;

use nix::unistd::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::paths::RunDir;
use crate::process::open_pidfd;

/// How often a shim is looked at where the kernel can't tell.
const POLL: Duration = Duration::from_millis(50);

/// The shim of a run.
pub enum Shim {
    /// Started by this process, which has to reap it.
    Own(Child),
    /// Found again.
    Adopted(Pid),
}

/// Takes the lock of a run's folder; `None` when somebody has it. It is held as long as this file, or a copy of its
/// descriptor in whatever process, is open.
#[must_use]
pub fn try_lock(dir: &RunDir) -> Option<File> {
    let file = File::options().create(true).truncate(false).write(true).open(dir.lock()).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// Returns when the shim has ended.
pub async fn ended(dir: &RunDir, shim: Shim) {
    match shim {
        Shim::Own(mut child) => {
            if let Ok(pid) = i32::try_from(child.id()) {
                wait_pidfd(Pid::from_raw(pid)).await;
            }
            // Without a pidfd the thread waits instead.
            if child.try_wait().ok().flatten().is_none() {
                let _ = tokio::task::spawn_blocking(move || child.wait()).await;
            }
        }
        Shim::Adopted(pid) => {
            wait_pidfd(pid).await;
            while try_lock(dir).is_none() {
                tokio::time::sleep(POLL).await;
            }
        }
    }
}

/// Until the process ends; at once where the kernel has no pidfd.
#[allow(unsafe_code, reason = "registering a descriptor")]
async fn wait_pidfd(pid: Pid) {
    let Ok(fd) = open_pidfd(pid) else { return };
    // SAFETY: an `OwnedFd` is open, and the same, as long as it lives; the `AsyncFd` owns it.
    let registered = unsafe { AsyncFd::<OwnedFd>::register_with_interest(fd, Interest::READABLE) };
    if let Ok(fd) = registered {
        let _ = fd.readable().await;
    }
}

//! `identity`: says who the agent of this container is, once `serve` answers. The exec channel it is called through is what
//! makes the answer worth believing.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use drydock_protocol::identity::Identity;

use crate::paths::{AgentDir, read_json};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until `serve` of this boot answers on its socket, at most `bound`.
///
/// # Errors
/// `TimedOut`.
pub fn wait_for_identity(dir: &AgentDir, bound: Duration) -> io::Result<Identity> {
    let until = Instant::now() + bound;
    loop {
        let boot_id = fs::read_to_string(dir.boot_id()).unwrap_or_default();
        let found = read_json::<Identity>(&dir.identity()).filter(|found| found.boot_id == boot_id);
        if let Some(found) = found
            && UnixStream::connect(dir.socket()).is_ok()
        {
            return Ok(found);
        }
        if Instant::now() >= until {
            let message = format!("the agent did not answer within {bound:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(LOOK);
    }
}

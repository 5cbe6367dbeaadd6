//! `session`: joins standard input and output to the agent's socket, byte for byte, so that HTTP/2 goes over one
//! `pods/exec`. Nothing else ever reaches standard output.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::paths::AgentDir;

/// How long the socket may take to be there (`serve` may be restarting).
const CONNECT_BOUND: Duration = Duration::from_secs(5);

/// Joins until the agent closes. End of input closes that half alone: answers still come.
///
/// # Errors
/// The socket isn't there, or breaks.
pub fn join(dir: &AgentDir) -> io::Result<()> {
    let socket = connect(dir)?;
    let to_agent = socket.try_clone()?;
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    std::thread::spawn(move || {
        // A client that is gone has closed its input.
        let _ = copy(input, &to_agent);
        let _ = to_agent.shutdown(Shutdown::Write);
    });
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    copy(&socket, output)
}

fn connect(dir: &AgentDir) -> io::Result<UnixStream> {
    let until = Instant::now() + CONNECT_BOUND;
    loop {
        match UnixStream::connect(dir.socket()) {
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            result => return result,
        }
    }
}

/// Each read is written at once: nothing is held back.
fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

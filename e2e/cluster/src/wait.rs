//! Polling with a deadline. Everything that is waited for in this crate is waited for here.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::process::Process;
use crate::{Error, Result};

const PAUSE: Duration = Duration::from_millis(50);

/// Asks `probe` until it answers `Ok`. An `Err` of the probe is the reason it is not ready yet.
///
/// Fails at the deadline with the last reason, and at once when `process` has ended; both with its last log lines.
pub(crate) async fn until<P, F, T>(
    what: &str,
    deadline: Duration,
    process: Option<&Process>,
    mut probe: P,
) -> Result<T>
where
    P: FnMut() -> F,
    F: Future<Output = std::result::Result<T, String>>,
{
    let started = Instant::now();
    loop {
        let reason = match probe().await {
            Ok(value) => return Ok(value),
            Err(reason) => reason,
        };
        if let Some(process) = process {
            process.check()?;
        }
        if started.elapsed() >= deadline {
            let lines = process.map(Process::last_lines).unwrap_or_default();
            let detail = format!("{reason}\n{lines}").trim().to_owned();
            return Err(Error::Deadline { what: what.to_owned(), after: deadline, detail });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

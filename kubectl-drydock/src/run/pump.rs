//! The output of a run, from its agent to stdout and stderr, byte for byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use drydock_crds::ToolRun;
use drydock_protocol::agent::{AttachRequest, StreamName, attach_response::Event};
use drydock_protocol::limits;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;

use crate::agent::{self, Unreachable};
use crate::connection::Connection;
use crate::failure::chain;

/// How far each stream was written, in bytes. Shared, so that it outlives the pump.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    stdout: AtomicU64,
    stderr: AtomicU64,
}

impl Offsets {
    /// Bytes of a stream that were written, or passed over.
    pub(crate) fn get(&self, stream: StreamName) -> u64 {
        self.of(stream).load(Ordering::Acquire)
    }

    /// Notes that a stream was written up to here.
    pub(crate) fn set(&self, stream: StreamName, offset: u64) {
        self.of(stream).store(offset, Ordering::Release);
    }

    fn of(&self, stream: StreamName) -> &AtomicU64 {
        if stream == StreamName::Stderr { &self.stderr } else { &self.stdout }
    }
}

/// How the pump ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pumped {
    /// Everything was written.
    All,
    /// It was told to stop.
    Stopped,
    /// Nobody reads stdout or stderr any more.
    Closed,
    /// The agent doesn't know the run (any more).
    Unknown(String),
    /// The agent can't be reached, or the stream broke off.
    Unreachable(Unreachable),
}

/// Where the bytes go.
pub(crate) struct Sinks<O, E> {
    /// Of stdout; none: passed over.
    pub(crate) stdout: Option<O>,
    /// Of stderr; none: passed over.
    pub(crate) stderr: Option<E>,
    /// What is said of bytes that weren't kept.
    pub(crate) on_gap: fn(&str),
}

/// Writes the output of the run's claimed attempt from `offsets` on, until it has ended and everything is written, or
/// `stop` changes. A piece that is begun is written whole, so `offsets` is always true.
pub(crate) async fn pump<O, E>(
    connection: &Connection,
    run: &ToolRun,
    offsets: &Arc<Offsets>,
    sinks: &mut Sinks<O, E>,
    mut stop: watch::Receiver<bool>,
) -> Pumped
where
    O: AsyncWrite + Unpin,
    E: AsyncWrite + Unpin,
{
    let mut agent = tokio::select! {
        dialled = agent::dial(connection, run) => match dialled {
            Ok(agent) => agent,
            Err(why) => return Pumped::Unreachable(why),
        },
        _ = stop.wait_for(|stop| *stop) => return Pumped::Stopped,
    };
    let claim = run.status.as_ref().and_then(|s| s.claim.as_ref());
    let request = AttachRequest {
        run_uid: run.metadata.uid.clone().unwrap_or_default(),
        attempt: claim.and_then(|c| u32::try_from(c.attempt).ok()).unwrap_or_default(),
        stdout_offset: offsets.get(StreamName::Stdout),
        stderr_offset: offsets.get(StreamName::Stderr),
        wait_ms: limits::ATTACH_WAIT_MS,
        ..AttachRequest::default()
    };
    let broken = |status: &tonic::Status| Pumped::Unreachable(Unreachable::Broken(chain(status)));
    let mut events = tokio::select! {
        attached = agent.attach(request) => match attached {
            Ok(response) => response.into_inner(),
            Err(status) => return broken(&status),
        },
        _ = stop.wait_for(|stop| *stop) => return Pumped::Stopped,
    };
    loop {
        let message = tokio::select! {
            message = events.message() => message,
            _ = stop.wait_for(|stop| *stop) => return Pumped::Stopped,
        };
        let event = match message {
            Ok(Some(message)) => message.event,
            Ok(None) => return Pumped::Unreachable(Unreachable::Broken("the stream ended early".to_owned())),
            Err(status) => return broken(&status),
        };
        if let Some(end) = take(event, offsets, sinks).await {
            return end;
        }
    }
}

/// Carries out one event; the end where it is the last.
async fn take<O, E>(event: Option<Event>, offsets: &Offsets, sinks: &mut Sinks<O, E>) -> Option<Pumped>
where
    O: AsyncWrite + Unpin,
    E: AsyncWrite + Unpin,
{
    match event? {
        Event::Attached(_) => None,
        Event::Chunk(chunk) => {
            let stream = chunk.stream();
            let written = offsets.get(stream);
            // An agent that repeats bytes must not make us repeat them.
            let known = usize::try_from(written.saturating_sub(chunk.offset)).unwrap_or(usize::MAX);
            let fresh = chunk.data.get(known..).unwrap_or_default();
            let result = match stream {
                StreamName::Stderr => put(sinks.stderr.as_mut(), fresh).await,
                _ => put(sinks.stdout.as_mut(), fresh).await,
            };
            offsets.set(stream, written.max(chunk.offset + chunk.data.len() as u64));
            result.err().map(|_| Pumped::Closed)
        }
        Event::Gap(gap) => {
            let stream = gap.stream();
            let shown = match stream {
                StreamName::Stderr => sinks.stderr.is_some(),
                _ => sinks.stdout.is_some(),
            };
            if shown && gap.to > gap.from {
                let name = stream.as_str_name().to_lowercase();
                (sinks.on_gap)(&format!(
                    "{} bytes of {name} weren't kept, from byte {}",
                    gap.to - gap.from,
                    gap.from
                ));
            }
            offsets.set(stream, gap.to.max(offsets.get(stream)));
            None
        }
        Event::End(_) => Some(Pumped::All),
        Event::Refusal(refusal) => Some(Pumped::Unknown(refusal.message)),
    }
}

async fn put<W: AsyncWrite + Unpin>(sink: Option<&mut W>, data: &[u8]) -> std::io::Result<()> {
    let Some(sink) = sink else {
        return Ok(());
    };
    sink.write_all(data).await?;
    sink.flush().await
}

/// Pumps again where the way broke off, for as long as something comes or `patience` isn't over.
pub(crate) async fn pump_on<O, E>(
    connection: &Connection,
    run: &ToolRun,
    offsets: &Arc<Offsets>,
    sinks: &mut Sinks<O, E>,
    stop: &watch::Receiver<bool>,
    patience: Duration,
) -> Pumped
where
    O: AsyncWrite + Unpin,
    E: AsyncWrite + Unpin,
{
    let mut since = tokio::time::Instant::now();
    let mut pause = Duration::from_millis(100);
    loop {
        let before = (offsets.get(StreamName::Stdout), offsets.get(StreamName::Stderr));
        let end = pump(connection, run, offsets, sinks, stop.clone()).await;
        if !matches!(end, Pumped::Unreachable(Unreachable::Broken(_))) {
            return end;
        }
        if before != (offsets.get(StreamName::Stdout), offsets.get(StreamName::Stderr)) {
            since = tokio::time::Instant::now();
            pause = Duration::from_millis(100);
        }
        if since.elapsed() + pause > patience {
            return end;
        }
        let mut stop = stop.clone();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.wait_for(|stop| *stop) => return Pumped::Stopped,
        }
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

#[cfg(test)]
mod tests;

//! Follows the output of a run to its end, from given offsets. What is asked for slowly stays on the disk: nothing is
//! buffered here but one chunk.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use drydock_protocol::agent::attach_response::Event;
use drydock_protocol::agent::refusal::Reason;
use drydock_protocol::agent::{AttachRequest, AttachResponse, Attached, Chunk, Gap, StreamName};
use drydock_protocol::limits;
use tokio::sync::mpsc::Sender;

use super::journal::refusal;
use super::registry::{Known, Registry};
use super::retention::Key;
use crate::paths::Stream;

/// Between two looks at a quiet run: the writer is another process, and file notifications don't work everywhere.
const QUIET: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// The client has gone.
struct Gone;

/// Sends events until the run has ended and everything was sent, or the client is gone.
pub async fn follow(
    registry: Arc<Registry>,
    request: AttachRequest,
    to: Sender<Result<AttachResponse, tonic::Status>>,
) {
    let follower = Follower { to };
    // A client that is gone needs no answer.
    let _ = follower.run(&registry, &request).await;
}

struct Follower {
    to: Sender<Result<AttachResponse, tonic::Status>>,
}

impl Follower {
    async fn run(&self, registry: &Registry, request: &AttachRequest) -> Result<(), Gone> {
        let Some(key) = self.wait_for_run(registry, request).await else {
            return self
                .send(Event::Refusal(refusal(Reason::UnknownRun, "this agent does not know the run")))
                .await;
        };
        self.send(Event::Attached(Attached { attempt: key.attempt })).await?;
        let mut offsets = [(Stream::Stdout, request.stdout_offset), (Stream::Stderr, request.stderr_offset)];
        let mut quiet = QUIET.0;
        loop {
            // Looked at before the output: when it had ended then, the output that is read now is all.
            let Some(known) = registry.find(&key) else {
                return self
                    .send(Event::Refusal(refusal(Reason::UnknownRun, "the run is not kept any more")))
                    .await;
            };
            let mut moved = false;
            for (stream, offset) in &mut offsets {
                moved |= self.send_piece(registry, &key, &known, *stream, offset).await?;
            }
            match known {
                _ if moved => quiet = QUIET.0,
                Known::Finished(record) => return self.send(Event::End(record.to_wire())).await,
                Known::Refused(refused) => return self.send(Event::Refusal(refused.to_wire())).await,
                Known::Active(run) => {
                    let mut done = run.subscribe();
                    tokio::select! {
                        _ = done.wait_for(Option::is_some) => {}
                        () = tokio::time::sleep(quiet) => {}
                        () = self.to.closed() => return Err(Gone),
                    }
                    quiet = (quiet * 2).min(QUIET.1);
                }
            }
        }
    }

    /// The attempt, when it is there or comes in time.
    async fn wait_for_run(&self, registry: &Registry, request: &AttachRequest) -> Option<Key> {
        let mut arrivals = registry.arrivals();
        let find = || {
            let attempt = match request.attempt {
                0 => registry.newest_attempt(&request.run_uid)?,
                attempt => attempt,
            };
            let key = Key { run_uid: request.run_uid.clone(), attempt };
            registry.find(&key).map(|_| key)
        };
        let wait = Duration::from_millis(request.wait_ms.min(limits::ATTACH_WAIT_MS));
        let wait_for = async {
            loop {
                arrivals.mark_unchanged();
                if let Some(key) = find() {
                    return Some(key);
                }
                arrivals.changed().await.ok()?;
            }
        };
        tokio::select! {
            key = wait_for => key,
            () = tokio::time::sleep(wait) => find(),
            () = self.to.closed() => None,
        }
    }

    async fn send_piece(
        &self,
        registry: &Registry,
        key: &Key,
        known: &Known,
        stream: Stream,
        offset: &mut u64,
    ) -> Result<bool, Gone> {
        let Some(reader) = registry.reader(key, known, stream) else {
            return Ok(false);
        };
        let piece = match reader.read(*offset, limits::CHUNK) {
            Ok(piece) => piece,
            // Dropped (bounds of what is kept), or not made yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => {
                let _ = self.to.send(Err(tonic::Status::internal(error.to_string()))).await;
                return Err(Gone);
            }
        };
        let name = match stream {
            Stream::Stdout => StreamName::Stdout.into(),
            Stream::Stderr => StreamName::Stderr.into(),
        };
        let moved = piece.next_offset() > *offset;
        if piece.offset > *offset {
            self.send(Event::Gap(Gap { stream: name, from: *offset, to: piece.offset })).await?;
        }
        *offset = piece.next_offset().max(*offset);
        if !piece.data.is_empty() {
            self.send(Event::Chunk(Chunk { stream: name, offset: piece.offset, data: piece.data })).await?;
        }
        Ok(moved)
    }

    async fn send(&self, event: Event) -> Result<(), Gone> {
        self.to.send(Ok(AttachResponse { event: Some(event) })).await.map_err(|_| Gone)
    }
}

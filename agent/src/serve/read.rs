//! `ReadOutput`: one bounded piece of a run's output, by offset or by line, and how much of the output there still is.

use drydock_protocol::agent::read_output_request::From;
use drydock_protocol::agent::read_output_response::Availability;
use drydock_protocol::agent::refusal::Reason;
use drydock_protocol::agent::{ReadOutputRequest, ReadOutputResponse, Refusal, StreamName};
use drydock_protocol::limits;

use crate::paths::Stream;
use crate::runs::journal::refusal;
use crate::runs::output::{OutputReader, Piece, line_prefix};
use crate::runs::registry::{Known, Registry};
use crate::runs::retention::Key;

/// Answers one request.
///
/// # Errors
/// `STALE_EPOCH`, `INVALID`. A run that isn't known is no refusal but [`Availability::Gone`].
pub fn read_output(registry: &Registry, request: &ReadOutputRequest) -> Result<ReadOutputResponse, Refusal> {
    registry.admit(request.epoch, false)?;
    let stream = match request.stream() {
        StreamName::Stdout => Stream::Stdout,
        StreamName::Stderr => Stream::Stderr,
        StreamName::Unspecified => return Err(refusal(Reason::Invalid, "stream is not given")),
    };
    let attempt = match request.attempt {
        0 => registry.newest_attempt(&request.run_uid).unwrap_or(0),
        attempt => attempt,
    };
    let key = Key { run_uid: request.run_uid.clone(), attempt };
    let known = registry.find(&key);
    let reader = known.as_ref().and_then(|known| registry.reader(&key, known, stream));
    let (Some(known), Some(reader)) = (known, reader) else {
        return Ok(ReadOutputResponse { availability: Availability::Gone.into(), ..Default::default() });
    };
    let finished = matches!(known, Known::Finished(_));
    let availability = if reader.is_full() { Availability::Full } else { Availability::Preview };
    let total = reader.total();
    let nothing = Piece { data: Vec::new(), offset: total, total };
    let (availability, piece) = match read_piece(&reader, request) {
        Ok(piece) => (availability, piece.unwrap_or(nothing)),
        // An unfinished run has made no file yet.
        Err(_) if total == 0 => (availability, nothing),
        // The result is kept, its output isn't any more.
        Err(_) => (Availability::Preview, nothing),
    };
    Ok(ReadOutputResponse {
        availability: availability.into(),
        offset: piece.offset,
        next_offset: piece.next_offset(),
        total: piece.total,
        data: piece.data,
        finished,
        refusal: None,
    })
}

/// The piece asked for; `None` when its first line isn't there.
fn read_piece(reader: &OutputReader, request: &ReadOutputRequest) -> std::io::Result<Option<Piece>> {
    let most = match request.max_bytes {
        0 => limits::READ,
        asked => usize::try_from(asked).unwrap_or(limits::READ).min(limits::READ),
    };
    let (offset, max_lines) = match request.from {
        None => (Some(0), 0),
        Some(From::Offset(offset)) => (Some(offset), 0),
        Some(From::Line(line)) => (reader.find_line(line)?, request.max_lines),
    };
    let Some(offset) = offset else { return Ok(None) };
    let mut piece = reader.read(offset, most)?;
    piece.data.truncate(line_prefix(&piece.data, max_lines));
    Ok(Some(piece))
}

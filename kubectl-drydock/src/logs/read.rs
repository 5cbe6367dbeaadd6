//! A stream, or a part of it, by offset from the agent.

use drydock_crds::ToolRun;
use drydock_protocol::agent::{
    ReadOutputRequest, ReadOutputResponse, StreamName, read_output_request::From as Start,
    read_output_response::Availability,
};
use tokio::io::AsyncWriteExt as _;

use super::State;
use crate::agent::{self, Unreachable};
use crate::cli::LogsArgs;
use crate::connection::Connection;
use crate::failure::chain;

/// Which part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// From a byte on, so many bytes or to the end.
    Bytes(u64, Option<u64>),
    /// From a line (from 1) on, so many lines or to the end.
    Lines(u64, Option<u64>),
}

impl Part {
    pub(super) fn of(args: &LogsArgs) -> Self {
        match (args.bytes, args.line, args.lines) {
            (Some((from, to)), ..) => Self::Bytes(from, to.map(|to| (to - from).saturating_add(1))),
            (None, None, None) => Self::Bytes(0, None),
            (None, line, lines) => Self::Lines(line.unwrap_or(1), lines),
        }
    }

    /// It is the whole stream.
    pub(super) fn is_all(self) -> bool {
        self == Self::Bytes(0, None)
    }

    /// The part of a whole stream.
    pub(super) fn cut(self, data: &[u8]) -> &[u8] {
        let to_size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        match self {
            Self::Bytes(from, count) => {
                let rest = data.get(to_size(from)..).unwrap_or_default();
                &rest[..rest.len().min(count.map_or(usize::MAX, to_size))]
            }
            Self::Lines(from, count) => {
                let skipped = lines_end(data, from - 1);
                let rest = data.get(skipped..).unwrap_or_default();
                &rest[..count.map_or(rest.len(), |count| lines_end(rest, count))]
            }
        }
    }
}

/// Where the first `count` lines end.
fn lines_end(data: &[u8], count: u64) -> usize {
    if count == 0 {
        return 0;
    }
    let mut left = count;
    for (at, byte) in data.iter().enumerate() {
        if *byte == b'\n' {
            left -= 1;
            if left == 0 {
                return at + 1;
            }
        }
    }
    data.len()
}

/// Writes a part of a stream to stdout. `Ok(None)`: nobody reads any more; `Err`: the agent couldn't be asked, or has
/// nothing; nothing was written then.
pub(super) async fn read(
    connection: &Connection,
    run: &ToolRun,
    stream: StreamName,
    part: &Part,
) -> Result<Option<State>, Unreachable> {
    let mut agent = agent::dial(connection, run).await?;
    let claim = run.status.as_ref().and_then(|s| s.claim.as_ref());
    let mut request = ReadOutputRequest {
        run_uid: run.metadata.uid.clone().unwrap_or_default(),
        attempt: claim.and_then(|c| u32::try_from(c.attempt).ok()).unwrap_or_default(),
        stream: stream.into(),
        ..ReadOutputRequest::default()
    };
    let mut left = Left::of(*part);
    request.from = Some(match *part {
        Part::Bytes(from, _) => Start::Offset(from),
        Part::Lines(from, _) => Start::Line(from),
    });
    let mut stdout = tokio::io::stdout();
    let mut state = State::Full;
    let mut expected = None;
    loop {
        let answered = agent.read_output(request.clone()).await;
        let answer = answered.map_err(|status| Unreachable::Broken(chain(&status)))?.into_inner();
        if let Some(refusal) = answer.refusal {
            return Err(Unreachable::NoPod(refusal.message));
        }
        match answer.availability() {
            Availability::Gone | Availability::Unspecified => {
                return Err(Unreachable::NoPod("the agent has nothing of it".to_owned()));
            }
            Availability::Preview if answer.data.is_empty() && answer.total > answer.next_offset => {
                return Err(Unreachable::NoPod("the agent has nothing of it but the preview".to_owned()));
            }
            Availability::Preview => state = State::Preview,
            Availability::Full => {}
        }
        note_gap(expected, &answer);
        let data = left.take(&answer.data);
        if stdout.write_all(data).await.is_err() || stdout.flush().await.is_err() {
            return Ok(None);
        }
        if left.is_over() || answer.data.is_empty() || answer.next_offset >= answer.total {
            return Ok(Some(state));
        }
        expected = Some(answer.next_offset);
        request.from = Some(Start::Offset(answer.next_offset));
    }
}

/// Says that bytes between two answers weren't kept.
fn note_gap(expected: Option<u64>, answer: &ReadOutputResponse) {
    if let Some(expected) = expected
        && answer.offset > expected
    {
        eprintln!("note: {} bytes weren't kept, from byte {expected}", answer.offset - expected);
    }
}

/// How much is still to be written.
enum Left {
    All,
    Bytes(u64),
    Lines(u64),
}

impl Left {
    fn of(part: Part) -> Self {
        match part {
            Part::Bytes(_, Some(count)) => Self::Bytes(count),
            Part::Lines(_, Some(count)) => Self::Lines(count),
            Part::Bytes(_, None) | Part::Lines(_, None) => Self::All,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self, Self::Bytes(0) | Self::Lines(0))
    }

    fn take<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        match self {
            Self::All => data,
            Self::Bytes(left) => {
                let count = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= count as u64;
                &data[..count]
            }
            Self::Lines(left) => {
                let taken = &data[..lines_end(data, *left)];
                *left -= taken.iter().filter(|b| **b == b'\n').count() as u64;
                taken
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_whole_stream() {
        let data = b"one\ntwo\n\nfour";
        for (part, cut) in [
            (Part::Bytes(0, None), &data[..]),
            (Part::Bytes(4, Some(3)), b"two"),
            (Part::Bytes(99, None), b""),
            (Part::Lines(1, Some(1)), b"one\n"),
            (Part::Lines(2, Some(2)), b"two\n\n"),
            (Part::Lines(4, None), b"four"),
            (Part::Lines(4, Some(9)), b"four"),
            (Part::Lines(5, None), b""),
        ] {
            assert_eq!(part.cut(data), cut, "{part:?}");
        }
    }

    #[test]
    fn a_part_may_come_in_pieces() {
        let mut left = Left::Lines(2);
        let mut got = Vec::new();
        for piece in [&b"on"[..], b"e\ntw", b"o\nthree\n"] {
            got.extend_from_slice(left.take(piece));
        }
        assert!(left.is_over());
        assert_eq!(got, b"one\ntwo\n");
        let mut left = Left::Bytes(3);
        assert_eq!((left.take(b"ab"), left.take(b"cd"), left.is_over()), (&b"ab"[..], &b"c"[..], true));
    }
}

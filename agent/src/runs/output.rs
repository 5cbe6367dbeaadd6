//! Reads the kept output of a run, finished or not, by offset or by line. The writer goes on meanwhile: what it may have
//! overwritten while it was read is thrown away and read anew.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::kept::Kept;
use super::record::StreamRecord;
use crate::paths::{RunDir, Stream};

/// The counters of one stream in the `progress` file: 16 bytes each, little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are written, or are being written.
    pub reserved: u64,
    /// Bytes that are written.
    pub committed: u64,
}

impl Progress {
    /// Offset of a stream's counters.
    #[must_use]
    pub fn slot(stream: Stream) -> u64 {
        match stream {
            Stream::Stdout => 0,
            Stream::Stderr => 16,
        }
    }

    /// As it stands in the file.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.reserved.to_le_bytes());
        bytes[8..].copy_from_slice(&self.committed.to_le_bytes());
        bytes
    }

    /// Reads the counters of one stream; 0 when the file isn't there yet.
    #[must_use]
    pub fn read(file: &Path, stream: Stream) -> Self {
        let mut bytes = [[0; 8]; 2];
        let read = File::open(file).and_then(|file| {
            file.read_exact_at(&mut bytes[0], Self::slot(stream))?;
            file.read_exact_at(&mut bytes[1], Self::slot(stream) + 8)
        });
        match read {
            Ok(()) => {
                Self { reserved: u64::from_le_bytes(bytes[0]), committed: u64::from_le_bytes(bytes[1]) }
            }
            Err(_) => Self::default(),
        }
    }
}

/// A reader of one stream.
#[derive(Clone, Debug)]
pub struct OutputReader {
    dir: RunDir,
    stream: Stream,
    kept: Kept,
    /// Bytes in all, and newlines, once it has ended.
    ended: Option<(u64, u64)>,
}

/// A piece of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The bytes; empty at the end of what there is.
    pub data: Vec<u8>,
    /// Offset of the first of them; later than asked for when those between weren't kept.
    pub offset: u64,
    /// Bytes in all so far.
    pub total: u64,
}

impl Piece {
    /// Where to go on.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

impl OutputReader {
    /// A reader of an unfinished run.
    #[must_use]
    pub fn live(dir: RunDir, stream: Stream, kept: Kept) -> Self {
        Self { dir, stream, kept, ended: None }
    }

    /// A reader of a finished run.
    #[must_use]
    pub fn finished(dir: RunDir, stream: Stream, record: &StreamRecord) -> Self {
        Self { dir, stream, kept: record.kept, ended: Some((record.bytes, record.lines)) }
    }

    /// Whether everything that was written so far is kept.
    #[must_use]
    pub fn is_full(&self) -> bool {
        !self.kept.is_truncated(self.total())
    }

    /// Bytes written so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ended
            .map_or_else(|| Progress::read(&self.dir.progress(), self.stream).committed, |(bytes, _)| bytes)
    }

    /// Reads at most `max` bytes from the first kept one at or after `offset`.
    ///
    /// # Errors
    /// `NotFound` when the output was dropped; others of the file system.
    pub fn read(&self, offset: u64, max: usize) -> io::Result<Piece> {
        let mut from = offset;
        loop {
            let total = self.total();
            let start = self.kept.next_kept(from.min(total), total);
            let end = self.kept.lost_from.map_or(total, |lost| lost.min(total));
            let length = self.kept.contiguous(start).min(end.saturating_sub(start)).min(max as u64);
            if length == 0 {
                return Ok(Piece { data: Vec::new(), offset: start, total });
            }
            let file = File::open(self.dir.stream(self.stream))?;
            let mut data = vec![0; usize::try_from(length).unwrap_or(max)];
            file.read_exact_at(&mut data, self.kept.position(start))?;
            let overwritten = self.ended.is_none() && start >= self.kept.head && {
                let reserved = Progress::read(&self.dir.progress(), self.stream).reserved;
                start < self.kept.ring_start(reserved)
            };
            if !overwritten {
                return Ok(Piece { data, offset: start, total });
            }
            from = start;
        }
    }

    /// The offset at which a line (1-based) begins; `None` when it isn't kept, or not there yet.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn find_line(&self, line: u64) -> io::Result<Option<u64>> {
        let Some(mut newlines) = line.checked_sub(1) else {
            return Ok(Some(0));
        };
        let mut offset = 0;
        loop {
            if newlines == 0 {
                return Ok(Some(offset));
            }
            let piece = self.read(offset, 256 * 1024)?;
            if piece.data.is_empty() {
                return Ok(None);
            }
            if piece.offset > offset {
                // The middle is gone: from here on lines are counted from the end, which only a finished run has.
                return self.find_line_in_ring(piece.offset, line);
            }
            for (index, _) in piece.data.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
                newlines -= 1;
                if newlines == 0 {
                    return Ok(Some(offset + index as u64 + 1));
                }
            }
            offset = piece.next_offset();
        }
    }

    fn find_line_in_ring(&self, ring_start: u64, line: u64) -> io::Result<Option<u64>> {
        let Some((total, lines)) = self.ended else {
            return Ok(None);
        };
        let mut starts = Vec::new();
        let mut offset = ring_start;
        while offset < total {
            let piece = self.read(offset, 256 * 1024)?;
            if piece.data.is_empty() {
                return Ok(None);
            }
            let found = piece.data.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            starts.extend(found.map(|(index, _)| piece.offset + index as u64 + 1).filter(|at| *at < total));
            offset = piece.next_offset();
        }
        // The last start is that of the last line.
        let from_end = lines.checked_sub(line).and_then(|count| usize::try_from(count).ok());
        let index = from_end.and_then(|count| starts.len().checked_sub(count + 1));
        Ok(index.and_then(|index| starts.get(index)).copied())
    }
}

/// The length of the first `lines` lines of `data`, or of all of it when there are fewer.
#[must_use]
pub fn line_prefix(data: &[u8], lines: u64) -> usize {
    let Some(skip) = lines.checked_sub(1).and_then(|skip| usize::try_from(skip).ok()) else {
        return data.len();
    };
    data.iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .nth(skip)
        .map_or(data.len(), |(index, _)| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_after_their_newline() {
        assert_eq!(line_prefix(b"a\nb\nc", 1), 2);
        assert_eq!(line_prefix(b"a\nb\nc", 2), 4);
        assert_eq!(line_prefix(b"a\nb\nc", 9), 5);
        assert_eq!(line_prefix(b"a\nb\nc", 0), 5);
    }
}

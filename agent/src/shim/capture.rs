//! Takes a stream's bytes: counts and hashes all of them, keeps what [`Kept`] says, never blocks the tool and never fails
//! it. A disk that is full costs the rest of the kept output, and the record says so.

use std::fs::File;
use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

use crate::paths::{RunDir, Stream, create_private};
use crate::runs::kept::Kept;
use crate::runs::output::Progress;
use crate::runs::record::StreamRecord;

/// SHA-256 of nothing.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The state of one stream.
pub struct Capture {
    file: Option<File>,
    progress: Option<File>,
    slot: u64,
    kept: Kept,
    bytes: u64,
    newlines: u64,
    hash: Sha256,
    /// The first bytes, at most `preview`.
    first: Vec<u8>,
    /// The last bytes, at least `preview / 2` of them where there are so many.
    last: Vec<u8>,
    preview: usize,
}

impl Capture {
    /// Makes the stream's file; `preview` bytes go into the record.
    #[must_use]
    pub fn create(dir: &RunDir, stream: Stream, kept: Kept, preview: usize) -> Self {
        let file = create_private(&dir.stream(stream)).ok();
        let progress = File::options().create(true).truncate(false).write(true).open(dir.progress()).ok();
        Self {
            kept: if file.is_some() { kept } else { Kept { lost_from: Some(0), ..kept } },
            file,
            progress,
            slot: Progress::slot(stream),
            bytes: 0,
            newlines: 0,
            hash: Sha256::new(),
            first: Vec::new(),
            last: Vec::new(),
            preview,
        }
    }

    /// Takes the next bytes.
    pub fn take(&mut self, data: &[u8]) {
        self.hash.update(data);
        self.newlines += data.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        let room = self.preview - self.first.len();
        self.first.extend_from_slice(&data[..data.len().min(room)]);
        self.remember_last(data);
        let from = self.bytes;
        self.bytes += data.len() as u64;
        self.keep(from, data);
    }

    /// The record, once nothing comes any more.
    #[must_use]
    pub fn finish(self) -> StreamRecord {
        let unterminated = self.bytes > 0 && self.last.last() != Some(&b'\n');
        let (head, tail) = if self.bytes <= self.preview as u64 {
            (self.first, Vec::new())
        } else {
            let half = self.preview / 2;
            let tail = &self.last[self.last.len().saturating_sub(half)..];
            (cut_end(&self.first[..half]).to_vec(), cut_start(tail).to_vec())
        };
        StreamRecord {
            bytes: self.bytes,
            lines: self.newlines + u64::from(unterminated),
            sha256: to_hex(&self.hash.finalize()),
            kept: self.kept,
            head,
            tail,
        }
    }

    fn remember_last(&mut self, data: &[u8]) {
        let half = self.preview / 2;
        if data.len() >= half {
            self.last.clear();
            self.last.extend_from_slice(&data[data.len() - half..]);
            return;
        }
        // Moved only now and then: a byte at a time must not cost a move of everything.
        if self.last.len() + data.len() > 4 * half {
            self.last.drain(..self.last.len() - half);
        }
        self.last.extend_from_slice(data);
    }

    fn keep(&mut self, from: u64, data: &[u8]) {
        if self.kept.lost_from.is_some() {
            return;
        }
        let Some(file) = &self.file else { return };
        let end = from + data.len() as u64;
        if end > self.kept.limit() {
            // A reader must know that these bytes are being overwritten before they are.
            self.publish(Progress { reserved: end, committed: from });
        }
        let mut offset = from;
        while offset < end {
            let length = self.kept.contiguous(offset).min(end - offset);
            let start = usize::try_from(offset - from).unwrap_or(data.len());
            let part = &data[start..][..usize::try_from(length).unwrap_or(0)];
            if file.write_all_at(part, self.kept.position(offset)).is_err() {
                self.kept.lost_from = Some(offset);
                break;
            }
            offset += length;
        }
        self.publish(Progress { reserved: end, committed: offset });
    }

    fn publish(&self, progress: Progress) {
        if let Some(file) = &self.progress {
            // Without it a reader sees the output at the end only.
            let _ = file.write_all_at(&progress.to_bytes(), self.slot);
        }
    }
}

/// Drops a character at the end that is cut in two; bytes that are no UTF-8 stay as they are.
fn cut_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let width = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => return bytes,
        };
        return if width > back { &bytes[..bytes.len() - back] } else { bytes };
    }
    bytes
}

/// Drops the rest of a character at the start.
fn cut_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xBF)).count();
    if std::str::from_utf8(&bytes[rest..]).is_ok() { &bytes[rest..] } else { bytes }
}

/// Lower-case hex.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::output::OutputReader;

    fn capture(dir: &tempfile::TempDir, limit: u64, chunks: &[&[u8]]) -> (StreamRecord, OutputReader) {
        let dir = RunDir::new(dir.path());
        let kept = Kept::with_limit(limit);
        let mut capture = Capture::create(&dir, Stream::Stdout, kept, 4096);
        for chunk in chunks {
            capture.take(chunk);
        }
        let record = capture.finish();
        let reader = OutputReader::finished(dir, Stream::Stdout, &record);
        (record, reader)
    }

    #[test]
    fn nothing_is_the_empty_hash() {
        let dir = tempfile::tempdir().unwrap();
        let (record, _) = capture(&dir, 0, &[]);
        assert_eq!((record.bytes, record.lines, record.sha256.as_str()), (0, 0, EMPTY_SHA256));
    }

    #[test]
    fn exactly_the_limit_is_whole_and_one_more_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let data = vec![b'a'; 16 * 1024];
        let (record, reader) = capture(&dir, 16 * 1024, &[&data]);
        assert!(!record.kept.is_truncated(record.bytes));
        assert_eq!(reader.read(0, 1 << 20).unwrap().data.len(), 8 * 1024);
        let (record, _) = capture(&dir, 16 * 1024, &[&data, b"b"]);
        assert!(record.kept.is_truncated(record.bytes));
    }

    #[test]
    fn the_ring_holds_the_last_part_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let all: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let chunks: Vec<&[u8]> = all.chunks(777).collect();
        let (record, reader) = capture(&dir, 20_000, &chunks);
        let mut got = Vec::new();
        let mut offset = 0;
        let mut gap = None;
        loop {
            let piece = reader.read(offset, 3000).unwrap();
            if piece.data.is_empty() {
                break;
            }
            if piece.offset > offset {
                gap = Some((offset, piece.offset));
            }
            assert_eq!(piece.data, all[usize::try_from(piece.offset).unwrap()..][..piece.data.len()]);
            got.extend_from_slice(&piece.data);
            offset = piece.next_offset();
        }
        assert_eq!((record.bytes, got.len(), gap), (400_000, 20_000, Some((10_000, 390_000))));
    }

    #[test]
    fn lines_are_found_from_both_sides_of_the_gap() {
        let dir = tempfile::tempdir().unwrap();
        let text = (1..=20_000).map(|line| format!("line {line}\n")).collect::<String>();
        let (record, reader) = capture(&dir, 20_000, &[text.as_bytes()]);
        assert_eq!(record.lines, 20_000);
        let line_at = |line| reader.find_line(line).unwrap().map(|at| reader.read(at, 12).unwrap().data);
        assert_eq!(line_at(1).unwrap(), b"line 1\nline ");
        assert_eq!(line_at(3).unwrap(), b"line 3\nline ");
        assert_eq!(line_at(20_000).unwrap(), b"line 20000\n");
        assert_eq!(line_at(19_999).unwrap(), b"line 19999\nl");
        assert_eq!(line_at(10_000), None);
        assert_eq!(line_at(20_001), None);
    }

    #[test]
    fn previews_are_cut_between_characters() {
        let dir = tempfile::tempdir().unwrap();
        let text = "☕".repeat(100_000);
        let halves: Vec<&[u8]> = text.as_bytes().chunks(10).collect();
        let (record, _) = capture(&dir, 0, &halves);
        let (head, tail) = (String::from_utf8(record.head).unwrap(), String::from_utf8(record.tail).unwrap());
        assert!(head.len() > 2000 && head.chars().all(|c| c == '☕'));
        assert!(tail.len() > 2000 && tail.chars().all(|c| c == '☕'));
    }

    #[test]
    fn bytes_that_are_no_text_are_left_alone() {
        assert_eq!(cut_end(b"ab\xff"), b"ab\xff");
        assert_eq!(cut_end("aé".as_bytes()), "aé".as_bytes());
        assert_eq!(cut_end(&"aé".as_bytes()[..2]), b"a");
        assert_eq!(cut_start(&"éa".as_bytes()[1..]), b"a");
        assert_eq!(cut_start(b"\x80\xff"), b"\x80\xff");
    }
}

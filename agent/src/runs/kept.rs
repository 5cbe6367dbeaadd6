//! Which bytes of a stream are kept, and where they stand in its file: the first part as it comes, then a ring that the
//! last part goes round in. Pure arithmetic, shared by the writer (the shim) and the readers (`serve`).

use drydock_protocol::limits;
use serde::{Deserialize, Serialize};

/// The division of a file of at most `limit` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// Bytes of the first part.
    pub head: u64,
    /// Bytes of the ring behind it; never 0.
    pub ring: u64,
    /// Nothing at or after this offset is kept (the disk was full, for instance).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost_from: Option<u64>,
}

impl Kept {
    /// Half for the first part, half for the last. A smaller limit than [`limits::OUTPUT_MIN`] is raised to it.
    #[must_use]
    pub fn with_limit(limit: u64) -> Self {
        let limit = limit.max(limits::OUTPUT_MIN);
        let head = limit / 2;
        Self { head, ring: limit - head, lost_from: None }
    }

    /// Most bytes that are kept.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.head + self.ring
    }

    /// Whether less is kept than `total` bytes.
    #[must_use]
    pub fn is_truncated(&self, total: u64) -> bool {
        total > self.limit() || self.lost_from.is_some_and(|from| from < total)
    }

    /// Where the byte at `offset` stands in the file.
    #[must_use]
    pub fn position(&self, offset: u64) -> u64 {
        if offset < self.head { offset } else { self.head + (offset - self.head) % self.ring }
    }

    /// How many bytes from `offset` on are beside each other in the file.
    #[must_use]
    pub fn contiguous(&self, offset: u64) -> u64 {
        if offset < self.head { self.head - offset } else { self.ring - (offset - self.head) % self.ring }
    }

    /// First offset of the last part that is kept, with `total` bytes written.
    #[must_use]
    pub fn ring_start(&self, total: u64) -> u64 {
        total.saturating_sub(self.ring).max(self.head)
    }

    /// The first kept offset at or after `offset`, at most `total`.
    #[must_use]
    pub fn next_kept(&self, offset: u64, total: u64) -> u64 {
        if self.lost_from.is_some_and(|from| offset >= from) {
            return total;
        }
        if offset < self.head.min(total) { offset } else { offset.max(self.ring_start(total)).min(total) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Kept = Kept { head: 4, ring: 6, lost_from: None };

    #[test]
    fn up_to_the_limit_the_file_is_the_stream() {
        assert!((0..10).all(|offset| SMALL.position(offset) == offset));
        assert!(!SMALL.is_truncated(10));
        assert!(SMALL.is_truncated(11));
    }

    #[test]
    fn past_the_limit_the_middle_is_gone() {
        // 15 bytes: 0..4 and 9..15 are kept.
        assert_eq!(SMALL.next_kept(0, 15), 0);
        assert_eq!(SMALL.next_kept(3, 15), 3);
        assert_eq!(SMALL.next_kept(4, 15), 9);
        assert_eq!(SMALL.next_kept(12, 15), 12);
        assert_eq!(SMALL.next_kept(20, 15), 15);
        assert_eq!(SMALL.position(10), 4);
        assert_eq!(SMALL.contiguous(9), 1);
    }

    #[test]
    fn what_was_lost_is_skipped_to_the_end() {
        let broken = Kept { lost_from: Some(2), ..SMALL };
        assert!(broken.is_truncated(3));
        assert!(!broken.is_truncated(2));
        assert_eq!(broken.next_kept(2, 9), 9);
        assert_eq!(broken.next_kept(1, 9), 1);
    }
}

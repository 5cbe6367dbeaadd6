//! How much of finished runs is kept: which output, and which result, goes when another run ends. Pure.

use std::collections::VecDeque;

/// An attempt of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Uid of the run.
    pub run_uid: String,
    /// Attempt, from 1.
    pub attempt: u32,
}

/// The bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Finished runs whose output is kept.
    pub outputs: usize,
    /// Bytes of their output together. The newest run's is kept whatever its size.
    pub bytes: u64,
    /// Finished runs whose result is kept after their output went.
    pub results: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { outputs: 1000, bytes: 512 * 1024 * 1024, results: 10_000 }
    }
}

/// What has to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expired {
    /// The output; the result stays.
    Output(Key),
    /// The whole folder.
    All(Key),
}

/// Finished runs, oldest first.
#[derive(Clone, Debug)]
pub struct Retention {
    bounds: Bounds,
    outputs: VecDeque<(Key, u64)>,
    bytes: u64,
    results: VecDeque<Key>,
}

impl Retention {
    /// Nothing has finished.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, outputs: VecDeque::new(), bytes: 0, results: VecDeque::new() }
    }

    /// Another run has finished, with that many bytes on the disk; what goes for it.
    pub fn push(&mut self, key: Key, bytes: u64) -> Vec<Expired> {
        self.outputs.push_back((key, bytes));
        self.bytes += bytes;
        let mut expired = Vec::new();
        while self.outputs.len() > 1
            && (self.outputs.len() > self.bounds.outputs || self.bytes > self.bounds.bytes)
        {
            let Some((key, bytes)) = self.outputs.pop_front() else {
                break;
            };
            self.bytes -= bytes;
            self.results.push_back(key.clone());
            expired.push(Expired::Output(key));
        }
        while self.results.len() > self.bounds.results {
            expired.extend(self.results.pop_front().map(Expired::All));
        }
        expired
    }

    /// Newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Key> {
        self.outputs.iter().rev().map(|(key, _)| key).chain(self.results.iter().rev())
    }

    /// How many are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.outputs.len() + self.results.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        Key { run_uid: "u".into(), attempt: number }
    }

    #[test]
    fn the_oldest_go_first_by_count_and_by_bytes() {
        let mut kept = Retention::new(Bounds { outputs: 2, bytes: 100, results: 1 });
        assert_eq!(kept.push(key(1), 10), []);
        assert_eq!(kept.push(key(2), 10), []);
        assert_eq!(kept.push(key(3), 10), [Expired::Output(key(1))]);
        assert_eq!(
            kept.push(key(4), 95),
            [Expired::Output(key(2)), Expired::Output(key(3)), Expired::All(key(1)), Expired::All(key(2))]
        );
        assert_eq!(kept.newest().cloned().collect::<Vec<_>>(), [key(4), key(3)]);
    }

    #[test]
    fn one_run_above_all_bounds_is_kept_until_the_next() {
        let mut kept = Retention::new(Bounds { outputs: 2, bytes: 100, results: 1 });
        assert_eq!(kept.push(key(1), 1000), []);
        assert_eq!(kept.push(key(2), 1), [Expired::Output(key(1))]);
    }
}

//! Order statistics of durations.

use std::fmt;
use std::time::Duration;

/// Measured durations, sorted.
#[derive(Debug)]
pub(crate) struct Spread(Vec<Duration>);

impl Spread {
    /// Of these, at least one.
    pub(crate) fn of(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        Self(durations)
    }

    /// The duration that this part of all doesn't exceed (nearest rank), in milliseconds.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let rank = (part * self.0.len() as f64).ceil() as usize;
        let at = rank.saturating_sub(1).min(self.0.len().saturating_sub(1));
        self.0.get(at).map_or(f64::NAN, |d| d.as_secs_f64() * 1000.0)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [least, p50, p90, p99, most] = [0.0, 0.5, 0.9, 0.99, 1.0].map(|part| self.quantile(part));
        write!(
            f,
            "min {least:.1}  p50 {p50:.1}  p90 {p90:.1}  p99 {p99:.1}  max {most:.1} ms (n={})",
            self.0.len()
        )
    }
}

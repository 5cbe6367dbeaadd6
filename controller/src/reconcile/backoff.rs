//! How long an object that fails is left alone: from one second to five minutes, each object by itself.

use std::time::Duration;

/// The first delay.
pub(super) const FIRST: Duration = Duration::from_secs(1);
/// The longest delay.
pub(super) const LAST: Duration = Duration::from_secs(300);
/// After so many stale views in a row an object counts as failing.
pub(super) const MAX_CONFLICTS: u32 = 20;

/// What is remembered of an object that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Failures {
    /// Failures in a row.
    failures: u32,
    /// Stale views in a row.
    conflicts: u32,
}

impl Failures {
    /// The delay after one more failure; `chance` is between 0 and 1.
    pub(super) fn failed(&mut self, chance: f64) -> Duration {
        let exponent = self.failures.min(20);
        self.failures = self.failures.saturating_add(1);
        let full = FIRST.saturating_mul(1 << exponent).min(LAST);
        full.mul_f64(0.8 + 0.2 * chance)
    }

    /// The delay after one more stale view.
    pub(super) fn stale(&mut self, chance: f64) -> Duration {
        self.conflicts = self.conflicts.saturating_add(1);
        if self.conflicts > MAX_CONFLICTS {
            return self.failed(chance);
        }
        Duration::from_millis(50).mul_f64(1.0 + 3.0 * chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_from_one_second_to_five_minutes() {
        let mut failures = Failures::default();
        let delays: Vec<u64> = (0..12).map(|_| failures.failed(1.0).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert!(Failures::default().failed(0.0) >= Duration::from_millis(800));
    }

    #[test]
    fn stale_views_are_met_soon_but_not_for_ever() {
        let mut failures = Failures::default();
        for _ in 0..MAX_CONFLICTS {
            let delay = failures.stale(0.5);
            assert!((50..=200).contains(&delay.as_millis()), "{delay:?}");
        }
        assert_eq!(failures.stale(1.0), FIRST);
    }
}

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use fleetbeat_liveness::hearing::owed_per_s;

/// Parts of a message per second that are counted.
const PARTS: f64 = 1e6;

/// What live sessions owe: messages per second, in millionths, so that additions and subtractions meet.
#[derive(Debug, Default)]
pub struct Owed(AtomicI64);

impl Owed {
    /// Raises or lowers it by the difference of two [`rate`]s.
    pub(super) fn change(&self, from: i64, to: i64) {
        self.0.fetch_add(to - from, Ordering::Relaxed);
    }

    /// Messages per second.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "a million sessions at the shortest T owe 5e12 parts"
    )]
    pub fn per_s(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 / PARTS
    }
}

/// What one session owes that beats each `interval`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the shortest T owes 5.3e6 parts"
)]
pub(super) fn rate(interval: Duration) -> i64 {
    (owed_per_s(interval) * PARTS).round() as i64
}

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fleetbeat_liveness::histogram;
use fleetbeat_proto::nanos;

/// How long after their time verdicts came.
#[derive(Debug)]
pub struct Lateness([AtomicU64; histogram::BUCKETS]);

impl Default for Lateness {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Lateness {
    pub(super) fn count(&self, late: Duration) {
        self.0[histogram::bucket(nanos(late))].fetch_add(1, Ordering::Relaxed);
    }

    /// By log-linear bucket, since the start.
    #[must_use]
    pub fn counts(&self) -> [u64; histogram::BUCKETS] {
        std::array::from_fn(|bucket| self.0[bucket].load(Ordering::Relaxed))
    }
}

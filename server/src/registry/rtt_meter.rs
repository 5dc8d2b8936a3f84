use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fleetbeat_liveness::rtt;
use fleetbeat_proto::nanos;

/// Round trips kept for people and for adaptive rules.
const WINDOW: usize = 20;

/// Round trips of one session. Its own task writes, everybody may read.
#[derive(Debug)]
pub(super) struct RttMeter {
    count: AtomicU64,
    sum_ns: AtomicU64,
    late: AtomicU64,
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    ring: [AtomicU64; WINDOW],
}

impl Default for RttMeter {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            sum_ns: AtomicU64::new(0),
            late: AtomicU64::new(0),
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: AtomicU64::new(0),
            ring: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl RttMeter {
    pub(super) fn sample(&self, rtt: Duration, late: bool) {
        let nanos = nanos(rtt).max(1);
        let count = self.count.load(Ordering::Relaxed);
        self.ring[usize::try_from(count).unwrap_or(0) % WINDOW].store(nanos, Ordering::Relaxed);
        self.min_ns.fetch_min(nanos, Ordering::Relaxed);
        self.max_ns.fetch_max(nanos, Ordering::Relaxed);
        bump(&self.sum_ns, nanos);
        bump(&self.late, u64::from(late));
        bump(&self.count, 1);
    }

    pub(super) fn window(&self) -> rtt::Window {
        let mut window = rtt::Window::default();
        let count = usize::try_from(self.count.load(Ordering::Acquire)).unwrap_or(usize::MAX);
        let len = count.min(WINDOW);
        for place in count - len..count {
            let nanos = self.ring[place % WINDOW].load(Ordering::Relaxed);
            window.push(Duration::from_nanos(nanos));
        }
        window
    }
}

impl RttMeter {
    /// Samples, their sum in nanoseconds, and how many came later than W, since the session opened.
    pub(super) fn totals(&self) -> (u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        (read(&self.count), read(&self.sum_ns), read(&self.late))
    }

    /// Shortest and longest since the last call, nanoseconds; `None` without samples.
    pub(super) fn take_extremes(&self) -> Option<(u64, u64)> {
        let min = self.min_ns.swap(u64::MAX, Ordering::AcqRel);
        let max = self.max_ns.swap(0, Ordering::AcqRel);
        (min <= max).then_some((min, max))
    }
}

/// Adds to a counter that has one writer: a load and a store are cheaper than an atomic addition.
pub(super) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Release,
    );
}

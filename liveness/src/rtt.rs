//! The last round trips of one session.

use std::time::Duration;

use crate::moment::nanos;

/// How many samples a [`Window`] holds.
pub const SAMPLES: usize = 20;

/// The last [`SAMPLES`] round trips, without allocation. Percentiles are nearest-rank: always one of the
/// samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    nanos: [u64; SAMPLES],
    len: usize,
    next: usize,
}

/// What is kept of a [`Window`] where many are kept. Nothing without samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    pub median: Option<Duration>,
    pub p95: Option<Duration>,
    /// The sample kept last.
    pub last: Option<Duration>,
}

impl Window {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps a sample; the oldest leaves a full window.
    pub fn push(&mut self, sample: Duration) {
        self.nanos[self.next] = nanos(sample);
        self.next = (self.next + 1) % SAMPLES;
        self.len = (self.len + 1).min(SAMPLES);
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `None` without samples.
    #[must_use]
    pub fn median(&self) -> Option<Duration> {
        self.percentile(50)
    }

    /// It holds [`SAMPLES`].
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len == SAMPLES
    }

    /// `None` without samples.
    #[must_use]
    pub fn p95(&self) -> Option<Duration> {
        self.percentile(95)
    }

    /// The longest of a full window; `None` without samples.
    #[must_use]
    pub fn p99(&self) -> Option<Duration> {
        self.percentile(99)
    }

    /// The sample kept last; `None` without samples.
    #[must_use]
    pub fn last(&self) -> Option<Duration> {
        let newest = (self.next + SAMPLES - 1) % SAMPLES;
        (self.len > 0).then(|| Duration::from_nanos(self.nanos[newest]))
    }

    /// The samples kept last, at most `n`, newest first.
    pub fn newest(&self, n: usize) -> impl Iterator<Item = Duration> {
        (1..=n.min(self.len)).map(|back| {
            let at = (self.next + SAMPLES - back) % SAMPLES;
            Duration::from_nanos(self.nanos[at])
        })
    }

    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            median: self.median(),
            p95: self.p95(),
            last: self.last(),
        }
    }

    fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut kept = self.nanos;
        let kept = &mut kept[..self.len];
        kept.sort_unstable();
        let rank = (self.len * percent).div_ceil(100);
        kept.get(rank.checked_sub(1)?)
            .copied()
            .map(Duration::from_nanos)
    }
}

//! How much of what was owed to a server it has heard.
//!
//! Every live session owes a message each `0.95·T` on average. A server that hears next to nothing of what
//! all of them owe has first to ask whether it is itself the one that is cut off.

use std::collections::VecDeque;
use std::time::Duration;

use crate::moment::Moment;
use crate::tuning::SILENCE_MOST;

/// Mean gap between two messages, in percent of T: gaps are drawn from [0.9·T, T].
const MEAN_GAP_PERCENT: f64 = 95.0;
/// Fewer owed messages prove nothing.
const OWED_LEAST: f64 = 20.0;
/// Between samples that are so far from each other, it matters when the last message came.
const SLEPT: Duration = Duration::from_millis(100);
/// Samples are thinned when there are so many times the fineness; of a whole day about 11 times are left.
const THIN_AT: usize = 32;

/// What a server counted since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Valid messages received, Hello included.
    pub heard: u64,
    /// When the last of them was received.
    pub heard_at: Moment,
    /// Those of them that came from other hosts, which needs a network.
    pub afar: u64,
    /// Messages per second that live sessions owe, see [`owed_per_s`].
    pub owed_per_s: f64,
    /// What sessions of other hosts owe of it.
    pub owed_afar_per_s: f64,
}

/// What was heard and owed over some time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Share {
    pub heard: f64,
    pub owed: f64,
}

/// Messages per second that one session owes: `1 / 0.95·T`.
#[must_use]
pub fn owed_per_s(interval: Duration) -> f64 {
    100.0 / (MEAN_GAP_PERCENT * interval.as_secs_f64())
}

/// Remembers what was heard and owed, finely for what is recent and coarsely for what is long ago.
#[derive(Debug, Clone)]
pub struct Hearing {
    /// Samples nearer to each other than this fraction of their age are thinned out.
    fineness: u32,
    samples: VecDeque<Sample>,
    /// Messages per second that were owed at the last sample.
    owed_per_s: f64,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Moment,
    heard: u64,
    /// Since the first sample.
    owed: f64,
}

impl Hearing {
    /// At any age the spacing of what is remembered is about `1/fineness` of it, or that of the samples.
    /// Takes 1 KiB times `fineness`.
    #[must_use]
    pub fn new(fineness: u32) -> Self {
        Self {
            fineness,
            samples: VecDeque::new(),
            owed_per_s: 0.0,
        }
    }

    /// To be called often, with times that do not go back.
    pub fn sample(&mut self, now: Moment, counts: Counts) {
        let slept = |last: &&Sample| now.since(last.at) > SLEPT;
        if self
            .samples
            .back()
            .filter(slept)
            .is_some_and(|last| last.at < counts.heard_at)
        {
            self.push(counts.heard_at.min(now), counts);
        }
        self.push(now, counts);
        if self.samples.len() >= THIN_AT * self.fineness as usize {
            self.thin(now);
        }
    }

    fn push(&mut self, at: Moment, counts: Counts) {
        let owed = self.samples.back().map_or(0.0, |last| {
            let mean = f64::midpoint(self.owed_per_s, counts.owed_per_s);
            last.owed + mean * at.since(last.at).as_secs_f64()
        });
        self.samples.push_back(Sample {
            at,
            heard: counts.heard,
            owed,
        });
        self.owed_per_s = counts.owed_per_s;
    }

    /// What was heard and owed in the last `look_back`, or since the first sample.
    #[must_use]
    pub fn over(&self, look_back: Duration) -> Share {
        let Some(last) = self.samples.back() else {
            return Share::default();
        };
        let from = self.at(last.at.before(look_back));
        Share {
            heard: as_f64(last.heard) - from.heard,
            owed: last.owed - from.owed,
        }
    }

    /// The counts at `moment`, between the two samples around it.
    fn at(&self, moment: Moment) -> Share {
        let after = self.samples.partition_point(|sample| sample.at <= moment);
        let share = |sample: &Sample| Share {
            heard: as_f64(sample.heard),
            owed: sample.owed,
        };
        let before = after.checked_sub(1).and_then(|at| self.samples.get(at));
        match (before, self.samples.get(after)) {
            (None, None) => Share::default(),
            (Some(one), None) | (None, Some(one)) => share(one),
            (Some(earlier), Some(later)) => {
                let part = moment.since(earlier.at).as_secs_f64()
                    / later.at.since(earlier.at).as_secs_f64();
                share(earlier).towards(share(later), part)
            }
        }
    }

    fn thin(&mut self, now: Moment) {
        let mut kept: Option<Moment> = None;
        let fineness = self.fineness.max(1);
        let newest = self.samples.back().map(|sample| sample.at);
        self.samples.retain(|sample| {
            let age = now.since(sample.at);
            let close = kept.is_some_and(|kept| sample.at.since(kept) < age / fineness);
            let keep = Some(sample.at) == newest || (age <= SILENCE_MOST && !close);
            if keep {
                kept = Some(sample.at);
            }
            keep
        });
    }
}

impl Share {
    /// Less than `part` (0 … 1) of what was owed arrived, and enough was owed to tell.
    #[must_use]
    pub fn is_below(&self, part: f64) -> bool {
        self.owed >= OWED_LEAST && self.heard < self.owed * part
    }

    fn towards(self, other: Self, part: f64) -> Self {
        let between = |from: f64, to: f64| from + (to - from) * part;
        Self {
            heard: between(self.heard, other.heard),
            owed: between(self.owed, other.owed),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "differences of counts below 2^53 are exact"
)]
fn as_f64(count: u64) -> f64 {
    count as f64
}

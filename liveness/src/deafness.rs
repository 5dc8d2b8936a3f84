//! When an observer could not hear.
//!
//! A lane or the judge that was due at one moment and ran much later was stalled: what arrived meanwhile
//! lay unread, and TCP's backed-off retransmission may bring a live agent's next byte as late again. So
//! a stall of length L is followed by a grace of min(L, 60 s), in which nobody who was live when it
//! began is convicted.

use std::collections::VecDeque;
use std::time::Duration;

use crate::moment::Moment;

/// Lateness from which an observer counts as stalled.
pub const STALL_OVER: Duration = Duration::from_secs(1);
/// Longest grace after one stall.
pub const GRACE_MOST: Duration = Duration::from_mins(1);
/// What the recent figures look back over.
pub const LOOK_BACK: Duration = Duration::from_mins(1);

/// A grace ends at most a minute after its stall and counts for a minute after that; in those two
/// minutes one observer has at most 120 stalls of over 1 s.
const REMEMBERED: usize = 128;

/// Stalls of one observer.
#[derive(Debug, Clone, Default)]
pub struct Deafness {
    /// As they were reported, at most [`REMEMBERED`].
    recent: VecDeque<Stall>,
    stalls: u64,
    stalled: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Stall {
    began: Moment,
    ended: Moment,
}

impl Stall {
    fn grace_until(self) -> Moment {
        self.ended + self.ended.since(self.began).min(GRACE_MOST)
    }
}

/// Figures of the last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastMinute {
    /// Stalls that ended in it.
    pub stalls: usize,
    /// Time stalled.
    pub stalled: Duration,
    /// Time in which verdicts were late: stalled or in a grace.
    pub held: Duration,
}

impl LastMinute {
    /// Verdicts were late for over 10 % of the minute.
    #[must_use]
    pub fn alarming(&self) -> bool {
        self.held > LOOK_BACK / 10
    }
}

impl Deafness {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// To be called whenever the observer runs, with the moment at which it should have run. Returns the
    /// length of the stall when it was over [`STALL_OVER`] late.
    pub fn observe(&mut self, now: Moment, expected_by: Moment) -> Option<Duration> {
        self.deaf(expected_by, now)
    }

    /// The observer heard nothing between the two moments, for whatever reason (a hold of verdicts, a
    /// resume). Returns the length when it was over [`STALL_OVER`]; shorter ones leave no trace.
    pub fn deaf(&mut self, began: Moment, ended: Moment) -> Option<Duration> {
        let length = ended.since(began);
        if length <= STALL_OVER {
            return None;
        }
        let counted = covered(self.spans(), began, ended);
        self.stalled = self.stalled.saturating_add(length.saturating_sub(counted));
        self.stalls += 1;
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(Stall { began, ended });
        Some(length)
    }

    /// End of the farthest grace, which may lie in the past; `None` when there was no stall.
    #[must_use]
    pub fn grace_until(&self) -> Option<Moment> {
        self.grace_for(Moment::ZERO)
    }

    /// [`Deafness::grace_until`] for a session that opened at `opened`: only stalls that began later
    /// count, since it was not live when the others did.
    #[must_use]
    pub fn grace_for(&self, opened: Moment) -> Option<Moment> {
        let lived_through = self.recent.iter().filter(|stall| stall.began >= opened);
        lived_through.map(|stall| stall.grace_until()).max()
    }

    /// Length of the longest stall that a session opened at `opened` lived through and whose grace is
    /// not over at `now`.
    #[must_use]
    pub fn lived_through(&self, opened: Moment, now: Moment) -> Option<Duration> {
        let recent = self.recent.iter().filter(|stall| stall.began >= opened);
        let recent = recent.filter(|stall| now < stall.grace_until());
        recent.map(|stall| stall.ended.since(stall.began)).max()
    }

    /// How many stalls there were.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Time stalled in all, none of it counted twice.
    #[must_use]
    pub fn stalled(&self) -> Duration {
        self.stalled
    }

    #[must_use]
    pub fn last_minute(&self, now: Moment) -> LastMinute {
        let since = now.before(LOOK_BACK);
        let graces = self
            .recent
            .iter()
            .map(|stall| (stall.began, stall.grace_until()));
        LastMinute {
            stalls: self.spans().filter(|(_, ended)| *ended > since).count(),
            stalled: covered(self.spans(), since, now),
            held: covered(graces, since, now),
        }
    }

    fn spans(&self) -> impl Iterator<Item = (Moment, Moment)> {
        self.recent.iter().map(|stall| (stall.began, stall.ended))
    }
}

/// Time of [since, now] that lies in at least one of the spans.
fn covered(spans: impl Iterator<Item = (Moment, Moment)>, since: Moment, now: Moment) -> Duration {
    let mut spans: Vec<_> = spans.collect();
    spans.sort_unstable();
    let mut sum = Duration::ZERO;
    let mut covered_to = since;
    for (from, to) in spans {
        let to = to.min(now);
        sum += to.since(from.max(covered_to));
        covered_to = covered_to.max(to);
    }
    sum
}

//! What both sides of a phase showed, counted as it comes.

use std::time::Duration;

use super::guard::{Against, Evidence, Side};
use crate::histogram;

/// Which side of a phase a member was frozen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Candidate,
    /// Members that the candidate speaks of and that keep the last good revision.
    Rest,
}

/// What one member showed since it was looked at last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// How long it had a session.
    pub connected: Duration,
    /// Sessions that ended without anybody meaning it.
    pub disconnects: u32,
    /// Times that the same instance came back after it lost a session.
    pub reconnects: u32,
    /// Round trips in nanoseconds.
    pub rtt: Vec<u64>,
}

/// Evidence of the phase, and of the members before the candidate came to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathering {
    pub candidate: Side,
    pub rest: Side,
    /// What the rests of earlier phases showed: later phases have nobody else to compare with.
    pub before: Side,
    pub against: Against,
}

impl Default for Gathering {
    fn default() -> Self {
        Self {
            candidate: Side::default(),
            rest: Side::default(),
            before: Side::default(),
            against: Against::Rest,
        }
    }
}

impl Gathering {
    /// A phase begins whose rest has so many members. What its predecessor's rest showed is kept as the
    /// time before.
    pub fn begin(&mut self, rest: usize) {
        let over = std::mem::take(&mut self.rest);
        merge(&mut self.before, &over);
        self.candidate = Side::default();
        self.against = if rest == 0 {
            Against::Before
        } else {
            Against::Rest
        };
    }

    pub fn add(&mut self, part: Part, shown: &Shown) {
        let side = self.side(part);
        side.member_hours += shown.connected.as_secs_f64() / 3_600.0;
        side.disconnects = side.disconnects.saturating_add(shown.disconnects);
        side.reconnects = side.reconnects.saturating_add(shown.reconnects);
        for sample in &shown.rtt {
            side.rtt.resize(histogram::BUCKETS, 0);
            side.rtt[histogram::bucket(*sample)] += 1;
        }
    }

    /// So many members of a part showed round trips since its owner began to watch the phase: who shows
    /// none is no draw of their distribution. An owner that starts again may see the same ones, so counts
    /// do not add up.
    pub fn timed(&mut self, part: Part, members: u32) {
        let side = self.side(part);
        side.members = side.members.max(members);
    }

    fn side(&mut self, part: Part) -> &mut Side {
        match part {
            Part::Candidate => &mut self.candidate,
            Part::Rest => &mut self.rest,
        }
    }

    #[must_use]
    pub fn evidence(&self) -> Evidence {
        let old = match self.against {
            Against::Rest => &self.rest,
            Against::Before => &self.before,
        };
        Evidence {
            candidate: self.candidate.clone(),
            old: old.clone(),
            against: self.against,
        }
    }
}

/// The rest of a later phase is a part of the rest of an earlier one, so members do not add up.
fn merge(sum: &mut Side, side: &Side) {
    sum.members = sum.members.max(side.members);
    sum.member_hours += side.member_hours;
    sum.disconnects = sum.disconnects.saturating_add(side.disconnects);
    sum.reconnects = sum.reconnects.saturating_add(side.reconnects);
    if sum.rtt.len() < side.rtt.len() {
        sum.rtt.resize(side.rtt.len(), 0);
    }
    for (sum, count) in sum.rtt.iter_mut().zip(&side.rtt) {
        *sum = sum.saturating_add(*count);
    }
}

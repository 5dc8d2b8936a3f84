//! Silence of many that is told as one.
//!
//! A scope (the whole fleet, a group) is out while much less arrives from it than its sessions owe. Other than
//! a [`crate::hold`], an outage keeps no verdict back: the rest of the fleet shows that the server hears.
//! Sessions that end owe nothing any more, so that an outage which became permanent ends by itself and the
//! next one is measured against those that are left. Where connections break before anybody is silent, what
//! those owe that do not come back is added for a while, see [`Outage::lost`].

use std::time::Duration;

use crate::expectation::Expectation;
use crate::hearing::{Counts, Hearing, Share};
use crate::hold::Evidence;
use crate::moment::Moment;

/// An outage ends when this share of what is owed arrives.
const ENDS_FROM: f64 = 0.9;
/// How finely a look-back is met: to 1/16.
const FINENESS: u32 = 16;

/// Messages owed in a look-back by members that were judged without a session. They fade as
/// `exp(−age / look-back)`, and are gone a look-back after the last of them.
#[derive(Debug, Clone, Copy, Default)]
struct Absent {
    owed: f64,
    last: Moment,
}

impl Absent {
    fn owed(&self, now: Moment, look_back: Duration) -> f64 {
        let age = now.since(self.last);
        if age >= look_back {
            return 0.0;
        }
        self.owed * (-age.as_secs_f64() / look_back.as_secs_f64()).exp()
    }

    fn add(&mut self, now: Moment, look_back: Duration, owed: f64) {
        self.owed = self.owed(now, look_back) + owed;
        self.last = now;
    }
}

/// Whether one scope is out.
#[derive(Debug, Clone)]
pub struct Outage {
    below: f64,
    hearing: Hearing,
    absent: Absent,
    /// Of the last call.
    now: Moment,
    /// While it is out: how far to look back.
    out: Option<Duration>,
}

impl Outage {
    /// Begins when less than `below` (0 … 1) of what is owed arrives.
    #[must_use]
    pub fn new(below: f64) -> Self {
        Self {
            below,
            hearing: Hearing::new(FINENESS),
            absent: Absent::default(),
            now: Moment::ZERO,
            out: None,
        }
    }

    /// To be called about once a second. True when the outage ended.
    pub fn sample(&mut self, now: Moment, counts: Counts) -> bool {
        self.now = now;
        self.hearing.sample(now, counts);
        let Some(look_back) = self.out else {
            return false;
        };
        let over = !self.share(look_back).is_below(ENDS_FROM);
        if over {
            self.out = None;
        }
        over
    }

    /// A member has been silent for too long; `look_back` is its own
    /// ([`crate::Expectation::look_back`]). Returns why the whole scope is out when that begins with it.
    pub fn missed(&mut self, look_back: Duration) -> Option<Evidence> {
        if self.out.is_some() {
            return None;
        }
        let share = self.share(look_back);
        share.is_below(self.below).then(|| {
            self.out = Some(look_back);
            Evidence { look_back, share }
        })
    }

    /// A member whose session had broken did not come back in time. To be followed by [`Self::missed`].
    pub fn lost(&mut self, now: Moment, expectation: &Expectation) {
        self.now = now;
        let owed = expectation.owed_in_look_back();
        self.absent.add(now, expectation.look_back, owed);
    }

    fn share(&self, look_back: Duration) -> Share {
        let mut share = self.hearing.over(look_back);
        share.owed += self.absent.owed(self.now, look_back);
        share
    }
}

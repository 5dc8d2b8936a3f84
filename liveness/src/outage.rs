//! Silence of many that is told as one.
//!
//! A scope (the whole fleet, a group) is out while much less arrives from it than its sessions owe. Other than
//! a [`crate::hold`], an outage keeps no verdict back: the rest of the fleet shows that the server hears.
//! Sessions that end owe nothing any more, so that an outage which became permanent ends by itself and the
//! next one is measured against those that are left.

use std::time::Duration;

use crate::hearing::{Counts, Hearing};
use crate::hold::Evidence;
use crate::moment::Moment;

/// Fewer owed messages prove nothing.
const OWED_LEAST: f64 = 20.0;
/// An outage ends when this share of what is owed arrives.
const ENDS_FROM: f64 = 0.9;
/// How finely a look-back is met: to 1/16.
const FINENESS: u32 = 16;

/// Whether one scope is out.
#[derive(Debug, Clone)]
pub struct Outage {
    below: f64,
    hearing: Hearing,
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
            out: None,
        }
    }

    /// To be called about once a second. True when the outage ended.
    pub fn sample(&mut self, now: Moment, counts: Counts) -> bool {
        self.hearing.sample(now, counts);
        let Some(look_back) = self.out else {
            return false;
        };
        let share = self.hearing.over(look_back);
        let over = share.owed < OWED_LEAST || share.heard >= share.owed * ENDS_FROM;
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
        let share = self.hearing.over(look_back);
        let out = share.owed >= OWED_LEAST && share.heard < share.owed * self.below;
        out.then(|| {
            self.out = Some(look_back);
            Evidence { look_back, share }
        })
    }
}

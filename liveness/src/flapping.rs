//! Whether an agent loses its sessions again and again.
//!
//! Consecutive counts forget a day of trouble with the first good minute. Here each lost session
//! counts for a window, the less the older it is:
//!
//! ```text
//! score = Σ 1 − age / (2·WINDOW)   over the sessions lost in the last WINDOW
//! ```
//!
//! so a loss counts 1 when it happens and 0.5 when it leaves the window. Flapping begins when the score
//! reaches 2.5 (three losses at most 200 s apart, or any four within the window) and ends when it is below 1
//! (at most one loss in the window). Endings that were planned, or that the server
//! itself was to blame for, are no losses.

use std::collections::VecDeque;
use std::time::Duration;

use crate::moment::{Moment, nanos};

/// How long a loss counts.
pub const WINDOW: Duration = Duration::from_mins(10);
/// Losses that are kept. As many in one window score at least 8, so that forgetting older ones hides
/// nothing.
const KEPT: usize = 16;
/// A fresh loss scores so much; the score is counted in whole numbers.
const UNIT: u64 = 1_000;
const BEGINS_AT: u64 = 2_500;
const ENDS_BELOW: u64 = 1_000;

/// The sessions that one agent lost lately.
#[derive(Debug, Clone, Default)]
pub struct Flapping {
    /// Oldest first, at most [`KEPT`].
    losses: VecDeque<Moment>,
    flapping: bool,
}

impl Flapping {
    /// A session was lost at `now`.
    pub fn lost(&mut self, now: Moment) {
        if self.losses.len() == KEPT {
            self.losses.pop_front();
        }
        self.losses.push_back(now);
    }

    /// Whether the agent flaps, with hysteresis; to be asked after every loss and from time to time.
    pub fn judge(&mut self, now: Moment) -> bool {
        self.losses.retain(|loss| now.since(*loss) < WINDOW);
        let score = self.score(now);
        self.flapping = if self.flapping {
            score >= ENDS_BELOW
        } else {
            score >= BEGINS_AT
        };
        self.flapping
    }

    /// Sessions lost within the last [`WINDOW`], at most 16.
    #[must_use]
    pub fn losses(&self, now: Moment) -> usize {
        let recent = |loss: &&Moment| now.since(**loss) < WINDOW;
        self.losses.iter().filter(recent).count()
    }

    /// In thousandths of a fresh loss.
    fn score(&self, now: Moment) -> u64 {
        let weight = |loss: &Moment| {
            let age = now.since(*loss).min(WINDOW);
            UNIT - nanos(age) / (nanos(WINDOW * 2) / UNIT)
        };
        self.losses.iter().map(weight).sum()
    }
}

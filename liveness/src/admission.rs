//! How many agents a server takes in per second, and when the others may come.
//!
//! A token bucket (as the generic cell rate algorithm, ITU-T I.371) lets a second's worth of agents in at once
//! and then a steady rate. Whoever finds it empty is given a place in a queue that is only a number: its turn
//! comes when all that were turned away before it have had theirs. Nobody has to be remembered, and turned away
//! agents return at the rate at which they can be served.

use std::time::Duration;

use crate::moment::Moment;

/// Turns are told as windows at least this wide, so that they need no clock of their own.
const WINDOW_LEAST: Duration = Duration::from_secs(1);
/// Width of a window in percent of how far it lies ahead.
const WINDOW_PERCENT: u32 = 10;
/// Nobody is sent away for longer; a queue that is longer grows no further.
const WAIT_MOST: Duration = Duration::from_mins(10);

/// What an agent that asks for a session is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    Admitted,
    /// Come back in this window from now on (earliest, latest).
    Later(Duration, Duration),
}

/// The door of one server.
#[derive(Debug, Clone)]
pub struct Admission {
    /// Time that one admission takes at the steady rate.
    each: Duration,
    /// How far admissions may run ahead of the rate.
    ahead: Duration,
    /// When the admissions so far are paid for; at most `ahead` from now.
    paid: Moment,
    /// When the last place in the queue has its turn.
    queue_end: Moment,
}

impl Admission {
    /// `per_s` agents per second, at least 1, as many at once after a second of quiet.
    #[must_use]
    pub fn new(per_s: u64) -> Self {
        let ahead = Duration::from_secs(1);
        Self {
            each: Duration::from_nanos(1_000_000_000 / per_s.max(1)).max(Duration::from_nanos(1)),
            ahead,
            paid: Moment::ZERO,
            queue_end: Moment::ZERO,
        }
    }

    /// An agent asks to be let in.
    pub fn ask(&mut self, now: Moment) -> Entry {
        let paid = self.paid.max(now) + self.each;
        if paid <= now + self.ahead {
            self.paid = paid;
            return Entry::Admitted;
        }
        let turn = self.queue_end.max(now) + self.each;
        self.queue_end = turn.min(now + WAIT_MOST);
        let earliest = self.queue_end.since(now);
        let width = (earliest * WINDOW_PERCENT / 100).max(WINDOW_LEAST);
        Entry::Later(earliest, earliest + width)
    }
}

//! Adaptive mode: patience with a slow path, and more samples while it gets slower.
//!
//! Both ends judge by the last 20 round trips, without the peer's hold time: their median M and their
//! 95th percentile P. One silence lapses twice before anybody is convicted, and never later than at 2·D,
//! so the deadline that was promised stays a bound. An agent whose round trips grow beats twice as often
//! to learn more about them; that never moves a deadline, and never adds load to a server that is slow
//! itself.

use std::time::Duration;

use crate::expectation::Expectation;
use crate::rtt::Window;
use crate::tuning::{INTERVAL_LEAST, Tuning};

/// A server that lags more than this is slow itself: its answers say nothing about the path.
pub const SERVER_LAG_MOST: Duration = Duration::from_millis(100);
/// Silence is tolerated for so many P.
const PATIENCE: u32 = 4;
/// P above so many M means that round trips are growing.
const RISING: u32 = 3;
/// The interval is never below so many P99.
const MARGIN: u32 = 10;

/// How long one silence may last, after what the round trips showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Silence after which the peer is suspect.
    pub suspect_after: Duration,
    /// First lapse, after which it is asked: `J = clamp(4·P, D, 2·D)`.
    pub check_after: Duration,
    /// Second lapse, after which it is convicted: `min(J + max(W, 4·P), 2·D)`. Equal to the first where
    /// the tuning is not adaptive: D.
    pub offline_after: Duration,
}

impl Limits {
    /// How long an agent may be silent whose round trips have this 95th percentile.
    #[must_use]
    pub fn of_agent(expectation: &Expectation, p95: Option<Duration>) -> Self {
        let (check_after, offline_after) = lapses(
            expectation.offline_after,
            expectation.offline_at_most,
            expectation.answer_within,
            p95,
        );
        Self {
            suspect_after: expectation.suspect_after,
            check_after,
            offline_after,
        }
    }
}

/// How long the server may be silent. The agent asks nothing at the first lapse: its PINGs go on anyway.
#[must_use]
pub fn server_dead_after(expectation: &Expectation, p95: Option<Duration>) -> Duration {
    let (_, dead_after) = lapses(
        expectation.server_dead_after,
        expectation.server_dead_at_most,
        expectation.answer_within,
        p95,
    );
    dead_after
}

fn lapses(
    least: Duration,
    most: Duration,
    answer_within: Duration,
    p95: Option<Duration>,
) -> (Duration, Duration) {
    let slow = p95.unwrap_or_default().saturating_mul(PATIENCE);
    let first = slow.max(least).min(most);
    let second = first.saturating_add(answer_within.max(slow)).min(most);
    (first, second)
}

/// How often an agent beats: T, or half of it while its round trips grow.
#[derive(Debug, Clone)]
pub struct Pace {
    trips: Window,
    interval: Duration,
}

impl Pace {
    #[must_use]
    pub fn new(tuning: &Tuning) -> Self {
        Self {
            trips: Window::new(),
            interval: tuning.interval(),
        }
    }

    /// `tuning` is in force from here on, at its own T. The round trips stay: the path is the same.
    pub fn retuned(&mut self, tuning: &Tuning) {
        self.interval = tuning.interval();
    }

    /// The server answered; `server_lag` is what it told of itself. Returns the interval that holds.
    ///
    /// Growing round trips halve T as long as a window of 20 shows them (in fewer, P is the longest). Each
    /// answer after that makes the interval a tenth longer until it is T again. A lagging server is
    /// relieved at once.
    pub fn answered(
        &mut self,
        trip: Option<Duration>,
        server_lag: Duration,
        tuning: &Tuning,
    ) -> Duration {
        let base = tuning.interval();
        let lagging = server_lag > SERVER_LAG_MOST;
        if let Some(trip) = trip.filter(|_| !lagging) {
            self.trips.push(trip);
        }
        if lagging || !tuning.adaptive() {
            self.interval = base;
        } else {
            let longer = self.interval + self.interval / 10;
            let wanted = if self.rising() {
                self.least(tuning).max(base / 2)
            } else {
                longer
            };
            self.interval = wanted.min(base);
        }
        self.interval
    }

    /// What is left between two beats at most, at most T.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// P of the round trips; `None` without any.
    #[must_use]
    pub fn p95(&self) -> Option<Duration> {
        self.trips.p95()
    }

    fn rising(&self) -> bool {
        let (median, p95) = (self.trips.median(), self.trips.p95());
        self.trips.is_full()
            && median
                .zip(p95)
                .is_some_and(|(median, p95)| p95 > median.saturating_mul(RISING))
    }

    fn least(&self, tuning: &Tuning) -> Duration {
        let margin = self.trips.p99().unwrap_or_default().saturating_mul(MARGIN);
        INTERVAL_LEAST.max(tuning.timeout() * 2).max(margin)
    }
}

//! When an agent comes back.
//!
//! Losing an established session and failing to connect are two things. A fleet that lost its sessions
//! together must not return together, so the first attempt is uniform over the spread that the server
//! told. Failing to connect means that the peer is unavailable: exponential backoff, then a breaker that
//! only probes.

use std::time::Duration;

use rand::Rng;

use crate::draw;
use crate::moment::nanos;

/// First retry of the exponential backoff, before jitter.
pub const FIRST: Duration = Duration::from_secs(1);
/// Longest retry of the exponential backoff, before jitter.
pub const CAP: Duration = Duration::from_secs(30);
/// Retry while the breaker is open, before jitter.
pub const BREAKER_PROBE: Duration = Duration::from_mins(1);
/// Jitter in percent of the delay, both ways.
pub const JITTER_PERCENT: u32 = 30;
/// A server's window is obeyed up to this.
pub const TOLD_MOST: Duration = Duration::from_hours(1);

const SPREAD_LEAST: Duration = Duration::from_secs(1);
const SPREAD_MOST: Duration = Duration::from_mins(1);

/// How an agent retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// First delay; it doubles with each attempt.
    pub first: Duration,
    /// Delays grow up to this, jitter comes on top.
    pub cap: Duration,
    /// ± percent of a delay, below 100.
    pub jitter_percent: u32,
    /// Consecutive connect failures that open the breaker.
    pub breaker_after: u32,
    /// Delay while the breaker is open.
    pub breaker_probe: Duration,
    /// A session that lived this long proved stable.
    pub stable_after: Duration,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            first: FIRST,
            cap: CAP,
            jitter_percent: JITTER_PERCENT,
            breaker_after: 10,
            breaker_probe: BREAKER_PROBE,
            stable_after: Duration::from_mins(1),
        }
    }
}

/// The retry state of one agent. Each method returns how long to wait before the next attempt.
#[derive(Debug, Clone)]
pub struct Backoff {
    params: Params,
    /// Next delay of the exponential growth, before jitter.
    delay: Duration,
    connect_failures: u32,
}

impl Backoff {
    #[must_use]
    pub fn new(params: Params) -> Self {
        Self {
            params,
            delay: params.first.min(params.cap),
            connect_failures: 0,
        }
    }

    /// No session came about: refused, unreachable, or silent before Welcome.
    pub fn connect_failed(&mut self, rng: &mut impl Rng) -> Duration {
        self.connect_failures = self.connect_failures.saturating_add(1);
        let grown = self.grow();
        let base = if self.breaker_open() {
            self.params.breaker_probe
        } else {
            grown
        };
        self.jittered(base, rng)
    }

    /// An established session broke after `lived`. `spread` is what Welcome told. One that did not prove
    /// stable keeps the growth going: the later of both delays holds.
    pub fn session_lost(
        &mut self,
        spread: Duration,
        lived: Duration,
        rng: &mut impl Rng,
    ) -> Duration {
        self.connect_failures = 0;
        let spread = draw::between(Duration::ZERO, spread.min(TOLD_MOST), rng);
        if lived >= self.params.stable_after {
            self.stable();
            return spread;
        }
        let grown = self.grow();
        spread.max(self.jittered(grown, rng))
    }

    /// The server named a window (earliest, latest) for the next attempt: uniform inside it, at most
    /// [`TOLD_MOST`].
    pub fn told(&mut self, window: (Duration, Duration), rng: &mut impl Rng) -> Duration {
        self.connect_failures = 0;
        let (earliest, latest) = window;
        draw::between(earliest.min(TOLD_MOST), latest.min(TOLD_MOST), rng)
    }

    /// The server refuses this agent as it is: no growth, the cap at once.
    pub fn at_cap(&mut self, rng: &mut impl Rng) -> Duration {
        self.connect_failures = 0;
        self.delay = self.params.cap;
        self.jittered(self.params.cap, rng)
    }

    /// The present session proved stable: the next failure starts from the first delay.
    pub fn stable(&mut self) {
        *self = Self::new(self.params);
    }

    /// The peer counts as unavailable and is only probed.
    #[must_use]
    pub fn breaker_open(&self) -> bool {
        self.connect_failures >= self.params.breaker_after
    }

    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    fn grow(&mut self) -> Duration {
        let delay = self.delay;
        self.delay = delay.saturating_mul(2).min(self.params.cap);
        delay
    }

    /// Comes after the cap, so that agents at the cap still differ.
    fn jittered(&self, base: Duration, rng: &mut impl Rng) -> Duration {
        let swing = base.saturating_mul(self.params.jitter_percent.min(100)) / 100;
        draw::between(base.saturating_sub(swing), base.saturating_add(swing), rng)
    }
}

/// How long each step of opening a session may take. A server under a storm is slow rather than gone: one
/// that answers just after every time-out would never be reached, so the time grows with each that passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Patience {
    late: u32,
}

impl Patience {
    pub const FIRST: Duration = Duration::from_secs(5);
    pub const MOST: Duration = Duration::from_secs(40);

    /// For each step of the next attempt.
    #[must_use]
    pub fn current(&self) -> Duration {
        let factor = 2_u32.saturating_pow(self.late);
        Self::FIRST.saturating_mul(factor).min(Self::MOST)
    }

    /// A step got no answer in time.
    pub fn ran_out(&mut self) {
        self.late = self.late.saturating_add(1);
    }

    /// A session came about.
    pub fn paid_off(&mut self) {
        self.late = 0;
    }
}

/// What Welcome tells: the time over which all sessions of this server could return at the rate that it
/// admits. At least 1 s, at most a minute and half of the deadline, so that spreading alone makes nobody
/// offline.
#[must_use]
pub fn reconnect_spread(sessions: u64, admission_per_s: u64, deadline: Duration) -> Duration {
    let spread = admission(sessions, admission_per_s).clamp(SPREAD_LEAST, SPREAD_MOST);
    tolerable(spread, deadline)
}

/// What an agent makes of a spread that it was told before it was given another deadline.
#[must_use]
pub fn tolerable(spread: Duration, deadline: Duration) -> Duration {
    spread.min(deadline / 2)
}

/// How long agents stay unknown after the server was away: the longest that an agent with default
/// [`Params`] may wait, the longest that an attempt takes which is under way, the time to admit all of them, and one
/// deadline.
#[must_use]
pub fn absence_grace(sessions_before: u64, admission_per_s: u64, deadline: Duration) -> Duration {
    let longest = CAP.max(BREAKER_PROBE);
    (longest + longest * JITTER_PERCENT / 100)
        .saturating_add(Patience::MOST)
        .saturating_add(admission(sessions_before, admission_per_s))
        .saturating_add(deadline)
}

/// Time to admit `sessions`; a rate of zero counts as one per second.
fn admission(sessions: u64, per_s: u64) -> Duration {
    let nanos_each = nanos(Duration::from_secs(1)) / per_s.max(1);
    Duration::from_nanos(sessions.saturating_mul(nanos_each))
}

//! When the agent sends.
//!
//! The first PING follows Welcome at once, the next comes at a uniform point of [0, T), later gaps are
//! drawn from [0.9·T, T]; after a retune to T′ the next comes at a uniform point of [0, T′). So the gap
//! between two messages never exceeds T, and a fleet that was welcomed or retuned together does not beat
//! in step.

use std::time::Duration;

use rand::Rng;

use crate::draw;
use crate::moment::Moment;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No session: nothing is due.
    Idle,
    /// Welcomed: the first PING is due at once.
    First,
    /// The next PING lies at a uniform point, which no other message may move.
    Spread,
    Steady,
}

/// The beat schedule of one agent. It asks to be woken at [`Beats::due`], to send a PING then and to
/// report it, and to report every other message as well.
#[derive(Debug, Clone)]
pub struct Beats {
    interval: Duration,
    phase: Phase,
    due: Moment,
    last_ping: Moment,
    /// Other messages may not delay the next PING beyond this.
    ping_by: Moment,
}

impl Beats {
    /// Nothing is due before [`Beats::welcomed`].
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            phase: Phase::Idle,
            due: Moment::FAR,
            last_ping: Moment::ZERO,
            ping_by: Moment::FAR,
        }
    }

    /// A session opened: a PING is due at once.
    pub fn welcomed(&mut self, now: Moment) {
        self.phase = Phase::First;
        self.due = now;
        self.ping_by = now;
    }

    /// The session ended: nothing is due.
    pub fn ended(&mut self) {
        *self = Self::new(self.interval);
    }

    /// When the next PING is to be sent; [`Moment::FAR`] without a session.
    #[must_use]
    pub fn due(&self) -> Moment {
        self.due
    }

    /// T in force, or what is left of it in adaptive mode.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// A PING was handed to the transport.
    pub fn ping_sent(&mut self, now: Moment, rng: &mut impl Rng) {
        self.last_ping = now;
        self.ping_by = now + self.interval.saturating_mul(2);
        match self.phase {
            Phase::Idle => {}
            Phase::First => {
                self.phase = Phase::Spread;
                self.due = now + draw::below(self.interval, rng);
            }
            Phase::Spread | Phase::Steady => {
                self.phase = Phase::Steady;
                self.due = now + self.gap(rng);
            }
        }
    }

    /// Another message was handed to the transport. It proves life as well as a PING does and re-arms the
    /// timer, yet at least one PING goes every 2·T. It leaves a point drawn from [0, T) where it is:
    /// acks that follow a push to all would otherwise bring the fleet in step.
    pub fn message_sent(&mut self, now: Moment, rng: &mut impl Rng) {
        if self.phase == Phase::Steady {
            self.due = (now + self.gap(rng)).min(self.ping_by);
        }
    }

    /// `interval` is in force from `now` on. The next PING may lie later than the one that was due: the ack
    /// proves life meanwhile, and where it does not go out by that time the caller sends another message
    /// instead, without reporting it as [`Beats::ping_sent`].
    pub fn retuned(&mut self, interval: Duration, now: Moment, rng: &mut impl Rng) {
        self.interval = interval;
        match self.phase {
            Phase::Idle | Phase::First => {}
            Phase::Spread | Phase::Steady => {
                let longest = interval.saturating_mul(2);
                // Retunes in quick succession may not put the PING off for ever.
                self.ping_by = self
                    .ping_by
                    .min(now + longest)
                    .max(self.last_ping + longest);
                self.phase = Phase::Spread;
                self.due = (now + draw::below(interval, rng)).min(self.ping_by);
            }
        }
    }

    /// The gap between two beats is `interval` from here on, at most the T in force: of adaptive mode, see
    /// [`crate::adaptive::Pace`]. A shorter one brings the next PING forward, counted from the last, so that
    /// agents that learn of a slow path together keep their phases.
    pub fn paced(&mut self, interval: Duration, now: Moment, rng: &mut impl Rng) {
        let shorter = interval < self.interval;
        self.interval = interval;
        if shorter && self.phase == Phase::Steady {
            self.due = self.due.min(self.last_ping + self.gap(rng)).max(now);
        }
    }

    fn gap(&self, rng: &mut impl Rng) -> Duration {
        draw::between(
            self.interval.saturating_sub(self.interval / 10),
            self.interval,
            rng,
        )
    }
}

/// What an agent promised: how many PINGs have to have come since its session opened, at least. The first
/// comes at once, then one in every whole T; what was begun of a T when T changed is forgiven.
#[derive(Debug, Clone, Copy)]
pub struct Promise {
    interval: Duration,
    since: Moment,
    before: u64,
}

impl Promise {
    /// A session opened at `now`.
    #[must_use]
    pub fn new(now: Moment, interval: Duration) -> Self {
        Self {
            interval,
            since: now,
            before: 1,
        }
    }

    /// Another T is in force.
    pub fn retuned(&mut self, now: Moment, interval: Duration) {
        if interval != self.interval {
            self.before = self.owed(now);
            (self.since, self.interval) = (now, interval);
        }
    }

    /// PINGs promised until `now`.
    #[must_use]
    pub fn owed(&self, now: Moment) -> u64 {
        self.before + self.missed(now.since(self.since))
    }

    /// Messages promised within a silence of that length.
    #[must_use]
    pub fn missed(&self, silence: Duration) -> u64 {
        let whole = silence.as_nanos() / self.interval.as_nanos().max(1);
        u64::try_from(whole).unwrap_or(u64::MAX)
    }
}

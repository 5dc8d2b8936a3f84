//! The process's two clocks: monotonic for decisions, wall for people and for Postgres.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use fleetbeat_liveness::moment::Moment;
use time::{Duration, OffsetDateTime};

/// Reads both clocks. Copies share one origin, so moments of one process compare.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Source);

#[derive(Clone, Copy, Debug)]
enum Source {
    /// The machine's clocks, the monotonic one counted from here.
    Machine(Instant),
    Hands(&'static Hands),
}

/// Both clocks as somebody sets them by hand, for tests and simulations. The two are independent: a wall
/// clock may step.
#[derive(Debug, Default)]
pub struct Hands {
    monotonic_ns: AtomicU64,
    /// Since 1970.
    wall_us: AtomicI64,
}

impl Clock {
    /// A clock whose origin is this call.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the monotonic clock"
    )]
    pub fn start() -> Self {
        Self(Source::Machine(Instant::now()))
    }

    /// A clock that shows what `hands` were set to last.
    #[must_use]
    pub fn by_hand(hands: &'static Hands) -> Self {
        Self(Source::Hands(hands))
    }

    /// Time since the origin on the monotonic clock.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the monotonic clock"
    )]
    pub fn now(&self) -> Moment {
        match self.0 {
            Source::Machine(origin) => {
                let elapsed = Instant::now().saturating_duration_since(origin);
                Moment::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
            }
            Source::Hands(hands) => Moment::from_nanos(hands.monotonic_ns.load(Ordering::Relaxed)),
        }
    }

    /// Wall time in whole microseconds, as Postgres stores it.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the wall clock"
    )]
    pub fn wall(&self) -> OffsetDateTime {
        match self.0 {
            Source::Machine(_) => {
                let now = OffsetDateTime::now_utc();
                now.replace_nanosecond(now.microsecond() * 1_000)
                    .unwrap_or(now)
            }
            Source::Hands(hands) => {
                let since = Duration::microseconds(hands.wall_us.load(Ordering::Relaxed));
                OffsetDateTime::UNIX_EPOCH.saturating_add(since)
            }
        }
    }
}

impl Hands {
    /// Sets the monotonic clock. One that runs never goes back; nothing here enforces it.
    pub fn set(&self, now: Moment) {
        self.monotonic_ns.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Sets the wall clock, in microseconds since 1970.
    pub fn set_wall(&self, micros: i64) {
        self.wall_us.store(micros, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_show_what_they_were_set_to_and_a_step_of_one_moves_not_the_other() {
        static HANDS: Hands = Hands {
            monotonic_ns: AtomicU64::new(0),
            wall_us: AtomicI64::new(0),
        };
        let clock = Clock::by_hand(&HANDS);
        HANDS.set(Moment::from_nanos(7));
        HANDS.set_wall(-3);
        assert_eq!(clock.now(), Moment::from_nanos(7));
        assert_eq!(
            clock.wall(),
            OffsetDateTime::UNIX_EPOCH - Duration::microseconds(3)
        );
    }
}

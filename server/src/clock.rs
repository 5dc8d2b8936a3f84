//! The process's two clocks: monotonic for decisions, wall for people and for Postgres.

use std::time::Instant;

use fleetbeat_liveness::moment::Moment;
use time::OffsetDateTime;

/// Reads both clocks. Copies share one origin, so moments of one process compare.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is this call.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the monotonic clock"
    )]
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// Time since the origin on the monotonic clock.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the monotonic clock"
    )]
    pub fn now(&self) -> Moment {
        let elapsed = Instant::now().saturating_duration_since(self.origin);
        Moment::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Wall time in whole microseconds, as Postgres stores it.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the wall clock"
    )]
    pub fn wall(&self) -> OffsetDateTime {
        let now = OffsetDateTime::now_utc();
        now.replace_nanosecond(now.microsecond() * 1_000)
            .unwrap_or(now)
    }
}

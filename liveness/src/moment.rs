//! Monotonic time as a plain number.

use std::ops::Add;
use std::time::Duration;

/// Nanoseconds since the origin of the process's monotonic clock. Arithmetic saturates: a far deadline
/// is [`Moment::FAR`], and nothing is earlier than [`Moment::ZERO`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// Later than anything that will happen (584 years).
    pub const FAR: Self = Self(u64::MAX);

    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time that passed since `earlier`; zero when `earlier` is in fact later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment `by` before this one, at least [`Moment::ZERO`].
    #[must_use]
    pub fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

/// Whole nanoseconds, saturating at `u64::MAX`.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let early = Moment::from_nanos(5);
        assert_eq!(early.since(Moment::FAR), Duration::ZERO);
        assert_eq!(early.before(Duration::from_secs(1)), Moment::ZERO);
        assert_eq!(early + Duration::MAX, Moment::FAR);
        assert_eq!(Moment::FAR + Duration::from_nanos(1), Moment::FAR);
        assert_eq!(
            Moment::FAR.since(early).as_nanos(),
            u128::from(u64::MAX) - 5
        );
    }
}

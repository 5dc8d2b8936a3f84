//! The process's clocks: monotonic for decisions, the one that also counts sleep, and the wall clock, which
//! is only told.

use std::fmt;
use std::time::Duration;

use fleetbeat_liveness::Moment;
use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Shorter ones are the noise of clocks and schedulers.
const PAUSE_LEAST: Duration = Duration::from_secs(1);

/// Monotonic time since the process started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::ZERO + self.origin.elapsed()
    }

    /// `moment` as the runtime's timers understand it.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        // A year away is as good as never, and far from what a timer can hold.
        const FAR: Duration = Duration::from_hours(24 * 365);
        self.origin
            + moment
                .since(Moment::ZERO)
                .min(self.now().since(Moment::ZERO) + FAR)
    }
}

/// A time in which this process could not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// The host slept: the boot-time clock counts that, the monotonic one does not.
    Suspended(Duration),
    /// The process did not run although its clock did: it was stopped or starved, or the host slept and
    /// its monotonic clock counts sleep.
    Stalled(Duration),
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Suspended(slept) => write!(f, "the host was suspended for {slept:.3?}"),
            Self::Stalled(stalled) => write!(f, "the agent did not run for {stalled:.3?}"),
        }
    }
}

/// Notices pauses. To be asked at least every [`PAUSE_LEAST`], and before anything is judged.
#[derive(Debug)]
pub(crate) struct PauseWatch {
    ahead: Duration,
    looked: Moment,
}

impl PauseWatch {
    pub(crate) fn start(now: Moment) -> Self {
        Self {
            ahead: boot_time_ahead().unwrap_or_default(),
            looked: now,
        }
    }

    /// The pause since the last call, if there was one.
    pub(crate) fn look(&mut self, now: Moment) -> Option<Pause> {
        let ahead = boot_time_ahead().unwrap_or(self.ahead);
        self.compare(now, ahead)
    }

    /// Leaves the time until now out of account.
    pub(crate) fn skip(&mut self, now: Moment) {
        self.look(now);
    }

    fn compare(&mut self, now: Moment, ahead: Duration) -> Option<Pause> {
        let slept = ahead.saturating_sub(self.ahead);
        let stalled = now.since(self.looked);
        (self.ahead, self.looked) = (ahead, now);
        if slept >= PAUSE_LEAST {
            Some(Pause::Suspended(slept))
        } else {
            (stalled >= PAUSE_LEAST).then_some(Pause::Stalled(stalled))
        }
    }
}

/// Microseconds since the Unix epoch, for the server to compare.
pub(crate) fn wall_unix_us() -> Option<i64> {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).ok()?;
    now.tv_sec()
        .checked_mul(1_000_000)?
        .checked_add(now.tv_nsec() / 1_000)
}

/// `None` where the system has no such clock: sleep then shows as silence.
fn boot_time_ahead() -> Option<Duration> {
    let monotonic = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?);
    let boot = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?);
    Some(boot.saturating_sub(monotonic))
}

#[cfg(test)]
mod tests {
    use super::{Clock, Pause, PauseWatch};
    use fleetbeat_liveness::Moment;
    use std::time::Duration;

    fn ms(ms: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(ms)
    }

    fn watch() -> PauseWatch {
        PauseWatch {
            ahead: Duration::from_secs(7),
            looked: ms(0),
        }
    }

    /// Field reports B06 and B07: a clock that stands still during sleep, and one that does not.
    #[test]
    fn an_hour_of_sleep_between_two_looks_is_told_once_under_either_clock() {
        let hour = Duration::from_hours(1);
        let ahead = Duration::from_millis(7_400);
        let mut watch = watch();
        assert_eq!(watch.compare(ms(100), ahead), None);
        let slept = watch.compare(ms(200), ahead + hour);
        assert_eq!(slept, Some(Pause::Suspended(hour)));
        assert_eq!(watch.compare(ms(300), ahead + hour), None);
        let stalled = watch.compare(ms(300) + hour, ahead + hour);
        assert_eq!(stalled, Some(Pause::Stalled(hour)));
        assert_eq!(watch.compare(ms(400) + hour, ahead + hour), None);
    }

    /// Field report B09.
    #[test]
    fn clocks_that_step_back_are_no_pause() {
        let mut watch = watch();
        assert_eq!(watch.compare(ms(0), Duration::ZERO), None);
        watch.looked = ms(9_000);
        assert_eq!(watch.compare(ms(5), Duration::ZERO), None);
    }

    #[tokio::test]
    async fn the_end_of_time_is_a_timer_that_can_be_set() {
        let clock = Clock::start();
        assert!(clock.instant(Moment::FAR) > clock.instant(clock.now() + Duration::from_hours(24)));
    }
}

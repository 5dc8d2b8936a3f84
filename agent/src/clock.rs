//! The process's clocks: monotonic for decisions, and the one that also counts sleep.

use std::time::Duration;

use fleetbeat_liveness::Moment;
use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Shorter than this is the noise of two clocks read one after the other.
const SLEEP_LEAST: Duration = Duration::from_secs(1);

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

/// Notices that the host was suspended: the boot-time clock counts sleep, the monotonic one does not.
#[derive(Debug)]
pub(crate) struct SleepWatch {
    ahead: Duration,
}

impl SleepWatch {
    pub(crate) fn start() -> Self {
        Self {
            ahead: boot_time_ahead().unwrap_or_default(),
        }
    }

    /// How long the host slept since the last call, when it did.
    pub(crate) fn slept(&mut self) -> Option<Duration> {
        self.compare(boot_time_ahead()?)
    }

    fn compare(&mut self, ahead: Duration) -> Option<Duration> {
        let slept = ahead.saturating_sub(self.ahead);
        self.ahead = ahead;
        (slept >= SLEEP_LEAST).then_some(slept)
    }
}

/// `None` where the system has no such clock: sleep then shows as silence.
fn boot_time_ahead() -> Option<Duration> {
    let monotonic = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?);
    let boot = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?);
    Some(boot.saturating_sub(monotonic))
}

#[cfg(test)]
mod tests {
    use super::{Clock, SleepWatch};
    use fleetbeat_liveness::Moment;
    use std::time::Duration;

    /// Field report B06.
    #[test]
    fn an_hour_of_sleep_between_two_looks_is_told_once() {
        let mut watch = SleepWatch {
            ahead: Duration::from_secs(7),
        };
        assert_eq!(watch.compare(Duration::from_secs(7)), None);
        assert_eq!(watch.compare(Duration::from_millis(7_400)), None);
        let hour = Duration::from_hours(1);
        assert_eq!(
            watch.compare(Duration::from_millis(7_400) + hour),
            Some(hour)
        );
        assert_eq!(watch.compare(Duration::from_millis(7_400) + hour), None);
    }

    #[test]
    fn clocks_that_step_back_are_no_sleep() {
        let mut watch = SleepWatch {
            ahead: Duration::from_secs(7),
        };
        assert_eq!(watch.compare(Duration::ZERO), None);
    }

    #[tokio::test]
    async fn the_end_of_time_is_a_timer_that_can_be_set() {
        let clock = Clock::start();
        assert!(clock.instant(Moment::FAR) > clock.instant(clock.now() + Duration::from_hours(24)));
    }
}

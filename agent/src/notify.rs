//! What the service manager is told.

use std::time::Duration;

use fleetbeat_liveness::Moment;
use sd_notify::NotifyState;

/// The unit counts as started after this even while no server answers.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// The service manager's ear; deaf and free of cost when there is none.
#[derive(Debug)]
pub(crate) struct Notify {
    listening: bool,
    ready_by: Option<Moment>,
    watchdog: Option<Watchdog>,
}

#[derive(Debug)]
struct Watchdog {
    every: Duration,
    due: Moment,
}

impl Notify {
    pub(crate) fn start(now: Moment) -> Self {
        let listening = std::env::var_os("NOTIFY_SOCKET").is_some();
        // A third of the limit leaves room for two that come late.
        let watchdog = sd_notify::watchdog_enabled().map(|limit| Watchdog {
            every: limit / 3,
            due: now,
        });
        Self {
            listening,
            ready_by: listening.then(|| now + READY_WITHIN),
            watchdog,
        }
    }

    /// The agent has a session, or goes on without one for long enough.
    pub(crate) fn ready(&mut self) {
        if self.ready_by.take().is_some() {
            tell(NotifyState::Ready);
        }
    }

    pub(crate) fn status(&self, status: &str) {
        if self.listening {
            tell(NotifyState::Status(status));
        }
    }

    pub(crate) fn stopping(&self) {
        if self.listening {
            tell(NotifyState::Stopping);
        }
    }

    /// To be called by whatever the agent is doing, as proof that it is doing it.
    pub(crate) fn attend(&mut self, now: Moment) {
        if self.ready_by.is_some_and(|by| now >= by) {
            self.ready();
        }
        if let Some(watchdog) = &mut self.watchdog
            && now >= watchdog.due
        {
            watchdog.due = now + watchdog.every;
            tell(NotifyState::Watchdog);
        }
    }

    /// When [`Notify::attend`] has something to do.
    pub(crate) fn due(&self) -> Moment {
        let watchdog = self
            .watchdog
            .as_ref()
            .map_or(Moment::FAR, |watchdog| watchdog.due);
        watchdog.min(self.ready_by.unwrap_or(Moment::FAR))
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "The service manager does not listen");
    }
}

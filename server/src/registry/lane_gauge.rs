use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fleetbeat_liveness::moment::Moment;
use fleetbeat_proto::nanos;

/// How late a lane's own tick may be before its silence is blamed on the lane.
const OVERDUE: Duration = Duration::from_secs(1);

/// What one lane shows of itself. The lane writes, everybody reads; each value is its own truth, so
/// relaxed ordering is enough.
#[derive(Debug, Default)]
pub struct LaneGauge {
    sessions: AtomicU64,
    beats: AtomicU64,
    lag_ns: AtomicU64,
    ticked: AtomicU64,
    stalls: AtomicU64,
    stalled_ns: AtomicU64,
    deaf_since: AtomicU64,
    grace_until: AtomicU64,
    deaf: AtomicBool,
}

impl LaneGauge {
    pub(crate) fn session_opened(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn session_closed(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// The lane's runtime woke at `now`, `lag` later than it asked for.
    pub(crate) fn ticked(&self, now: Moment, lag: Duration) {
        self.lag_ns.store(nanos(lag), Ordering::Relaxed);
        self.ticked.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The lane did not run from `began` on; nobody live then is convicted before `grace_until`.
    pub(crate) fn stalled(&self, began: Moment, length: Duration, grace_until: Moment) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        self.stalled_ns.fetch_add(nanos(length), Ordering::Relaxed);
        self.deaf_since.store(began.as_nanos(), Ordering::Relaxed);
        self.grace_until
            .store(grace_until.as_nanos(), Ordering::Relaxed);
    }

    /// When verdicts on a session opened at `opened` may fall again.
    #[must_use]
    pub fn grace(&self, opened: Moment) -> Option<Moment> {
        let began = Moment::from_nanos(self.deaf_since.load(Ordering::Relaxed));
        let until = Moment::from_nanos(self.grace_until.load(Ordering::Relaxed));
        (until > Moment::ZERO && opened <= began).then_some(until)
    }

    /// True while the lane has not run for so long that the silence of its sessions proves nothing.
    #[must_use]
    pub fn overdue(&self, now: Moment) -> bool {
        now.since(Moment::from_nanos(self.ticked.load(Ordering::Relaxed))) > OVERDUE
    }

    /// Set by the judge when the lane left a nomination unanswered.
    pub(crate) fn set_deaf(&self, deaf: bool) -> bool {
        self.deaf.swap(deaf, Ordering::Relaxed)
    }

    #[must_use]
    pub fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Lateness of the lane's last tick.
    #[must_use]
    pub fn lag(&self) -> Duration {
        Duration::from_nanos(self.lag_ns.load(Ordering::Relaxed))
    }

    /// Stalls over 1 s since the start, and their sum.
    #[must_use]
    pub fn stalls(&self) -> (u64, Duration) {
        let sum = Duration::from_nanos(self.stalled_ns.load(Ordering::Relaxed));
        (self.stalls.load(Ordering::Relaxed), sum)
    }
}

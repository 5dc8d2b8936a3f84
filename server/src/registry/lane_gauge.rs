use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fleetbeat_liveness::deafness::{Deafness, LastMinute};
use fleetbeat_liveness::moment::Moment;
use fleetbeat_proto::nanos;
use parking_lot::Mutex;

use super::owed::Owed;
use super::rtt_meter::bump;

/// How late a lane's own tick may be before its silence is blamed on the lane.
const OVERDUE: Duration = Duration::from_secs(1);
/// A lane that does not run for so long may hold a Hello of anybody.
const BEHIND: Duration = Duration::from_millis(300);
/// A lane whose last tick was so late reads what waits, also on connections that it has not accepted yet,
/// before anybody is convicted.
const READS_FIRST: Duration = Duration::from_millis(100);

/// What one lane shows of itself. The lane writes, everybody reads; each value is its own truth, so
/// relaxed ordering is enough.
#[derive(Debug, Default)]
pub struct LaneGauge {
    sessions: AtomicU64,
    beats: AtomicU64,
    heard: AtomicU64,
    heard_at: AtomicU64,
    /// Those of them that did not come from this host.
    afar: AtomicU64,
    owed: Owed,
    /// What sessions of other hosts owe of it.
    owed_afar: Owed,
    lag_ns: AtomicU64,
    ticked: AtomicU64,
    resumed: AtomicU64,
    deafness: Mutex<Deafness>,
    deaf: AtomicBool,
}

impl LaneGauge {
    pub(crate) fn session_opened(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn session_closed(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }

    /// A valid message, Hello included; `afar` when it came from another host.
    pub(super) fn heard(&self, now: Moment, afar: bool) {
        self.heard_at.store(now.as_nanos(), Ordering::Relaxed);
        bump(&self.heard, 1);
        if afar {
            bump(&self.afar, 1);
        }
    }

    /// What a session counts for changes from one [`super::owed::rate`] to another.
    pub(super) fn owe(&self, from: i64, to: i64, afar: bool) {
        self.owed.change(from, to);
        if afar {
            self.owed_afar.change(from, to);
        }
    }

    /// Messages per second that the lane's sessions owe, and what those of other hosts owe of it.
    #[must_use]
    pub fn owed_per_s(&self) -> (f64, f64) {
        (self.owed.per_s(), self.owed_afar.per_s())
    }

    /// Valid messages since the start, and those of them that came from other hosts.
    #[must_use]
    pub fn received(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.heard), read(&self.afar))
    }

    /// When the last valid message was received.
    #[must_use]
    pub fn heard_at(&self) -> Moment {
        Moment::from_nanos(self.heard_at.load(Ordering::Relaxed))
    }

    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// The lane's runtime woke at `now` and should have woken at `due`. Returns the length of the
    /// stall when there was one.
    pub fn ticked(&self, now: Moment, due: Moment) -> Option<Duration> {
        self.lag_ns.store(nanos(now.since(due)), Ordering::Relaxed);
        let stall = self.deafness.lock().observe(now, due);
        if stall.is_some() {
            self.resumed.store(now.as_nanos(), Ordering::Release);
        }
        self.ticked.store(now.as_nanos(), Ordering::Release);
        stall
    }

    /// Until when nobody is convicted who was live at `opened` and lived through a stall.
    #[must_use]
    pub fn grace_for(&self, opened: Moment) -> Option<Moment> {
        self.deafness.lock().grace_for(opened)
    }

    /// True while the silence of the lane's sessions proves nothing: it has not run for a second, or
    /// resumed less than a second ago and may not have read everything yet.
    #[must_use]
    pub fn overdue(&self, now: Moment) -> bool {
        self.idle(now) > OVERDUE || now < self.settled_at()
    }

    /// True while somebody's message may wait on this lane for longer than a moment.
    #[must_use]
    pub fn behind(&self, now: Moment) -> bool {
        self.idle(now) > BEHIND || self.lag() > READS_FIRST || self.overdue(now)
    }

    /// From when on its last stall hides nothing any more: what waited is read.
    #[must_use]
    pub fn settled_at(&self) -> Moment {
        match self.resumed.load(Ordering::Acquire) {
            0 => Moment::ZERO,
            resumed => Moment::from_nanos(resumed) + OVERDUE,
        }
    }

    /// Time since the lane last ran.
    #[must_use]
    pub fn idle(&self, now: Moment) -> Duration {
        now.since(Moment::from_nanos(self.ticked.load(Ordering::Acquire)))
    }

    /// Length of the stall that a session opened at `opened` lived through and that still counts: the
    /// one that is under way, or one whose grace is not over.
    #[must_use]
    pub fn lived_through(&self, opened: Moment, now: Moment) -> Option<Duration> {
        let under_way = Some(self.idle(now)).filter(|idle| *idle > OVERDUE);
        under_way.max(self.deafness.lock().lived_through(opened, now))
    }

    /// Set by the judge while the lane leaves a nomination unanswered.
    ///
    /// Returns whether that changed anything.
    pub(crate) fn set_deaf(&self, deaf: bool) -> bool {
        self.deaf.swap(deaf, Ordering::Relaxed) != deaf
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

    #[must_use]
    pub fn last_minute(&self, now: Moment) -> LastMinute {
        self.deafness.lock().last_minute(now)
    }

    /// Stalls over 1 s since the start, and their sum.
    #[must_use]
    pub fn stalls(&self) -> (u64, Duration) {
        let deafness = self.deafness.lock();
        (deafness.stalls(), deafness.stalled())
    }
}

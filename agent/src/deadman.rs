//! The watch over the agent's own loops: a process that lives and says nothing is worse than a dead one,
//! which its service manager starts again.
//!
//! Sending, receiving and judging the server do not wait for each other, and each has its time-out. This
//! is the line behind them: a thread of its own that believes nothing but what it is shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use fleetbeat_liveness::{Expectation, Moment};

use crate::clock::Clock;
use crate::state::StuckFile;

/// How often the watch looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A look later than this found the process stopped, and counts from itself.
const LATE: Duration = Duration::from_secs(2);
/// Silences of this many deadlines end the process.
const DEADLINES: u32 = 3;
/// However short the deadline, a busy host is not stuck.
const LEAST: Duration = Duration::from_secs(10);
/// However long the deadline, the main loop turns each second.
const TURN_MOST: Duration = Duration::from_mins(10);
/// The disk has this long to take the reason.
const NOTE_WITHIN: Duration = Duration::from_secs(2);

/// What the agent shows of itself; copies are views of the same.
#[derive(Debug, Clone)]
pub struct Vitals {
    clock: Clock,
    shown: Arc<Shown>,
}

/// Moments and durations in nanoseconds.
#[derive(Debug)]
struct Shown {
    turned: AtomicU64,
    exchanged: AtomicU64,
    /// Longest silence in an open session; [`u64::MAX`] without one.
    silence_most: AtomicU64,
    /// Longest time between two turns of the main loop.
    turn_most: AtomicU64,
}

impl Default for Vitals {
    /// Vitals that nobody watches.
    fn default() -> Self {
        Self {
            clock: Clock::start(),
            shown: Arc::new(Shown {
                turned: AtomicU64::new(0),
                exchanged: AtomicU64::new(0),
                silence_most: AtomicU64::new(u64::MAX),
                turn_most: AtomicU64::new(nanos(TURN_MOST)),
            }),
        }
    }
}

impl Vitals {
    /// Vitals that a thread watches: once they stop, it notes the reason in `file` and calls `end`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn watched(file: StuckFile, end: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        let vitals = Self::default();
        let watched = vitals.clone();
        std::thread::Builder::new()
            .name("deadman".into())
            .spawn(move || {
                let reason = watched.watch();
                tracing::error!(reason, "Agent is stuck and ends itself");
                note(file, reason);
                end();
            })?;
        Ok(vitals)
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The main loop does something, or could.
    pub(crate) fn turned(&self, now: Moment) {
        self.shown.turned.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// A message of the server was taken.
    pub(crate) fn exchanged(&self, now: Moment) {
        self.shown
            .exchanged
            .store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The main loop believes that a session is open, in which this is expected.
    pub(crate) fn in_session(&self, expectation: &Expectation) {
        let (deadline, answer) = (expectation.offline_at_most, expectation.server_dead_at_most);
        let limit = |silence: Duration| (silence * DEADLINES).max(LEAST);
        self.shown
            .silence_most
            .store(nanos(limit(answer)), Ordering::Relaxed);
        self.shown
            .turn_most
            .store(nanos(limit(deadline).min(TURN_MOST)), Ordering::Relaxed);
    }

    pub(crate) fn without_session(&self) {
        self.shown.silence_most.store(u64::MAX, Ordering::Relaxed);
    }

    /// Returns why the agent is stuck, once it is.
    fn watch(&self) -> String {
        let mut watch = Watch::new(self.clock.now());
        loop {
            std::thread::sleep(LOOK_EVERY);
            if let Some(reason) = watch.look(self.clock.now(), &self.shown) {
                return reason;
            }
        }
    }
}

/// Decides from one look to the next.
#[derive(Debug)]
struct Watch {
    looked: Moment,
    /// Nothing before this counts: the whole process stood still until then.
    since: Moment,
}

impl Watch {
    fn new(now: Moment) -> Self {
        Self {
            looked: now,
            since: now,
        }
    }

    fn look(&mut self, now: Moment, shown: &Shown) -> Option<String> {
        if now.since(self.looked) > LATE {
            self.since = now;
        }
        self.looked = now;
        let stale = |at: &AtomicU64, limit: &AtomicU64| {
            let at = Moment::from_nanos(at.load(Ordering::Relaxed)).max(self.since);
            let limit = Duration::from_nanos(limit.load(Ordering::Relaxed));
            Some(now.since(at)).filter(|stale| *stale > limit)
        };
        if let Some(stuck) = stale(&shown.turned, &shown.turn_most) {
            return Some(format!("the agent's main loop stood still for {stuck:.0?}"));
        }
        let silent = stale(&shown.exchanged, &shown.silence_most)?;
        Some(format!(
            "nothing was received for {silent:.0?} in a session that the agent's main loop held for open"
        ))
    }
}

/// Leaves word for the next run. A disk that hangs must not keep this one.
fn note(file: StuckFile, reason: String) {
    let (done, noted) = sync_channel(1);
    let write = move || {
        // Without the note the next run only cannot say why.
        let _ = file.write(&reason);
        let _ = done.send(());
    };
    if std::thread::Builder::new().spawn(write).is_ok() {
        let _ = noted.recv_timeout(NOTE_WITHIN);
    }
}

fn nanos(duration: Duration) -> u64 {
    fleetbeat_proto::nanos(duration)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fleetbeat_liveness::{Moment, Tuning};

    use super::{LOOK_EVERY, Vitals, Watch};

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    /// Looks each second from `from` on, `turning` or not, until the watch ends the agent.
    fn ended_after(vitals: &Vitals, watch: &mut Watch, from: u64, turning: bool) -> Option<u64> {
        (from..from + 2_000).find(|second| {
            if turning {
                vitals.turned(at(*second));
            }
            watch.look(at(*second), &vitals.shown).is_some()
        })
    }

    /// D = 62 s in both directions.
    fn in_session() -> (Vitals, Watch) {
        let vitals = Vitals::default();
        vitals.turned(at(100));
        vitals.exchanged(at(100));
        vitals.in_session(&Tuning::default().expectation());
        (vitals, Watch::new(at(100)))
    }

    /// Field report D11, S19: the main loop stands still.
    #[test]
    fn a_main_loop_that_stands_still_ends_the_agent_after_three_deadlines() {
        let (vitals, mut watch) = in_session();
        let ended = ended_after(&vitals, &mut watch, 101, false);
        assert_eq!(ended, Some(100 + 3 * 62 + 1));
    }

    /// Field report D11, S19: the loop turns and believes in a session in which nothing is received any more.
    #[test]
    fn a_session_without_any_exchange_ends_the_agent_after_three_deadlines() {
        let (vitals, mut watch) = in_session();
        let ended = ended_after(&vitals, &mut watch, 101, true);
        assert_eq!(ended, Some(100 + 3 * 62 + 1));
    }

    #[test]
    fn an_agent_that_turns_without_a_session_waits_for_ever() {
        let (vitals, mut watch) = in_session();
        vitals.without_session();
        assert_eq!(ended_after(&vitals, &mut watch, 101, true), None);
        // But it has to turn.
        assert!(ended_after(&vitals, &mut watch, 2_101, false).is_some());
    }

    #[test]
    fn a_lease_is_judged_by_the_answers_that_it_owes() {
        let (vitals, mut watch) = in_session();
        let lease = Tuning::new(Duration::from_secs(20), 3, Duration::from_secs(2), 10).unwrap();
        vitals.in_session(&lease.expectation());
        let ended = ended_after(&vitals, &mut watch, 101, true);
        assert_eq!(ended, Some(100 + 3 * 602 + 1));
    }

    /// A stop of the whole process is nobody's fault: everything gets its time again.
    #[test]
    fn a_process_that_was_stopped_as_a_whole_is_not_stuck() {
        let (vitals, mut watch) = in_session();
        assert_eq!(watch.look(at(900), &vitals.shown), None);
        let ended = ended_after(&vitals, &mut watch, 901, true);
        assert_eq!(ended, Some(900 + 3 * 62 + 1));
    }

    #[test]
    fn the_shortest_deadline_leaves_a_busy_host_ten_seconds() {
        let (vitals, mut watch) = in_session();
        let shortest = Tuning::new(Duration::from_millis(300), 2, Duration::from_millis(300), 1);
        vitals.in_session(&shortest.unwrap().expectation());
        assert_eq!(ended_after(&vitals, &mut watch, 101, true), Some(111));
        assert_eq!(LOOK_EVERY, Duration::from_secs(1));
    }
}

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fleetbeat_liveness::moment::Moment;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ack_span;
use super::progress::{Outcome, Progress, Refusal, Tally};
use crate::clock::Clock;
use crate::registry::{Answered, Registry, Session};

/// Pushes of which progress is kept.
const KEPT: usize = 32;
/// Who has not answered a push within this is overdue.
const ACK_WITHIN: Duration = Duration::from_secs(30);
/// How often answers are collected.
const PERIOD: Duration = Duration::from_millis(50);

/// Who was sent which revision, and what became of it.
#[derive(Debug)]
pub struct Ledger {
    registry: Arc<Registry>,
    clock: Clock,
    /// Oldest first.
    pushes: Mutex<VecDeque<Kept>>,
    /// An answer is taken and counted before anybody calls the same target lost or superseded. Taken
    /// before `pushes`.
    counting: Mutex<()>,
    counts: Counts,
}

/// Totals since the start, over pushes by operators and those inside Welcome.
#[derive(Debug, Default)]
struct Counts {
    pushed: AtomicU64,
    applied: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug)]
struct Kept {
    progress: Progress<Arc<Session>>,
    opened: Moment,
    published: watch::Sender<Tally>,
}

impl Kept {
    fn publish(&self, now: Moment) {
        let tally = self.progress.tally(now.since(self.opened) > ACK_WITHIN);
        self.published.send_if_modified(|last| {
            let changed = *last != tally;
            *last = tally;
            changed
        });
    }
}

impl Ledger {
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        let clock = registry.clock();
        Self {
            registry,
            clock,
            pushes: Mutex::default(),
            counting: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// Begins the account of `revision`; the oldest ones are forgotten at the bound.
    pub(super) fn open(&self, revision: u64) {
        let mut pushes = self.pushes.lock();
        while pushes.len() >= KEPT {
            pushes.pop_front();
        }
        let progress = Progress::new(revision);
        let published = watch::Sender::new(progress.tally(false));
        pushes.push_back(Kept {
            progress,
            opened: self.clock.now(),
            published,
        });
    }

    /// `session` is about to be sent `revision`: an answer may come before the push returns.
    pub(super) fn expect(&self, revision: u64, session: &Arc<Session>) {
        self.with(revision, |progress| {
            progress.expect(session.id, Arc::clone(session));
        });
    }

    /// The session needed nothing after all.
    pub(super) fn withdraw(&self, revision: u64, session: &Session) {
        self.with(revision, |progress| progress.withdraw(session.id));
    }

    /// The session was sent `revision`: what it still owed for older ones will not be answered.
    pub(super) fn sent(&self, revision: u64, session: &Arc<Session>) {
        self.counts.pushed.fetch_add(1, Ordering::Relaxed);
        let _counting = self.counting.lock();
        // What was answered before the push counts as answered.
        self.collect(session);
        for kept in self.pushes.lock().iter_mut() {
            if kept.progress.revision() < revision {
                kept.progress.settle(session.id, Outcome::Superseded);
            }
        }
    }

    /// Every target of `revision` is known.
    pub(super) fn seal(&self, revision: u64) {
        self.with(revision, Progress::seal);
        self.publish();
    }

    /// Progress of `revision`, and each change of it; `None` when it is not kept.
    #[must_use]
    pub fn watch(&self, revision: u64) -> Option<watch::Receiver<Tally>> {
        let pushes = self.pushes.lock();
        let kept = pushes
            .iter()
            .rev()
            .find(|kept| kept.progress.revision() == revision)?;
        Some(kept.published.subscribe())
    }

    /// Pushes sent by operators' changes, answers that applied, answers that refused; since the start.
    #[must_use]
    pub fn totals(&self) -> (u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            read(&self.counts.pushed),
            read(&self.counts.applied),
            read(&self.counts.refused),
        )
    }

    /// Collects answers and notices ended sessions until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut answered = Vec::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => self.sweep(&mut answered),
            }
        }
    }

    fn sweep(&self, answered: &mut Vec<Arc<Session>>) {
        self.registry.take_answered(answered);
        for session in answered.drain(..) {
            let _counting = self.counting.lock();
            self.collect(&session);
        }
        for (revision, session) in self.ended() {
            let _counting = self.counting.lock();
            // It may have answered just before it ended.
            self.collect(&session);
            self.with(revision, |progress| {
                progress.settle(session.id, Outcome::Lost);
            });
        }
        self.publish();
    }

    fn ended(&self) -> Vec<(u64, Arc<Session>)> {
        let pushes = self.pushes.lock();
        let waiting = pushes.iter().flat_map(|kept| {
            kept.progress
                .waiting()
                .map(|(_, session)| (kept.progress.revision(), session))
        });
        waiting
            .filter(|(_, session)| session.ending().is_some())
            .map(|(revision, session)| (revision, Arc::clone(session)))
            .collect()
    }

    /// Needs `counting`.
    fn collect(&self, session: &Session) {
        for answer in session.take_answers() {
            self.settle(session, answer);
        }
    }

    fn settle(&self, session: &Session, answer: Answered) {
        ack_span::record(session, &answer, self.clock.wall());
        let outcome = if answer.refusal.is_empty() {
            self.counts.applied.fetch_add(1, Ordering::Relaxed);
            Outcome::Applied { took: answer.took }
        } else {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            Outcome::Refused(Refusal {
                agent_id: session.agent.id,
                agent_name: session.agent.facts().name.clone(),
                reason: answer.refusal,
            })
        };
        self.with(answer.revision, |progress| {
            progress.settle(session.id, outcome);
        });
    }

    fn with(&self, revision: u64, act: impl FnOnce(&mut Progress<Arc<Session>>)) {
        let mut pushes = self.pushes.lock();
        let kept = pushes
            .iter_mut()
            .rev()
            .find(|kept| kept.progress.revision() == revision);
        if let Some(kept) = kept {
            act(&mut kept.progress);
        }
    }

    fn publish(&self) {
        let now = self.clock.now();
        for kept in self.pushes.lock().iter() {
            if !kept.published.borrow().done {
                kept.publish(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fleetbeat_liveness::retune::Revised;
    use fleetbeat_liveness::tuning::Tuning;

    use super::*;
    use crate::clock::Hands;
    use crate::registry::{Opening, Rates};

    /// Not acknowledged in time is an outcome of its own, told without anything else happening.
    #[test]
    fn who_does_not_answer_a_push_is_overdue_after_30_s() {
        let hands: &'static Hands = Box::leak(Box::default());
        let registry = Arc::new(Registry::new(Clock::by_hand(hands), 1, Rates::default()));
        let session = registry.open(Opening::trial([1; 16])).unwrap().session;
        let ledger = Ledger::new(Arc::clone(&registry));
        ledger.open(7);
        ledger.expect(7, &session);
        let pushed = Revised {
            revision: 7,
            tuning: Tuning::default().with_adaptive(true).unwrap(),
        };
        assert!(registry.push(&session, pushed, ""));
        ledger.sent(7, &session);
        ledger.seal(7);
        let told = ledger.watch(7).unwrap();
        let at = |seconds| {
            hands.set(Moment::ZERO + Duration::from_secs(seconds));
            ledger.sweep(&mut Vec::new());
            let tally = told.borrow();
            (tally.waiting, tally.overdue, tally.done)
        };
        assert_eq!(at(30), (1, 0, false));
        assert_eq!(at(31), (1, 1, false));
    }
}

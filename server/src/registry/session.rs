use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fleetbeat_liveness::adaptive::Limits;
use fleetbeat_liveness::beat::Promise;
use fleetbeat_liveness::expectation::Expectation;
use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::grounds::Heard;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::retune::{Answer, Effect, Outcome, Retune, Revised};
use fleetbeat_liveness::rtt;
use fleetbeat_proto::nanos;
use fleetbeat_proto::v1::{CloseReason, TuningPush};
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use time::OffsetDateTime;
use uuid::Uuid;

use super::dirty::Mark;
use super::owed::rate;
use super::rtt_meter::{RttMeter, bump};
use super::vitals::Vitals;
use super::{Agent, GroupMeter, LaneGauge, Link, Outbox};

/// One stream of one agent, from Hello to its close.
///
/// The session's own task is the only writer of what a heartbeat changes; everybody may read it.
#[derive(Debug)]
pub struct Session {
    pub id: Uuid,
    pub agent: Arc<Agent>,
    pub fence: Fence,
    pub lane: usize,
    pub address: String,
    pub opened: Moment,
    pub opened_wall: OffsetDateTime,
    pub outbox: Arc<Outbox>,
    pub link: Arc<Link>,
    pub(super) meter: Arc<GroupMeter>,
    pub(super) gauge: Arc<LaneGauge>,
    /// It comes from another host.
    afar: bool,
    heard: AtomicU64,
    pinged: AtomicU64,
    beats: AtomicU64,
    rtt: RttMeter,
    pub vitals: Vitals,
    /// W of the tuning that the agent runs, nanoseconds.
    late_above: AtomicU64,
    /// Every how many PINGs one is answered.
    pong_every: AtomicU64,
    offline_after: AtomicU64,
    /// When the push was made that waits for its answer; 0 without one.
    pushed: AtomicU64,
    tuning: Mutex<TuningState>,
    /// What it counts for in what its lane and group are owed.
    owes: AtomicI64,
    /// The agent is not counted as online: the next message has to say so.
    attention: AtomicBool,
    /// When the agent was heard last before that.
    silent_since: AtomicU64,
    /// When the judge asked for a conviction; 0 while it did not.
    nominated: AtomicU64,
    /// When it should have; 0 when something kept it back.
    due: AtomicU64,
    ending: OnceLock<Ending>,
    waker: AtomicWaker,
    pub(super) answered: Mark,
}

/// Why and when a session ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    pub reason: CloseReason,
    pub detail: String,
    /// The agent means to be back within this time.
    pub back_within: Option<Duration>,
}

/// One answer of an agent to a push.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    pub revision: u64,
    /// Empty when the agent applied it.
    pub refusal: String,
    pub took: Duration,
    pub traceparent: String,
}

/// Two-phase tuning of this session, and the answers that wait for the ledger.
#[derive(Debug)]
struct TuningState {
    retune: Retune,
    promise: Promise,
    acknowledged: Option<Revised>,
    pushed: Option<Pushed>,
    answers: Vec<Answered>,
    refused: Option<(u64, String)>,
}

#[derive(Debug)]
struct Pushed {
    revision: u64,
    at: Moment,
    traceparent: String,
}

/// Answers held for the ledger at most; it takes them many times a second.
const ANSWERS: usize = 8;

/// Totals since the session opened, and the extremes since they were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub beats: u64,
    pub rtt_count: u64,
    pub rtt_sum_ns: u64,
    pub late: u64,
}

pub(super) struct Opened {
    pub id: Uuid,
    pub agent: Arc<Agent>,
    pub fence: Fence,
    pub lane: usize,
    pub address: String,
    pub ip: IpAddr,
    pub now: Moment,
    pub wall: OffsetDateTime,
    pub outbox: Arc<Outbox>,
    pub link: Arc<Link>,
    pub meter: Arc<GroupMeter>,
    pub gauge: Arc<LaneGauge>,
    /// What the agent runs until it answers a push.
    pub in_force: Revised,
    /// The same, when the agent told it.
    pub acknowledged: Option<Revised>,
    /// What it refused before and is not sent again.
    pub refused: Option<(u64, String)>,
}

impl Session {
    pub(super) fn open(opened: Opened) -> Arc<Self> {
        let retune = Retune::new(opened.in_force);
        let afar = afar(opened.ip, opened.link.local());
        opened.gauge.heard(opened.now, afar);
        let session = Arc::new(Self {
            id: opened.id,
            agent: opened.agent,
            fence: opened.fence,
            lane: opened.lane,
            address: opened.address,
            opened: opened.now,
            opened_wall: opened.wall,
            outbox: opened.outbox,
            link: opened.link,
            meter: opened.meter,
            gauge: opened.gauge,
            afar,
            heard: AtomicU64::new(opened.now.as_nanos()),
            pinged: AtomicU64::new(opened.now.as_nanos()),
            beats: AtomicU64::new(0),
            rtt: RttMeter::default(),
            vitals: Vitals::default(),
            late_above: AtomicU64::new(0),
            pong_every: AtomicU64::new(1),
            offline_after: AtomicU64::new(0),
            pushed: AtomicU64::new(0),
            tuning: Mutex::new(TuningState {
                retune,
                promise: Promise::new(opened.now, opened.in_force.tuning.interval()),
                acknowledged: opened.acknowledged,
                pushed: None,
                answers: Vec::new(),
                refused: opened.refused,
            }),
            owes: AtomicI64::new(0),
            attention: AtomicBool::new(false),
            silent_since: AtomicU64::new(0),
            nominated: AtomicU64::new(0),
            due: AtomicU64::new(0),
            ending: OnceLock::new(),
            waker: AtomicWaker::new(),
            answered: Mark::default(),
        });
        session.publish(&session.tuning.lock().retune);
        session.link.carry(&session);
        session
    }

    // ------------------------------------------------ the beat (the session's own task)

    /// A valid message of this kind arrived at `now`. True when the agent is not counted as online and somebody
    /// has to be told that it is back.
    pub fn heard(&self, now: Moment, kind: Heard) -> bool {
        self.vitals.heard(kind);
        self.heard.store(now.as_nanos(), Ordering::Release);
        self.gauge.heard(now, self.afar);
        self.attention.load(Ordering::Acquire)
    }

    /// The message was a PING; `rtt` is the sample it brought.
    pub fn beat(&self, now: Moment, rtt: Option<Duration>) {
        self.pinged.store(now.as_nanos(), Ordering::Relaxed);
        bump(&self.beats, 1);
        self.gauge.beat();
        self.meter.beat();
        if let Some(rtt) = rtt {
            let late = nanos(rtt) > self.late_above.load(Ordering::Relaxed);
            self.rtt.sample(rtt, late);
            self.meter.rtt(rtt);
        }
    }

    // ------------------------------------------------ what everybody may ask

    #[must_use]
    pub fn last_heard(&self) -> Moment {
        Moment::from_nanos(self.heard.load(Ordering::Acquire))
    }

    #[must_use]
    pub fn last_pinged(&self) -> Moment {
        Moment::from_nanos(self.pinged.load(Ordering::Relaxed))
    }

    /// The only deadlines that count for this session.
    #[must_use]
    pub fn expectation(&self) -> Expectation {
        self.tuning.lock().retune.expectation()
    }

    /// How long this agent may be silent, after what its round trips showed.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let expectation = self.expectation();
        let p95 = expectation.adaptive().then(|| self.rtt_window().p95());
        Limits::of_agent(&expectation, p95.flatten())
    }

    /// D, without a lock.
    #[must_use]
    pub fn offline_after(&self) -> Duration {
        Duration::from_nanos(self.offline_after.load(Ordering::Acquire))
    }

    #[must_use]
    pub fn totals(&self) -> Totals {
        let (rtt_count, rtt_sum_ns, late) = self.rtt.totals();
        Totals {
            beats: self.beats.load(Ordering::Acquire),
            rtt_count,
            rtt_sum_ns,
            late,
        }
    }

    /// Shortest and longest round trip since the last call, nanoseconds; `None` without samples.
    pub fn take_rtt_extremes(&self) -> Option<(u64, u64)> {
        self.rtt.take_extremes()
    }

    /// The last round trips, at most 20.
    #[must_use]
    pub fn rtt_window(&self) -> rtt::Window {
        self.rtt.window()
    }

    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.get()
    }

    /// When the silence began for which the agent was not counted as online last.
    pub(super) fn silent_since(&self) -> Moment {
        Moment::from_nanos(self.silent_since.load(Ordering::Relaxed))
    }

    pub(super) fn promise(&self) -> Promise {
        self.tuning.lock().promise
    }

    /// For how long the last push has waited for its answer; zero when none waits.
    pub(super) fn unanswered(&self, now: Moment) -> Duration {
        match self.pushed.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            pushed => now.since(Moment::from_nanos(pushed)),
        }
    }

    /// What the agent acknowledged last, here or before; `None` when it never did.
    #[must_use]
    pub fn acknowledged(&self) -> Option<Revised> {
        self.tuning.lock().acknowledged
    }

    /// What the agent is sure to run while no push waits.
    #[must_use]
    pub fn in_force(&self) -> Revised {
        *self.tuning.lock().retune.applied()
    }

    /// The push that waits for its answer.
    #[must_use]
    pub fn waiting_for(&self) -> Option<Revised> {
        self.tuning.lock().retune.waiting().copied()
    }

    /// The revision that the agent refused last and why, until it applies another.
    #[must_use]
    pub fn refused(&self) -> Option<(u64, String)> {
        self.tuning.lock().refused.clone()
    }

    /// Whether the PING with this number is to be answered: every k-th is, for the smallest k that
    /// the agent may be running, and the first.
    #[must_use]
    pub fn answers(&self, seq: u64) -> bool {
        let every = self.pong_every.load(Ordering::Relaxed).max(1);
        seq == 1 || seq.is_multiple_of(every)
    }

    // ------------------------------------------------ retuning

    /// Sends `revised` unless it is what the agent runs or was sent last. The deadlines are raised
    /// before the push becomes visible. True when something was sent.
    pub fn push(&self, revised: Revised, traceparent: &str, now: Moment) -> bool {
        let mut state = self.tuning.lock();
        let newest = *state.retune.waiting().unwrap_or(state.retune.applied());
        let refused = state
            .refused
            .as_ref()
            .is_some_and(|(revision, _)| *revision == revised.revision);
        if self.ending().is_some() || newest.tuning == revised.tuning || refused {
            return false;
        }
        state.retune.push(revised);
        self.publish(&state.retune);
        self.pushed.store(now.as_nanos().max(1), Ordering::Relaxed);
        state.pushed = Some(Pushed {
            revision: revised.revision,
            at: now,
            traceparent: traceparent.to_owned(),
        });
        self.outbox.tuning(push_message(revised, traceparent));
        drop(state);
        self.link.apply_socket_options();
        true
    }

    /// Raises the deadlines for a push that travels inside Welcome.
    ///
    /// `None` when a later push overtook it: that one is in the outbox, behind Welcome.
    pub(super) fn push_in_welcome(&self, revised: Revised, now: Moment) -> Option<TuningPush> {
        let mut state = self.tuning.lock();
        let overtaken = |newest: &Revised| newest.revision >= revised.revision;
        if state.retune.waiting().is_some_and(overtaken) {
            return None;
        }
        state.retune.push(revised);
        self.publish(&state.retune);
        self.pushed.store(now.as_nanos().max(1), Ordering::Relaxed);
        let traceparent = String::new();
        state.pushed = Some(Pushed {
            revision: revised.revision,
            at: now,
            traceparent,
        });
        Some(push_message(revised, ""))
    }

    /// Takes the agent's answer to a push; the deadlines are lowered only when it answers the newest.
    /// Returns the answer when it settles something, for the journal.
    pub(super) fn answer(&self, answer: Answer, reason: &str, now: Moment) -> Option<Answered> {
        let mut state = self.tuning.lock();
        let refused = answer.outcome == Outcome::Refused;
        let revision = answer.revision;
        match state.retune.answer(answer) {
            Effect::Settled { .. } => self.publish(&state.retune),
            Effect::Superseded | Effect::Unknown => return None,
        }
        // A beat is owed from here on, within the T that is in force.
        self.pinged.fetch_max(now.as_nanos(), Ordering::Relaxed);
        let interval = state.retune.applied().tuning.interval();
        state.promise.retuned(now, interval);
        if state.retune.waiting().is_none() {
            self.pushed.store(0, Ordering::Relaxed);
        }
        state.refused = refused.then(|| (revision, reason.to_owned()));
        if !refused {
            state.acknowledged = Some(*state.retune.applied());
        }
        let pushed = state
            .pushed
            .take()
            .filter(|pushed| pushed.revision == revision)?;
        let answered = Answered {
            revision,
            refusal: if refused {
                reason.to_owned()
            } else {
                String::new()
            },
            took: now.since(pushed.at),
            traceparent: pushed.traceparent,
        };
        if state.answers.len() < ANSWERS {
            state.answers.push(answered.clone());
        }
        drop(state);
        self.link.apply_socket_options();
        Some(answered)
    }

    /// Answers since the last call.
    pub fn take_answers(&self) -> Vec<Answered> {
        std::mem::take(&mut self.tuning.lock().answers)
    }

    fn publish(&self, retune: &Retune) {
        let deadline = retune.expectation().offline_after;
        self.offline_after.store(nanos(deadline), Ordering::Release);
        let timeout = retune.applied().tuning.timeout();
        self.late_above.store(nanos(timeout), Ordering::Relaxed);
        self.pong_every
            .store(retune.pong_every().into(), Ordering::Relaxed);
        self.owe(if self.ending().is_some() {
            0
        } else {
            rate(retune.expectation().interval)
        });
    }

    /// To be called with `tuning` locked.
    fn owe(&self, to: i64) {
        let from = self.owes.swap(to, Ordering::Relaxed);
        self.gauge.owe(from, to, self.afar);
        self.meter.owed().change(from, to);
    }

    /// The session has ended and owes nothing any more.
    pub(super) fn owe_nothing(&self) {
        let _state = self.tuning.lock();
        self.owe(0);
    }

    /// Whether it comes from another host.
    #[must_use]
    pub fn is_afar(&self) -> bool {
        self.afar
    }

    // ------------------------------------------------ nomination and end

    pub(super) fn set_attention(&self, on: bool) {
        if on {
            self.silent_since
                .store(self.heard.load(Ordering::Acquire), Ordering::Relaxed);
        }
        self.attention.store(on, Ordering::Release);
    }

    /// Asks the agent, and the kernel, for a sign of life.
    pub fn ask(&self, nonce: u64, now: Moment) {
        self.vitals.asked_at(now);
        self.outbox.check(nonce);
        self.link.request_account();
    }

    /// Asks the session's own task to convict or to spare itself; `due` is when it should have been asked,
    /// where nothing kept that back.
    ///
    /// Returns what tells this nomination from others.
    pub fn nominate(&self, now: Moment, due: Option<Moment>) -> Moment {
        let due = due.map_or(0, Moment::as_nanos);
        self.due.store(due, Ordering::Relaxed);
        let at = now.max(Moment::from_nanos(1));
        self.nominated.store(at.as_nanos(), Ordering::Release);
        self.link.request_peek();
        at
    }

    /// When a nomination was made that has no answer.
    #[must_use]
    pub fn nominated(&self) -> Option<Moment> {
        let at = self.nominated.load(Ordering::Acquire);
        (at != 0).then(|| Moment::from_nanos(at))
    }

    /// How long after its time a conviction at `now` comes; `None` when something kept it back.
    pub(super) fn lateness(&self, now: Moment) -> Option<Duration> {
        let due = self.due.load(Ordering::Relaxed);
        (due != 0).then(|| now.since(Moment::from_nanos(due)))
    }

    pub fn spare(&self) {
        self.nominated.store(0, Ordering::Release);
    }

    /// The session's task sleeps until its stream, or [`Self::wake`], wakes it.
    pub fn register(&self, waker: &std::task::Waker) {
        self.waker.register(waker);
    }

    pub fn wake(&self) {
        self.waker.wake();
    }

    /// True for the one caller whose ending counts.
    pub(super) fn decide(&self, ending: Ending) -> bool {
        self.ending.set(ending).is_ok()
    }
}

/// Whether `peer` is another host than `local`, which is ours on that connection.
fn afar(peer: IpAddr, local: Option<IpAddr>) -> bool {
    let peer = peer.to_canonical();
    !peer.is_loopback() && local.is_none_or(|local| local.to_canonical() != peer)
}

fn push_message(revised: Revised, traceparent: &str) -> TuningPush {
    TuningPush {
        tuning: Some(revised.into()),
        traceparent: traceparent.to_owned(),
    }
}

use std::collections::BTreeMap;
use std::sync::Arc;

use fleetbeat_liveness::adaptive::Limits;
use fleetbeat_liveness::condition::Condition;
use fleetbeat_liveness::expectation::Expectation;
use fleetbeat_liveness::fence::{Fence, Held};
use fleetbeat_liveness::grounds::Grounds;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::policy::Attributes;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_liveness::verdict::Verdict;
use parking_lot::{Mutex, MutexGuard};
use time::OffsetDateTime;
use uuid::Uuid;

use super::conditions::{Standing, Symptoms};
use super::dirty::Mark;
use super::journal::Journal;
use super::loss::{Departure, Losses, Parting, Toll};
use super::refusal::Refusal;
use super::{Entry, Session, Transition};

/// One agent that this server knows, with or without a session.
#[derive(Debug)]
pub struct Agent {
    pub id: Uuid,
    /// Dense index in the order of acquaintance; the judge keys its wheel by it.
    pub number: usize,
    state: Mutex<State>,
    pub(super) judged: Mark,
    pub(super) recorded: Mark,
    pub(super) flagged: Mark,
}

/// What an agent tells about itself; attributes, never keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub name: String,
    pub group: String,
    pub labels: BTreeMap<String, String>,
    pub agent_version: String,
    pub boot_id: String,
    pub address: String,
}

/// An agent as Postgres remembers it.
#[derive(Clone, Debug)]
pub struct Known {
    pub id: Uuid,
    pub facts: Facts,
    pub fence: Fence,
    pub verdict: Verdict,
    pub since: OffsetDateTime,
    pub last_seen: Option<OffsetDateTime>,
    pub applied: Option<Revised>,
    /// Revision and reason of its newest refusal, unless it applied a newer one.
    pub refused: Option<(u64, String)>,
}

#[derive(Debug)]
pub(super) struct State {
    pub facts: Arc<Facts>,
    /// Highest fence ever seen and, when this run saw it, whose it was.
    pub fence: Option<Fence>,
    pub held: Option<Held>,
    pub session: Option<Arc<Session>>,
    pub verdict: Verdict,
    pub since: OffsetDateTime,
    pub because: String,
    /// What `because` rests on; `None` when an earlier run of the server reached the verdict.
    pub grounds: Option<Arc<Grounds>>,
    /// Of the session that ended last.
    pub last: Option<Last>,
    pub applied: Option<Revised>,
    /// Of the newest push that was answered, when the answer was no.
    pub refusal: Option<Box<Refusal>>,
    /// Last valid message by the wall clock, for people; of a session it is computed.
    pub last_seen: Option<OffsetDateTime>,
    /// When the oldest session opened since which the agent has not beaten: what it does until it beats
    /// again follows from what happened to that one.
    pub returning: Option<Moment>,
    /// When an `unknown` agent has had its fair chance to come back.
    pub decide_at: Option<Moment>,
    /// How the last session ended, while the agent has none.
    pub parting: Option<Box<Parting>>,
    /// The agent left and said when it means to be back.
    pub departure: Option<Box<Departure>>,
    pub losses: Losses,
    pub symptoms: Symptoms,
    /// What is the case beside the verdict, at most one of each kind.
    pub conditions: Vec<Standing>,
    pub journal: Journal,
}

/// What the judge goes on with after a session has ended.
#[derive(Clone, Copy, Debug)]
pub struct Last {
    pub heard: Moment,
    pub opened: Moment,
    pub limits: Limits,
    pub expectation: Expectation,
    pub lane: usize,
}

/// What the judge has to know of one agent.
#[derive(Clone, Debug)]
pub struct Watch {
    pub session: Option<Arc<Session>>,
    pub verdict: Verdict,
    pub last: Option<Last>,
    pub decide_at: Option<Moment>,
    /// By when an agent that left means to be back.
    pub back_by: Option<Moment>,
}

/// What a rollout watches of one agent.
#[derive(Clone, Debug)]
pub struct Presence {
    pub session: Option<Arc<Session>>,
    pub verdict: Verdict,
    /// When the verdict was reached.
    pub since: OffsetDateTime,
    pub toll: Toll,
}

impl Agent {
    pub(super) fn new(id: Uuid, number: usize, now: OffsetDateTime) -> Self {
        let state = State {
            facts: Arc::default(),
            fence: None,
            held: None,
            session: None,
            verdict: Verdict::Unknown,
            since: now,
            because: "never heard of".to_owned(),
            grounds: None,
            last: None,
            applied: None,
            refusal: None,
            last_seen: None,
            returning: None,
            decide_at: None,
            parting: None,
            departure: None,
            losses: Losses::default(),
            symptoms: Symptoms::default(),
            conditions: Vec::new(),
            journal: Journal::default(),
        };
        Self {
            id,
            number,
            state: Mutex::new(state),
            judged: Mark::default(),
            recorded: Mark::default(),
            flagged: Mark::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    #[must_use]
    pub fn facts(&self) -> Arc<Facts> {
        Arc::clone(&self.lock().facts)
    }

    #[must_use]
    pub fn session(&self) -> Option<Arc<Session>> {
        self.lock().session.clone()
    }

    #[must_use]
    pub fn watch(&self) -> Watch {
        let state = self.lock();
        Watch {
            session: state.session.clone(),
            verdict: state.verdict,
            last: state.last,
            decide_at: state.decide_at,
            back_by: state.departure.as_ref().map(|departure| departure.by),
        }
    }

    #[must_use]
    pub fn presence(&self) -> Presence {
        let state = self.lock();
        Presence {
            session: state.session.clone(),
            verdict: state.verdict,
            since: state.since,
            toll: state.losses.toll,
        }
    }

    /// What is the case with it beside its verdict.
    #[must_use]
    pub fn conditions(&self) -> Vec<Condition> {
        let state = self.lock();
        state.conditions.iter().map(|one| one.condition).collect()
    }

    /// Takes the transitions that wait for the recorder, oldest first.
    #[must_use]
    pub fn take_journal(&self) -> Vec<Entry> {
        self.lock().journal.take()
    }
}

impl State {
    /// Whether this session has the agent's seat.
    pub(super) fn seats(&self, session: &Arc<Session>) -> bool {
        self.session
            .as_ref()
            .is_some_and(|seated| Arc::ptr_eq(seated, session))
    }

    /// Changes the verdict and writes it down; false when it stands already.
    pub(super) fn judge(&mut self, to: Verdict, grounds: Grounds, at: OffsetDateTime) -> bool {
        let from = self.verdict;
        if from == to {
            return false;
        }
        self.verdict = to;
        self.since = at;
        let grounds = self.rest_on(grounds);
        self.journal
            .push(at, Transition::Verdict { from, to, grounds });
        true
    }

    /// Explains the verdict by `grounds`.
    pub(super) fn rest_on(&mut self, grounds: Grounds) -> Arc<Grounds> {
        self.because = grounds.to_string();
        let grounds = Arc::new(grounds);
        self.grounds = Some(Arc::clone(&grounds));
        grounds
    }
}

impl Facts {
    /// What policies select on.
    #[must_use]
    pub fn attributes(&self, id: Uuid) -> Attributes {
        Attributes {
            agent_id: id.into_bytes(),
            group: self.group.clone(),
            labels: self.labels.clone(),
        }
    }
}

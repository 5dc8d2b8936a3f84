use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use fleetbeat_liveness::backoff::reconnect_spread;
use fleetbeat_liveness::deafness::Deafness;
use fleetbeat_liveness::fence::{Claim, Fence, Held, InstanceId, claim, claim_without_proof};
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::policy::PolicySet;
use fleetbeat_liveness::retune::{Answer, Revised};
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::{CloseReason, TuningPush};
use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

use super::agent::{Last, State};
use super::{
    Agent, Dirty, Ending, Facts, Farewell, Known, LaneGauge, Link, Meters, Outbox, Session,
    Transition, session,
};
use crate::clock::Clock;

const SHARDS: usize = 64;
/// Agents that one server holds in memory, with or without a session: about 1 KiB each.
const AGENTS_MOST: usize = 1_000_000;
/// When a server that holds as many is asked again.
const FULL_WINDOW: (Duration, Duration) = (Duration::from_mins(5), Duration::from_mins(10));
/// How long a twin is sent away.
const TWIN_PARK: (Duration, Duration) = (Duration::from_mins(5), Duration::from_mins(10));

/// Everybody this server knows.
#[derive(Debug)]
pub struct Registry {
    clock: Clock,
    shards: Vec<Mutex<HashMap<Uuid, Arc<Agent>>>>,
    agents: RwLock<Vec<Arc<Agent>>>,
    lanes: Vec<Arc<LaneGauge>>,
    meters: Meters,
    policies: RwLock<Arc<PolicySet>>,
    /// Agents whose deadline may have moved nearer, or whose session opened or ended.
    judge: Dirty<Agent>,
    /// Agents with transitions to record.
    record: Dirty<Agent>,
    /// Sessions with answers to a push.
    answers: Dirty<Session>,
    sessions: AtomicU64,
    /// Records that wait for Postgres, as agents are told.
    backlog: AtomicU32,
    /// Stalls of the judge: of the whole process, as far as anybody can tell.
    deafness: Mutex<Deafness>,
    /// Reconnects per second that the server is willing to take.
    admission_per_s: u64,
}

/// A Hello, checked for form, that asks for a session.
#[derive(Debug)]
pub struct Opening {
    pub agent_id: Uuid,
    pub instance: InstanceId,
    pub fence: Fence,
    pub facts: Facts,
    /// What the agent says it runs.
    pub applied: Option<Revised>,
    pub volatile_state: bool,
    pub lane: usize,
    pub outbox: Arc<Outbox>,
    pub link: Arc<Link>,
}

/// A session that opened.
#[derive(Debug)]
pub struct Opened {
    pub session: Arc<Session>,
    /// Tuning that Welcome has to carry.
    pub push: Option<TuningPush>,
    pub base: Revised,
    pub reconnect_spread: Duration,
}

/// A Hello that was turned away, and what to tell the agent.
#[derive(Debug)]
pub struct Refused(pub Farewell);

impl Registry {
    #[must_use]
    pub fn new(clock: Clock, lanes: usize, admission_per_s: u64) -> Self {
        Self {
            clock,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            agents: RwLock::default(),
            lanes: (0..lanes.max(1)).map(|_| Arc::default()).collect(),
            meters: Meters::new(lanes),
            policies: RwLock::new(Arc::new(PolicySet::default())),
            judge: Dirty::default(),
            record: Dirty::default(),
            answers: Dirty::default(),
            sessions: AtomicU64::new(0),
            backlog: AtomicU32::new(0),
            deafness: Mutex::default(),
            admission_per_s,
        }
    }

    // ------------------------------------------------ who is known

    #[must_use]
    pub fn get(&self, id: Uuid) -> Option<Arc<Agent>> {
        self.shard(id).lock().get(&id).cloned()
    }

    /// Everybody, in the order of acquaintance.
    #[must_use]
    pub fn agents(&self) -> Vec<Arc<Agent>> {
        self.agents.read().clone()
    }

    /// Agents known from `number` on.
    #[must_use]
    pub fn agents_from(&self, number: usize) -> Vec<Arc<Agent>> {
        self.agents
            .read()
            .get(number..)
            .map(<[_]>::to_vec)
            .unwrap_or_default()
    }

    #[must_use]
    pub fn lanes(&self) -> &[Arc<LaneGauge>] {
        &self.lanes
    }

    #[must_use]
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Live sessions.
    #[must_use]
    pub fn session_count(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// The judge ran at `now` and should have run at `due`. Returns the length of the stall when there
    /// was one.
    pub fn judged_at(&self, now: Moment, due: Moment) -> Option<Duration> {
        self.deafness.lock().observe(now, due)
    }

    /// Until when nobody is convicted who was live at `opened` and lived through a stall of the process.
    #[must_use]
    pub fn grace_for(&self, opened: Moment) -> Option<Moment> {
        self.deafness.lock().grace_for(opened)
    }

    /// Stalls of the whole process.
    #[must_use]
    pub fn deafness(&self) -> Deafness {
        self.deafness.lock().clone()
    }

    /// Records that wait for Postgres: the depth of the work queue that PONG tells.
    #[must_use]
    pub fn backlog(&self) -> u32 {
        self.backlog.load(Ordering::Relaxed)
    }

    pub fn set_backlog(&self, records: u32) {
        self.backlog.store(records, Ordering::Relaxed);
    }

    fn shard(&self, id: Uuid) -> &Mutex<HashMap<Uuid, Arc<Agent>>> {
        let byte = usize::from(id.as_bytes()[15]);
        &self.shards[byte % SHARDS]
    }

    fn meet(&self, id: Uuid) -> Arc<Agent> {
        let mut shard = self.shard(id).lock();
        if let Some(agent) = shard.get(&id) {
            return Arc::clone(agent);
        }
        let mut agents = self.agents.write();
        let agent = Arc::new(Agent::new(id, agents.len(), self.clock.wall()));
        agents.push(Arc::clone(&agent));
        shard.insert(id, Arc::clone(&agent));
        agent
    }

    /// Takes in what Postgres remembers. An agent that was not away already is `unknown` until
    /// `decide_at`; one that opened a session meanwhile keeps it.
    pub fn restore(&self, known: Known, decide_at: Moment) {
        let agent = self.meet(known.id);
        let mut state = agent.lock();
        state.fence = state.fence.max(Some(known.fence));
        if state.session.is_some() || state.last.is_some() {
            return;
        }
        state.facts = Arc::new(known.facts);
        state.applied = known.applied;
        state.last_seen = known.last_seen;
        state.verdict = known.verdict;
        if matches!(
            known.verdict,
            Verdict::Online | Verdict::Suspect | Verdict::Unknown
        ) {
            let because = "the server was away and has not heard of it since".to_owned();
            state.decide_at = Some(decide_at);
            state.judge(Verdict::Unknown, because, self.clock.wall());
            drop(state);
            self.touch(&agent);
        } else {
            "as recorded before the server was away".clone_into(&mut state.because);
        }
    }

    // ------------------------------------------------ policies

    /// The compiled policy set. A session that opens reads it after it is registered, and a change
    /// is stored before live sessions are visited: every session sees the newest, from one or both.
    #[must_use]
    pub fn policies(&self) -> Arc<PolicySet> {
        Arc::clone(&self.policies.read())
    }

    pub fn set_policies(&self, policies: Arc<PolicySet>) {
        *self.policies.write() = policies;
    }

    // ------------------------------------------------ a session opens

    /// Seats a new session, or turns it away. The older session is told after it was replaced.
    pub fn open(&self, opening: Opening) -> Result<Opened, Refused> {
        if self.get(opening.agent_id).is_none() && self.agents.read().len() >= AGENTS_MOST {
            let detail = format!("this server knows {AGENTS_MOST} agents and takes no other");
            let bye = Farewell::new(CloseReason::Shed, detail);
            return Err(Refused(bye.within(FULL_WINDOW.0, FULL_WINDOW.1)));
        }
        let agent = self.meet(opening.agent_id);
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let base = Revised {
            revision: 0,
            tuning: Tuning::default(),
        };
        let told = opening.applied;
        let mut state = agent.lock();
        if let Err(refused) = self.admit(&agent, &mut state, &opening, now) {
            drop(state);
            self.record.mark(&agent, &agent.recorded, agent.number);
            return Err(refused);
        }
        let meter = self.meters.meter(opening.lane, &opening.facts.group);
        let gauge = Arc::clone(&self.lanes[opening.lane]);
        meter.opened();
        gauge.session_opened();
        self.sessions.fetch_add(1, Ordering::Relaxed);
        let session = Session::open(session::Opened {
            id: Uuid::now_v7(),
            agent: Arc::clone(&agent),
            fence: opening.fence,
            lane: opening.lane,
            address: opening.facts.address.clone(),
            now,
            wall,
            outbox: opening.outbox,
            link: opening.link,
            meter,
            gauge,
            in_force: told.unwrap_or(base),
            acknowledged: told,
        });
        let older = self.seat(&mut state, &session, opening.facts, opening.instance);
        drop(state);
        self.touch(&agent);
        if let Some(older) = older {
            let detail = format!("session {} took over", session.fence);
            let bye = Farewell::new(CloseReason::Superseded, detail.as_str());
            self.end(&older, CloseReason::Superseded, &detail, Some(bye));
        }
        let push = self.push_for_welcome(&session, told, now);
        let spread = reconnect_spread(
            self.session_count(),
            self.admission_per_s,
            session.offline_after(),
        );
        Ok(Opened {
            session,
            push,
            base,
            reconnect_spread: spread,
        })
    }

    fn admit(
        &self,
        agent: &Agent,
        state: &mut State,
        opening: &Opening,
        now: Moment,
    ) -> Result<(), Refused> {
        let incumbent_lives = state.session.as_ref().is_some_and(|session| {
            now.since(session.last_heard()) < session.expectation().suspect_after
        });
        let judged = if opening.volatile_state || !incumbent_lives {
            claim_without_proof(state.held.as_ref(), opening.fence, opening.instance)
        } else {
            claim(state.held.as_ref(), opening.fence, opening.instance)
        };
        let below = state.fence.filter(|known| opening.fence <= *known);
        let claim = match (judged, below) {
            (Claim::First | Claim::Takeover, Some(floor)) => Claim::Stale { floor },
            (judged, _) => judged,
        };
        let farewell = match claim {
            Claim::First | Claim::Takeover => return Ok(()),
            Claim::Stale { floor } => Farewell {
                stale_floor: Some(floor),
                ..Farewell::new(
                    CloseReason::Superseded,
                    format!(
                        "fence {} is not above {floor}, which was seen already",
                        opening.fence
                    ),
                )
            },
            Claim::Twins => {
                state.twin_seen = true;
                let detail = format!(
                    "agent {} runs twice as incarnation {}: at {} and at {}; give one of them a \
                     state directory of its own",
                    agent.id, opening.fence.incarnation, state.facts.address, opening.facts.address
                );
                Farewell::new(CloseReason::DuplicateIdentity, detail)
                    .within(TWIN_PARK.0, TWIN_PARK.1)
            }
        };
        let because = farewell.detail.clone();
        let (fence, address) = (opening.fence, opening.facts.address.clone());
        state.journal.push(
            self.clock.wall(),
            Transition::Refused {
                fence,
                address,
                because,
            },
        );
        Err(Refused(farewell))
    }

    fn seat(
        &self,
        state: &mut State,
        session: &Arc<Session>,
        facts: Facts,
        instance: InstanceId,
    ) -> Option<Arc<Session>> {
        let wall = session.opened_wall;
        let (fence, address) = (session.fence, session.address.clone());
        let same_instance = state.held.is_some_and(|held| held.instance == instance);
        state.twin_seen &= same_instance;
        state.held = Some(Held { fence, instance });
        state.fence = Some(fence);
        state.facts = Arc::new(facts);
        state.decide_at = None;
        state.last = None;
        let opened = Transition::SessionOpened {
            session: session.id,
            instance,
            fence,
            address,
        };
        state.journal.push(wall, opened);
        state.judge(Verdict::Online, format!("opened session {fence}"), wall);
        state.session.replace(Arc::clone(session))
    }

    fn push_for_welcome(
        &self,
        session: &Session,
        told: Option<Revised>,
        now: Moment,
    ) -> Option<TuningPush> {
        let policies = self.policies();
        let attributes = session.agent.facts().attributes(session.agent.id);
        let desired = policies.effective(&attributes).tuning;
        let behind = told.is_some_and(|told| {
            told.revision > policies.revision() || told.tuning == desired.tuning
        });
        (!behind).then(|| session.push_in_welcome(desired, now))
    }

    // ------------------------------------------------ a session lives

    /// A message arrived from an agent that was not counted as online.
    pub fn heard_again(&self, session: &Arc<Session>) {
        let agent = &session.agent;
        let mut state = agent.lock();
        if !owns(&state, session) {
            return;
        }
        session.set_attention(false);
        let changed = state.judge(Verdict::Online, "heard again".to_owned(), self.clock.wall());
        drop(state);
        if changed {
            self.touch(agent);
        }
    }

    /// Sends `revised` to a live session; see [`Session::push`].
    pub fn push(&self, session: &Session, revised: Revised, traceparent: &str) -> bool {
        session.push(revised, traceparent, self.clock.now())
    }

    /// Takes the answer to a push. A deadline that became shorter is re-armed at once.
    pub fn answered(&self, session: &Arc<Session>, answer: Answer, reason: &str) {
        let Some(answered) = session.answer(answer, reason, self.clock.now()) else {
            return;
        };
        let mut state = session.agent.lock();
        if owns(&state, session) {
            state.applied = session.acknowledged();
            let what = Transition::TuningAnswered {
                session: session.id,
                revision: answered.revision,
                refusal: answered.refusal,
                took: answered.took,
            };
            state.journal.push(self.clock.wall(), what);
        }
        drop(state);
        self.answers
            .mark(session, &session.answered, session.agent.number);
        self.touch(&session.agent);
    }

    // ------------------------------------------------ a session ends

    /// Ends a session; only the first reason counts. Its own task stops, and writes the end down
    /// with [`Self::settle`], once nothing of it can be counted any more.
    pub fn end(
        &self,
        session: &Arc<Session>,
        reason: CloseReason,
        detail: &str,
        bye: Option<Farewell>,
    ) -> bool {
        let ending = Ending {
            reason,
            detail: detail.to_owned(),
        };
        if !session.decide(ending) {
            return false;
        }
        let agent = &session.agent;
        let mut state = agent.lock();
        if owns(&state, session) {
            self.unseat(&mut state, session, reason, detail);
        }
        drop(state);
        self.touch(agent);
        match bye {
            Some(bye) => session.outbox.bye(bye),
            None => session.outbox.finish(),
        }
        session.wake();
        true
    }

    fn unseat(&self, state: &mut State, session: &Session, reason: CloseReason, detail: &str) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let heard = session.last_heard();
        state.session = None;
        state.applied = session.acknowledged();
        state.last_seen = Some(wall - now.since(heard));
        state.last = Some(Last {
            heard,
            opened: session.opened,
            expectation: session.expectation(),
            lane: session.lane,
        });
        let verdict = match reason {
            CloseReason::Goodbye => Verdict::Left,
            CloseReason::MissedHeartbeats => Verdict::Offline,
            CloseReason::ServerDrain | CloseReason::ServerLost => Verdict::Unknown,
            CloseReason::TransportError
            | CloseReason::PeerGaveUp
            | CloseReason::Superseded
            | CloseReason::SlowConsumer
            | CloseReason::Shed
            | CloseReason::ProtocolError
            | CloseReason::AuthRevoked
            | CloseReason::DuplicateIdentity
            | CloseReason::Unspecified => Verdict::Suspect,
        };
        let because = format!(
            "session {} ended: {}, {detail}",
            session.fence,
            reason.word()
        );
        state.judge(verdict, because, wall);
    }

    /// Writes down the end of a session whose task has stopped.
    pub fn settle(&self, session: &Arc<Session>) {
        let Some(Ending { reason, detail }) = session.ending().cloned() else {
            return;
        };
        session.meter.closed(reason);
        session.gauge.session_closed();
        self.sessions.fetch_sub(1, Ordering::Relaxed);
        let agent = &session.agent;
        let what = Transition::SessionClosed {
            session: Arc::clone(session),
            reason,
            detail,
        };
        agent.lock().journal.push(self.clock.wall(), what);
        self.record.mark(agent, &agent.recorded, agent.number);
    }

    // ------------------------------------------------ what the judge decides

    /// The agent has been silent for T + W. False when it spoke, or another session sat down.
    pub fn suspect(&self, session: &Arc<Session>, because: String) -> bool {
        let mut state = session.agent.lock();
        if !owns(&state, session) {
            return false;
        }
        session.set_attention(true);
        let changed = state.judge(Verdict::Suspect, because, self.clock.wall());
        drop(state);
        self.touch(&session.agent);
        changed
    }

    /// The lane of a live session is deaf: nobody can say.
    pub fn deaf(&self, session: &Arc<Session>) -> bool {
        let mut state = session.agent.lock();
        if !owns(&state, session) {
            return false;
        }
        session.set_attention(true);
        let because = format!(
            "lane {} of the server does not read its sockets",
            session.lane
        );
        let changed = state.judge(Verdict::Unknown, because, self.clock.wall());
        drop(state);
        self.touch(&session.agent);
        changed
    }

    /// An agent without a session did not come back in time.
    pub fn offline(&self, agent: &Arc<Agent>, because: String) -> bool {
        let mut state = agent.lock();
        if state.session.is_some() {
            return false;
        }
        state.decide_at = None;
        let changed = state.judge(Verdict::Offline, because, self.clock.wall());
        drop(state);
        self.touch(agent);
        changed
    }

    // ------------------------------------------------ harvests

    pub fn take_judge_dirty(&self, out: &mut Vec<Arc<Agent>>) {
        self.judge.take(out, |agent| &agent.judged);
    }

    pub fn take_record_dirty(&self, out: &mut Vec<Arc<Agent>>) {
        self.record.take(out, |agent| &agent.recorded);
    }

    pub fn take_answered(&self, out: &mut Vec<Arc<Session>>) {
        self.answers.take(out, |session| &session.answered);
    }

    /// The agent's deadline or verdict moved: judge and recorder look at it.
    pub fn touch(&self, agent: &Arc<Agent>) {
        self.judge.mark(agent, &agent.judged, agent.number);
        self.record.mark(agent, &agent.recorded, agent.number);
    }

    /// Only the judge has to look again.
    pub fn rejudge(&self, agent: &Arc<Agent>) {
        self.judge.mark(agent, &agent.judged, agent.number);
    }
}

fn owns(state: &State, session: &Arc<Session>) -> bool {
    state
        .session
        .as_ref()
        .is_some_and(|seated| Arc::ptr_eq(seated, session))
}

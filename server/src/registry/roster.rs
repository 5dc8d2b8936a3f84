use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fleetbeat_liveness::admission::Admission;
use fleetbeat_liveness::backoff::{absence_grace, reconnect_spread};
use fleetbeat_liveness::deafness::Deafness;
use fleetbeat_liveness::grounds::{Grounds, Trigger};
use fleetbeat_liveness::hearing::Counts;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::policy::PolicySet;
use fleetbeat_liveness::verdict::Verdict;
use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

use super::lateness::Lateness;
use super::refusal::Refusal;
use super::{Agent, Dirty, Incidents, Known, LaneGauge, Meters, Session};
use crate::clock::Clock;

const SHARDS: usize = 64;
/// A revision above this is no revision: nobody retunes so often.
const REVISION_MOST: u64 = 1 << 40;
/// Agents that one server holds in memory, with or without a session: about 1 KiB each.
pub(super) const AGENTS_MOST: usize = 1_000_000;

/// Everybody this server knows.
#[derive(Debug)]
pub struct Registry {
    pub(super) clock: Clock,
    shards: Vec<Mutex<HashMap<Uuid, Arc<Agent>>>>,
    agents: RwLock<Vec<Arc<Agent>>>,
    known: AtomicUsize,
    pub(super) lanes: Vec<Arc<LaneGauge>>,
    pub(super) meters: Meters,
    policies: RwLock<Arc<PolicySet>>,
    /// Agents whose deadline may have moved nearer, or whose session opened or ended.
    pub(super) judge: Dirty<Agent>,
    /// Agents with transitions to record.
    pub(super) record: Dirty<Agent>,
    /// Sessions with answers to a push.
    pub(super) answers: Dirty<Session>,
    /// Agents with a condition that may end by itself.
    pub(super) flagged: Dirty<Agent>,
    pub(super) sessions: AtomicU64,
    /// No session opens any more.
    draining: AtomicBool,
    /// Newest revision that an agent said it runs.
    told: AtomicU64,
    /// Records that wait for Postgres, as agents are told.
    backlog: AtomicU32,
    /// Stalls of the judge, of the whole process as far as anybody can tell, and silences of nearly
    /// everyone.
    deafness: Mutex<Deafness>,
    incidents: Incidents,
    pub(super) lateness: Lateness,
    /// Since when verdicts are held; 0 while they are not.
    held_since: AtomicU64,
    /// Reconnects per second over which lost sessions are spread.
    pub(super) reconnect_per_s: u64,
    pub(super) admission_per_s: u64,
    pub(super) admission: Mutex<Admission>,
    shed: AtomicU64,
}

/// How many agents a server expects and takes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Lost sessions spread their first attempt over sessions / this.
    pub reconnect_per_s: u64,
    /// Sessions opened.
    pub admission_per_s: u64,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            reconnect_per_s: 60,
            admission_per_s: 1_000,
        }
    }
}

impl Registry {
    #[must_use]
    pub fn new(clock: Clock, lanes: usize, rates: Rates) -> Self {
        Self {
            clock,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            agents: RwLock::default(),
            known: AtomicUsize::new(0),
            lanes: (0..lanes.max(1)).map(|_| Arc::default()).collect(),
            meters: Meters::new(lanes),
            policies: RwLock::new(Arc::new(PolicySet::default())),
            judge: Dirty::default(),
            record: Dirty::default(),
            answers: Dirty::default(),
            flagged: Dirty::default(),
            sessions: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            told: AtomicU64::new(0),
            backlog: AtomicU32::new(0),
            deafness: Mutex::default(),
            incidents: Incidents::default(),
            lateness: Lateness::default(),
            held_since: AtomicU64::new(0),
            reconnect_per_s: rates.reconnect_per_s,
            admission_per_s: rates.admission_per_s,
            admission: Mutex::new(Admission::new(rates.admission_per_s)),
            shed: AtomicU64::new(0),
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

    /// What a fleet that loses this server together should spread its return over, whatever the
    /// deadlines of its agents.
    #[must_use]
    pub fn reconnect_spread(&self) -> Duration {
        reconnect_spread(self.session_count(), self.reconnect_per_s, Duration::MAX)
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

    /// As [`LaneGauge::lived_through`], for stalls of the whole process.
    pub(super) fn lived_through(&self, opened: Moment, now: Moment) -> Option<Duration> {
        self.deafness.lock().lived_through(opened, now)
    }

    /// Whether the server itself, or this lane, may have heard nothing of an agent since `since`.
    pub(super) fn deaf_to(&self, since: Moment, lane: usize, now: Moment) -> bool {
        let own = self.lived_through(since, now);
        let stall = own.max(self.lanes[lane].lived_through(since, now));
        stall.is_some() || self.held_since().is_some()
    }

    /// The server heard nearly nobody between the two moments: a grace follows.
    pub fn deaf_between(&self, began: Moment, ended: Moment) {
        self.deafness.lock().deaf(began, ended);
    }

    /// How long agents with the default tuning may take to come back after nobody could, of whom so many had
    /// a session.
    pub(crate) fn fair_chance(&self, sessions: u64) -> Duration {
        let deadline = self.policies().default_tuning().deadline_at_most();
        absence_grace(sessions, self.admission_per_s, deadline)
    }

    /// Whoever is silent may wait with a Hello on a lane that does not run, or did not until just now.
    #[must_use]
    pub(crate) fn behind_anywhere(&self, now: Moment) -> bool {
        self.lanes.iter().any(|gauge| gauge.behind(now))
    }

    /// What all lanes heard and are owed.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for lane in &self.lanes {
            let (heard, afar) = lane.received();
            let (owed, owed_afar) = lane.owed_per_s();
            counts.heard += heard;
            counts.heard_at = counts.heard_at.max(lane.heard_at());
            counts.afar += afar;
            counts.owed_per_s += owed;
            counts.owed_afar_per_s += owed_afar;
        }
        counts
    }

    /// How late verdicts of silence came, where nothing kept them back.
    #[must_use]
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Hellos that were told to come later, since the start.
    #[must_use]
    pub fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    pub(super) fn count_shed(&self) {
        self.shed.fetch_add(1, Ordering::Relaxed);
    }

    #[must_use]
    pub fn incidents(&self) -> &Incidents {
        &self.incidents
    }

    /// Since when verdicts are held because nearly nobody is heard.
    #[must_use]
    pub fn held_since(&self) -> Option<Moment> {
        let since = self.held_since.load(Ordering::Relaxed);
        (since != 0).then(|| Moment::from_nanos(since))
    }

    pub(crate) fn set_held_since(&self, since: Option<Moment>) {
        let nanos = since.map_or(0, |since| since.as_nanos().max(1));
        self.held_since.store(nanos, Ordering::Relaxed);
    }

    /// Stalls of the whole process.
    #[must_use]
    pub fn deafness(&self) -> Deafness {
        self.deafness.lock().clone()
    }

    /// From here on no session opens. A session that is being seated meanwhile holds its agent's lock:
    /// whoever asks that agent for its session afterwards finds it.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Newest revision that an agent said it runs, as far as it is believable.
    #[must_use]
    pub fn newest_told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    pub(super) fn told(&self, revision: u64) {
        if revision <= REVISION_MOST {
            self.told.fetch_max(revision, Ordering::Relaxed);
        }
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

    /// Whether no other agent is taken in.
    pub(super) fn is_full(&self) -> bool {
        self.known.load(Ordering::Relaxed) >= AGENTS_MOST
    }

    /// The agent with this id, known from here on.
    pub(super) fn meet(&self, id: Uuid) -> Arc<Agent> {
        let mut shard = self.shard(id).lock();
        if let Some(agent) = shard.get(&id) {
            return Arc::clone(agent);
        }
        let mut agents = self.agents.write();
        let agent = Arc::new(Agent::new(id, agents.len(), self.clock.wall()));
        agents.push(Arc::clone(&agent));
        self.known.store(agents.len(), Ordering::Relaxed);
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
        let (refused, version) = (known.refused, &known.facts.agent_version);
        state.refusal =
            refused.map(|refused| Box::new(Refusal::new(refused, known.applied, version)));
        state.facts = Arc::new(known.facts);
        state.applied = known.applied;
        state.last_seen = known.last_seen;
        state.verdict = known.verdict;
        state.since = known.since;
        if matches!(
            known.verdict,
            Verdict::Online | Verdict::Suspect | Verdict::Unknown
        ) {
            let grounds = Grounds::bare(Trigger::ServerAway);
            state.decide_at = Some(decide_at);
            state.judge(Verdict::Unknown, grounds, self.clock.wall());
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

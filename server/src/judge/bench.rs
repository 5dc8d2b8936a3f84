use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::hold::Leave;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::verdict::{Next, Verdict, next};
use fleetbeat_liveness::wheel::{Slot, Wheel};
use tracing::info;

use super::guilt::Guilt;
use crate::registry::{Agent, LaneGauge, Last, Registry, Session, Watch};

/// Agents looked at in one pass.
const BATCH: usize = 500;
/// A lane that leaves a nomination unanswered for so long is deaf.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// A lane that does so for this long is dead.
const DEAD_AFTER: Duration = Duration::from_secs(30);
/// When to look again at what cannot be judged yet.
const LATER: Duration = Duration::from_millis(250);
/// After a stall of the process everything that waits is read before anybody is judged.
const SETTLE: Duration = Duration::from_secs(1);

/// Why nobody can say when the server heard nobody at all.
const NOBODY_HEARD: &str = "the server heard nobody at all and cannot show that it would";

/// The judge's state: one slot of the wheel for each agent that has a deadline.
#[derive(Debug)]
pub(super) struct Bench {
    registry: Arc<Registry>,
    wheel: Wheel<usize>,
    /// By the agent's number.
    agents: Vec<Option<(Arc<Agent>, Slot)>>,
    nominations: Vec<Nomination>,
    guilt: Guilt,
    /// Agents that are not judged while verdicts are held, and those to look at again since.
    held: BTreeSet<usize>,
    released: VecDeque<usize>,
    /// Those that were held are looked at: their verdicts are late on purpose.
    releasing: bool,
    /// When the judge itself last resumed after a stall.
    resumed_at: Moment,
    settled_at: Moment,
    dirty: Vec<Arc<Agent>>,
    expired: Vec<(Slot, usize)>,
    nominated: u64,
}

#[derive(Debug)]
struct Nomination {
    session: Arc<Session>,
    /// Tells this nomination of the session from others.
    at: Moment,
    /// From when on its lane owes an answer.
    owed_since: Moment,
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pass {
    /// More agents were due than one batch holds.
    pub(super) more: bool,
    pub(super) nominated: u64,
}

impl Bench {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Self {
            guilt: Guilt::new(Arc::clone(&registry)),
            held: BTreeSet::new(),
            released: VecDeque::new(),
            releasing: false,
            registry,
            wheel: Wheel::new(),
            agents: Vec::new(),
            nominations: Vec::new(),
            resumed_at: Moment::ZERO,
            settled_at: Moment::ZERO,
            dirty: Vec::new(),
            expired: Vec::new(),
            nominated: 0,
        }
    }

    pub(super) fn watched(&self) -> u64 {
        self.wheel.len() as u64
    }

    /// The judge itself did not run until `now`: nobody is looked at before the lanes have read what
    /// waits, and lanes answer nominations from here on.
    pub(super) fn stalled(&mut self, now: Moment, length: Duration) {
        self.guilt.stalled(length);
        self.resumed_at = now;
        self.settled_at = now + SETTLE;
        for nomination in &mut self.nominations {
            nomination.owed_since = now;
        }
    }

    /// Looks at everybody whose moment came up or whose deadline may have moved.
    pub(super) fn pass(&mut self, now: Moment) -> Pass {
        self.nominated = 0;
        if self.guilt.look(now) {
            self.released.extend(std::mem::take(&mut self.held));
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        self.registry.take_judge_dirty(&mut dirty);
        for agent in dirty.drain(..) {
            self.look(&agent, now);
        }
        self.dirty = dirty;
        let mut expired = std::mem::take(&mut self.expired);
        let more = self.wheel.expire(now, BATCH, &mut expired);
        let released = self.released.len().min(BATCH);
        let released = self.released.drain(..released).collect::<Vec<_>>();
        for (_, number) in expired.drain(..) {
            self.look_at(number, now);
        }
        self.expired = expired;
        self.releasing = true;
        for number in released {
            self.look_at(number, now);
        }
        self.releasing = false;
        self.hear_lanes(now);
        Pass {
            more: more || !self.released.is_empty(),
            nominated: self.nominated,
        }
    }

    fn look_at(&mut self, number: usize, now: Moment) {
        if let Some((agent, _)) = self.agents[number].clone() {
            self.look(&agent, now);
        }
    }

    /// When a verdict could be given that nothing kept back.
    fn due(&self, deadline: Moment, grace: Option<Moment>) -> Option<Moment> {
        let lanes = self.registry.lanes().iter();
        let settled = lanes.map(|gauge| gauge.settled_at()).max();
        let due = deadline
            .max(grace.unwrap_or_default())
            .max(settled.unwrap_or_default())
            .max(self.settled_at);
        (!self.releasing).then_some(due)
    }

    fn look(&mut self, agent: &Arc<Agent>, now: Moment) {
        let again = if now < self.settled_at {
            Some(self.settled_at)
        } else {
            match agent.watch() {
                Watch {
                    session: Some(session),
                    verdict,
                    ..
                } => self.live(&session, verdict, now),
                Watch {
                    verdict: Verdict::Suspect,
                    last: Some(last),
                    ..
                } => self.absent(agent, &last, now),
                Watch {
                    verdict: Verdict::Unknown,
                    decide_at: Some(at),
                    last,
                    ..
                } => self.undecided(agent, at, last, now),
                Watch {
                    verdict: Verdict::Left,
                    back_by: Some(at),
                    ..
                } => self.departed(agent, at, now),
                Watch { .. } => None,
            }
        };
        self.arm(agent, again);
    }

    fn arm(&mut self, agent: &Arc<Agent>, at: Option<Moment>) {
        if self.agents.len() <= agent.number {
            self.agents.resize(agent.number + 1, None);
        }
        let place = &mut self.agents[agent.number];
        match (place.as_ref(), at) {
            (Some((_, slot)), Some(at)) => {
                self.wheel.reschedule(*slot, at);
            }
            (None, Some(at)) => {
                *place = Some((Arc::clone(agent), self.wheel.insert(agent.number, at)));
            }
            (Some((_, slot)), None) => {
                self.wheel.remove(*slot);
                *place = None;
            }
            (None, None) => {}
        }
    }

    /// Returns when to look again.
    fn live(&mut self, session: &Arc<Session>, verdict: Verdict, now: Moment) -> Option<Moment> {
        if session.nominated().is_some() {
            return None;
        }
        let limits = session.limits();
        let heard = session.last_heard();
        let gauge = &self.registry.lanes()[session.lane];
        let grace = gauge
            .grace_for(session.opened)
            .max(self.registry.grace_for(session.opened));
        let step = next(now, heard, &limits, grace);
        let silence = now.since(heard);
        if gauge.overdue(now) && !matches!(step, Next::Wait { .. }) {
            if gauge.is_deaf() && step == Next::Convict {
                self.registry.deaf(session);
            }
            return Some(now + LATER);
        }
        match step {
            Next::Wait { until } => {
                if verdict != Verdict::Online {
                    // It spoke while it was being suspected.
                    self.registry.heard_again(session, None);
                }
                if session.is_doubtful(now) {
                    self.registry.review(&session.agent);
                }
                Some(until)
            }
            Next::Suspect { next } | Next::Check { next } => {
                let suspected = matches!(verdict, Verdict::Online | Verdict::Unknown)
                    && self.suspect(session, silence);
                if suspected || matches!(step, Next::Check { .. }) {
                    session.ask(rand::random(), now);
                }
                Some(next)
            }
            Next::Convict if self.registry.behind_anywhere(now) => {
                self.wait_in_doubt(session, verdict, now);
                Some(now + LATER)
            }
            Next::Convict => {
                let expectation = session.expectation();
                match self.guilt.ask(now, heard, &expectation) {
                    Leave::Judge => {}
                    Leave::Wait => {
                        self.wait_in_doubt(session, verdict, now);
                        return Some(self.hold(session.agent.number));
                    }
                    Leave::Unknown => {
                        self.registry.doubt(session, NOBODY_HEARD.to_owned());
                        return Some(self.hold(session.agent.number));
                    }
                }
                let group = &session.agent.facts().group;
                self.guilt.missed(group, expectation.look_back);
                let at = session.nominate(now, self.due(heard + limits.offline_after, grace));
                self.nominated += 1;
                self.nominations.push(Nomination {
                    session: Arc::clone(session),
                    at,
                    owed_since: now,
                });
                None
            }
        }
    }

    /// Looked at again when it may be judged, not before.
    fn hold(&mut self, number: usize) -> Moment {
        self.held.insert(number);
        Moment::FAR
    }

    /// Its verdict has to wait: what is plain already is told.
    fn wait_in_doubt(&self, session: &Arc<Session>, verdict: Verdict, now: Moment) {
        let silence = now.since(session.last_heard());
        if verdict == Verdict::Online && self.suspect(session, silence) {
            session.ask(rand::random(), now);
        }
    }

    /// True when the agent was not suspected before.
    fn suspect(&self, session: &Arc<Session>, silence: Duration) -> bool {
        let suspected = self.registry.suspect(session);
        if suspected {
            info!(agent.id = %session.agent.id, silence_ms = silence.as_millis(), "Agent suspect");
        }
        suspected
    }

    /// When nobody who was live at `opened` can be called offline yet because the server was deaf; an
    /// agent without a session may come back on any lane.
    fn deaf_anywhere(&self, opened: Moment, now: Moment) -> Option<Moment> {
        if self.registry.behind_anywhere(now) {
            return Some(now + LATER);
        }
        let lanes = self.registry.lanes();
        let graces = lanes
            .iter()
            .filter_map(|gauge| gauge.grace_for(opened))
            .max();
        graces.max(self.registry.grace_for(opened))
    }

    /// A session ended without Goodbye: its agent has until D, counted from its last message.
    fn absent(&mut self, agent: &Arc<Agent>, last: &Last, now: Moment) -> Option<Moment> {
        let grace = self.deaf_anywhere(last.opened, now);
        match next(now, last.heard, &last.limits, grace) {
            // It is suspect for its session's end already; only D is left to wait for.
            Next::Wait { .. } => Some(last.heard + last.limits.offline_after),
            Next::Suspect { next } | Next::Check { next } => Some(next),
            Next::Convict => {
                let silence = now.since(last.heard);
                let limit = last.limits.offline_after;
                if let Some(fair) = self.guilt.fair_until(last.heard)
                    && now < fair
                {
                    return Some(fair);
                }
                match self.guilt.ask(now, last.heard, &last.expectation) {
                    Leave::Judge => {}
                    Leave::Wait => return Some(self.hold(agent.number)),
                    Leave::Unknown => {
                        let because = NOBODY_HEARD.to_owned();
                        self.registry.absent_unknown(agent, limit, because);
                        return None;
                    }
                }
                let due = self.due(last.heard + limit, grace);
                self.guilt
                    .lost(now, &last.expectation, &agent.facts().group);
                if self.registry.offline(agent, Some(limit), due) {
                    info!(agent.id = %agent.id, silence_ms = silence.as_millis(), "Agent offline");
                }
                None
            }
        }
    }

    fn undecided(
        &mut self,
        agent: &Arc<Agent>,
        at: Moment,
        last: Option<Last>,
        now: Moment,
    ) -> Option<Moment> {
        let at = self
            .deaf_anywhere(Moment::ZERO, now)
            .map_or(at, |grace| at.max(grace));
        let heard = last.map_or(Moment::ZERO, |last| last.heard);
        let at = self.guilt.fair_until(heard).map_or(at, |fair| at.max(fair));
        if now < at {
            return Some(at);
        }
        if self.guilt.knows_nothing(now, self.wheel.len()) {
            return Some(self.hold(agent.number));
        }
        if self.registry.offline(agent, None, self.due(at, None)) {
            info!(agent.id = %agent.id, "Agent offline");
        }
        None
    }

    /// An agent left and told when it means to be back.
    fn departed(&mut self, agent: &Arc<Agent>, at: Moment, now: Moment) -> Option<Moment> {
        let at = self
            .deaf_anywhere(Moment::ZERO, now)
            .map_or(at, |grace| at.max(grace));
        if now < at {
            return Some(at);
        }
        if self.guilt.knows_nothing(now, self.wheel.len()) {
            return Some(self.hold(agent.number));
        }
        if self.registry.overdue(agent) {
            info!(agent.id = %agent.id, "Agent overdue");
        }
        None
    }

    /// Time for which a lane owes a sign of life: a lane does not run while the whole process does not.
    fn idle(&self, gauge: &LaneGauge, now: Moment) -> Duration {
        gauge.idle(now).min(now.since(self.resumed_at))
    }

    /// Forgets answered nominations and finds the lanes that do not answer.
    fn hear_lanes(&mut self, now: Moment) {
        self.nominations
            .retain(|n| n.session.ending().is_none() && n.session.nominated() == Some(n.at));
        for (lane, gauge) in self.registry.lanes().iter().enumerate() {
            let waits = self.nominations.iter().filter(|n| n.session.lane == lane);
            let silent = waits
                .map(|n| now.since(n.owed_since))
                .max()
                .unwrap_or_default();
            let deaf = silent.max(self.idle(gauge, now)) > ANSWER_WITHIN;
            if gauge.set_deaf(deaf) {
                self.guilt.lane_deaf(lane, deaf);
            }
        }
        for nomination in &self.nominations {
            if now.since(nomination.owed_since) > ANSWER_WITHIN {
                self.registry.deaf(&nomination.session);
            }
        }
    }

    /// The lane that has not answered for 30 s, if there is one.
    pub(super) fn dead_lane(&self, now: Moment) -> Option<usize> {
        let waits = self
            .nominations
            .iter()
            .find(|n| now.since(n.owed_since) > DEAD_AFTER);
        let idle = || {
            let lanes = self.registry.lanes();
            lanes
                .iter()
                .position(|gauge| self.idle(gauge, now) > DEAD_AFTER)
        };
        waits.map(|n| n.session.lane).or_else(idle)
    }
}

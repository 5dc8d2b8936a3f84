use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::verdict::{Next, Verdict, next};
use fleetbeat_liveness::wheel::{Slot, Wheel};
use tracing::{info, warn};

use crate::registry::{Agent, Last, Registry, Session, Watch};

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

/// The judge's state: one slot of the wheel for each agent that has a deadline.
#[derive(Debug)]
pub(super) struct Bench {
    registry: Arc<Registry>,
    wheel: Wheel<usize>,
    /// By the agent's number.
    agents: Vec<Option<(Arc<Agent>, Slot)>>,
    nominations: Vec<Nomination>,
    settled_at: Moment,
    dirty: Vec<Arc<Agent>>,
    expired: Vec<(Slot, usize)>,
    nominated: u64,
}

#[derive(Debug)]
struct Nomination {
    session: Arc<Session>,
    at: Moment,
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
            registry,
            wheel: Wheel::new(),
            agents: Vec::new(),
            nominations: Vec::new(),
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
    pub(super) fn stalled(&mut self, now: Moment) {
        self.settled_at = now + SETTLE;
        for nomination in &mut self.nominations {
            nomination.at = now;
        }
    }

    /// Looks at everybody whose moment came up or whose deadline may have moved.
    pub(super) fn pass(&mut self, now: Moment) -> Pass {
        self.nominated = 0;
        let mut dirty = std::mem::take(&mut self.dirty);
        self.registry.take_judge_dirty(&mut dirty);
        for agent in dirty.drain(..) {
            self.look(&agent, now);
        }
        self.dirty = dirty;
        let mut expired = std::mem::take(&mut self.expired);
        let more = self.wheel.expire(now, BATCH, &mut expired);
        for (_, number) in expired.drain(..) {
            if let Some((agent, _)) = self.agents[number].clone() {
                self.look(&agent, now);
            }
        }
        self.expired = expired;
        self.hear_lanes(now);
        Pass {
            more,
            nominated: self.nominated,
        }
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
                    ..
                } => self.undecided(agent, at, now),
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
        let expectation = session.expectation();
        let heard = session.last_heard();
        let gauge = &self.registry.lanes()[session.lane];
        let grace = gauge
            .grace_for(session.opened)
            .max(self.registry.grace_for(session.opened));
        let step = next(now, heard, &expectation, grace);
        let silence = now.since(heard);
        if gauge.overdue(now) && !matches!(step, Next::Wait { .. }) {
            if gauge.is_deaf() && step == Next::Convict {
                self.registry.deaf(session);
            }
            return Some(now + LATER);
        }
        match step {
            Next::Wait { until } => Some(until),
            Next::Suspect { next } => {
                if matches!(verdict, Verdict::Online | Verdict::Unknown) {
                    let limit = expectation.suspect_after;
                    let because =
                        format!("silent for {silence:.3?}, longer than T + W = {limit:?}");
                    if self.registry.suspect(session, because) {
                        info!(agent.id = %session.agent.id, silence_ms = silence.as_millis(), "Agent suspect");
                        session.outbox.check(rand::random());
                    }
                }
                Some(next)
            }
            Next::Convict => {
                session.nominate(now);
                self.nominated += 1;
                self.nominations.push(Nomination {
                    session: Arc::clone(session),
                    at: now,
                });
                None
            }
        }
    }

    /// A session ended without Goodbye: its agent has until D, counted from its last message.
    fn absent(&self, agent: &Arc<Agent>, last: &Last, now: Moment) -> Option<Moment> {
        let gauge = &self.registry.lanes()[last.lane];
        let grace = gauge
            .grace_for(last.opened)
            .max(self.registry.grace_for(last.opened));
        match next(now, last.heard, &last.expectation, grace) {
            // It is suspect for its session's end already; only D is left to wait for.
            Next::Wait { .. } => Some(last.heard + last.expectation.offline_after),
            Next::Suspect { next } => Some(next),
            Next::Convict => {
                let silence = now.since(last.heard);
                let limit = last.expectation.offline_after;
                let because = format!(
                    "did not come back; silent for {silence:.3?}, longer than D = {limit:?}"
                );
                if self.registry.offline(agent, because) {
                    info!(agent.id = %agent.id, silence_ms = silence.as_millis(), "Agent offline");
                }
                None
            }
        }
    }

    fn undecided(&self, agent: &Arc<Agent>, at: Moment, now: Moment) -> Option<Moment> {
        if now < at {
            return Some(at);
        }
        let because = "did not come back after the server had been away".to_owned();
        if self.registry.offline(agent, because) {
            info!(agent.id = %agent.id, "Agent offline");
        }
        None
    }

    /// Forgets answered nominations and finds the lanes that do not answer.
    fn hear_lanes(&mut self, now: Moment) {
        self.nominations
            .retain(|n| n.session.ending().is_none() && n.session.nominated().is_some());
        for (lane, gauge) in self.registry.lanes().iter().enumerate() {
            let waits = self.nominations.iter().filter(|n| n.session.lane == lane);
            let silent = waits.map(|n| now.since(n.at)).max().unwrap_or_default();
            let deaf = silent > ANSWER_WITHIN || gauge.idle(now) > ANSWER_WITHIN;
            if gauge.set_deaf(deaf) && deaf {
                warn!(
                    lane,
                    "Lane is deaf: its agents are unknown until it answers"
                );
            }
        }
        for nomination in &self.nominations {
            if now.since(nomination.at) > ANSWER_WITHIN {
                self.registry.deaf(&nomination.session);
            }
        }
    }

    /// The lane that has not answered for 30 s, if there is one.
    pub(super) fn dead_lane(&self, now: Moment) -> Option<usize> {
        if now < self.settled_at {
            return None;
        }
        let waits = self
            .nominations
            .iter()
            .find(|n| now.since(n.at) > DEAD_AFTER);
        let idle = || {
            self.registry
                .lanes()
                .iter()
                .position(|gauge| gauge.idle(now) > DEAD_AFTER)
        };
        waits.map(|n| n.session.lane).or_else(idle)
    }
}

//! What is the case with an agent beside its verdict: begins, ends, and is told both times.

use std::sync::Arc;

use fleetbeat_liveness::condition::Condition;
use fleetbeat_liveness::flapping::WINDOW;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::skew::Skew;
use fleetbeat_liveness::span::Span;
use fleetbeat_liveness::strain::{ANSWER_WITHIN, Degraded};
use fleetbeat_liveness::twins::Twins;
use time::OffsetDateTime;

use super::agent::State;
use super::{Agent, Registry, Session, Transition};

/// A condition that is the case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub condition: Condition,
    pub since: OffsetDateTime,
    /// Why, as a sentence.
    pub detail: String,
}

/// What conditions follow from.
#[derive(Debug, Default)]
pub(super) struct Symptoms {
    pub twins: Twins,
    /// Where the twins were seen.
    pub rivals: Option<Box<(String, String)>>,
    pub skew: Option<Skew>,
    pub volatile_state: bool,
}

/// What a look at the conditions of an agent brought.
#[derive(Clone, Copy, Debug)]
struct Review {
    changed: bool,
    /// Something is the case that may end without a word of the agent.
    fades: bool,
}

impl Session {
    /// Whether the agent's conditions have to be looked at: no PING for longer than D, or a push that
    /// waits for too long.
    #[must_use]
    pub fn is_doubtful(&self, now: Moment) -> bool {
        now.since(self.last_pinged()) > self.expectation().beatless_after
            || self.unanswered(now) > ANSWER_WITHIN
    }
}

impl Registry {
    /// Looks at the conditions of an agent.
    pub fn review(&self, agent: &Arc<Agent>) {
        let mut state = agent.lock();
        self.review_locked(agent, &mut state);
    }

    /// The account of the agent's last PINGs changed for better or worse.
    pub fn strained(&self, session: &Arc<Session>, strained: bool) {
        session.vitals.set_strained(strained);
        self.review(&session.agent);
    }

    /// Agents with a condition that time alone may end, since the last call.
    pub fn take_flagged(&self, out: &mut Vec<Arc<Agent>>) {
        self.flagged.take(out, |agent| &agent.flagged);
    }

    pub(super) fn review_locked(&self, agent: &Arc<Agent>, state: &mut State) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let Review { changed, fades } = state.review(now, wall);
        if changed {
            self.record.mark(agent, &agent.recorded, agent.number);
        }
        if fades {
            self.flagged.mark(agent, &agent.flagged, agent.number);
        }
    }
}

impl State {
    /// Compares what is the case with what was.
    fn review(&mut self, now: Moment, wall: OffsetDateTime) -> Review {
        let degraded = self.degraded(now);
        let waits = degraded.beatless.is_some() || degraded.unanswered.is_some();
        let degraded = degraded.because();
        let flapping = self.losses.flapping.judge(now).then(|| {
            let losses = self.losses.flapping.losses(now);
            format!("lost {losses} sessions within {}", Span(WINDOW))
        });
        let duplicate = self.symptoms.twins.proved(now).then(|| self.twins());
        let skew = self.symptoms.skew.map(|skew| skew.to_string());
        let fades = waits || flapping.is_some() || duplicate.is_some();
        let mut changed = false;
        for (condition, detail) in [
            (Condition::Degraded, degraded),
            (Condition::Flapping, flapping),
            (Condition::Duplicate, duplicate),
            (Condition::ClockSkew, skew),
        ] {
            changed |= self.stand(condition, detail, wall);
        }
        Review { changed, fades }
    }

    fn degraded(&self, now: Moment) -> Degraded {
        let Some(session) = &self.session else {
            return Degraded::default();
        };
        let heard = now.since(session.last_heard()) < session.limits().offline_after;
        let beatless = now.since(session.last_pinged());
        let beatless_after = session.expectation().beatless_after;
        let unanswered = session.unanswered(now);
        Degraded {
            beatless: (heard && beatless > beatless_after).then_some(beatless),
            strained: session.vitals.strained(),
            unanswered: (heard && unanswered > ANSWER_WITHIN).then_some(unanswered),
            volatile_state: self.symptoms.volatile_state,
        }
    }

    fn twins(&self) -> String {
        match self.symptoms.rivals.as_deref() {
            Some((one, other)) => format!("runs twice: at {one} and at {other}"),
            None => "runs twice".to_owned(),
        }
    }

    fn stand(&mut self, condition: Condition, detail: Option<String>, at: OffsetDateTime) -> bool {
        let place = self
            .conditions
            .iter()
            .position(|one| one.condition == condition);
        match (place, detail) {
            (None, None) => return false,
            (Some(place), Some(detail)) => {
                self.conditions[place].detail = detail;
                return false;
            }
            (None, Some(detail)) => {
                self.conditions.push(Standing {
                    condition,
                    since: at,
                    detail: detail.clone(),
                });
                self.tell(condition, true, detail, at);
            }
            (Some(place), None) => {
                let ended = self.conditions.swap_remove(place);
                self.tell(condition, false, ended.detail, at);
            }
        }
        true
    }

    fn tell(&mut self, condition: Condition, began: bool, detail: String, at: OffsetDateTime) {
        let what = Transition::Condition {
            condition,
            began,
            detail,
        };
        self.journal.push(at, what);
    }
}

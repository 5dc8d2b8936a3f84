//! What can be said of an agent changes while its session lives, or while it has none.

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::backoff::absence_grace;
use fleetbeat_liveness::grounds::Trigger;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::retune::{Answer, Revised};
use fleetbeat_liveness::verdict::Verdict;

use super::{Agent, Registry, Session, Transition};

impl Registry {
    /// A message arrived from an agent that was not counted as online.
    /// `lateness` is how much longer it was silent here than between its own two sendings.
    pub fn heard_again(&self, session: &Arc<Session>, lateness: Option<Duration>) {
        let agent = &session.agent;
        let mut state = agent.lock();
        if !state.seats(session) {
            return;
        }
        session.set_attention(false);
        let now = self.clock.now();
        let after = session.last_heard().since(session.silent_since());
        let grounds = session.grounds(Trigger::HeardAgain { after }, now);
        let wall = self.clock.wall();
        // Where the server itself did not hear nobody was silent.
        if !self.deaf_to(session.silent_since(), session.lane, now) {
            state.heard_after(session, after, lateness, wall);
        }
        let changed = state.judge(Verdict::Online, grounds, wall);
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
        if state.seats(session) {
            state.answered(session);
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

    /// The agent has been silent for T + W. False when it spoke, or another session sat down.
    pub fn suspect(&self, session: &Arc<Session>) -> bool {
        let mut state = session.agent.lock();
        if !state.seats(session) {
            return false;
        }
        session.set_attention(true);
        let limit = session.limits().suspect_after;
        let grounds = session.grounds(Trigger::Silent { limit }, self.clock.now());
        let changed = state.judge(Verdict::Suspect, grounds, self.clock.wall());
        drop(state);
        if changed {
            self.touch(&session.agent);
        }
        changed
    }

    /// The lane of a live session is deaf: nobody can say.
    pub fn deaf(&self, session: &Arc<Session>) -> bool {
        let lane = session.lane;
        self.unknown(session, Trigger::LaneDeaf { lane })
    }

    /// The server cannot show that it would hear this session's agent: nobody can say.
    pub fn doubt(&self, session: &Arc<Session>, because: String) -> bool {
        self.unknown(session, Trigger::Doubt { because })
    }

    fn unknown(&self, session: &Arc<Session>, trigger: Trigger) -> bool {
        let mut state = session.agent.lock();
        if !state.seats(session) {
            return false;
        }
        session.set_attention(true);
        let grounds = session.grounds(trigger, self.clock.now());
        let changed = state.judge(Verdict::Unknown, grounds, self.clock.wall());
        drop(state);
        if changed {
            self.touch(&session.agent);
        }
        changed
    }

    /// The server cannot show that it would hear an agent that has no session: it has time to come
    /// back, as after an absence of the server.
    pub fn absent_unknown(&self, agent: &Arc<Agent>, deadline: Duration, because: String) -> bool {
        let mut state = agent.lock();
        if state.session.is_some() {
            return false;
        }
        let fair = absence_grace(self.session_count(), self.admission_per_s, deadline);
        state.decide_at = Some(self.clock.now() + fair);
        let grounds = state.absent_grounds(Trigger::Doubt { because }, self.clock.now());
        let changed = state.judge(Verdict::Unknown, grounds, self.clock.wall());
        drop(state);
        self.touch(agent);
        changed
    }

    /// An agent without a session did not come back within `limit` of its last message; or, without one, in
    /// the time that it had after what made it unknown. `due` is when that could be said, where nothing
    /// kept it back.
    pub fn offline(
        &self,
        agent: &Arc<Agent>,
        limit: Option<Duration>,
        due: Option<Moment>,
    ) -> bool {
        let mut state = agent.lock();
        if state.session.is_some() {
            return false;
        }
        state.decide_at = None;
        let how = state.parting.as_ref().map(|parting| parting.how.clone());
        let how = how.unwrap_or_default();
        let before = state.grounds.as_ref();
        let trigger = match limit {
            Some(limit) => Trigger::NotBack { limit, how },
            None => before.map_or(Trigger::AwayTooLong, |before| before.trigger.outlasted()),
        };
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let grounds = state.absent_grounds(trigger, now);
        let changed = state.judge(Verdict::Offline, grounds, wall);
        if changed {
            state.stays_quiet(now, wall);
        }
        drop(state);
        if let Some(due) = due.filter(|_| changed) {
            self.lateness.count(self.clock.now().since(due));
        }
        self.touch(agent);
        changed
    }

    /// An agent that left is not back by the time it told; false when it is, or said nothing.
    pub fn overdue(&self, agent: &Arc<Agent>) -> bool {
        let mut state = agent.lock();
        let Some(departure) = state.departure.take() else {
            return false;
        };
        let trigger = Trigger::Overdue {
            how: departure.how,
            within: departure.within,
        };
        let grounds = state.absent_grounds(trigger, self.clock.now());
        let grounds = state.rest_on(grounds);
        let what = Transition::Overdue { grounds };
        state.journal.push(self.clock.wall(), what);
        drop(state);
        self.touch(agent);
        true
    }
}

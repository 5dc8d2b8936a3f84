use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::grounds::Grounds;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_liveness::rtt;
use fleetbeat_liveness::verdict::Verdict;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Agent, Facts, Standing};

/// An agent as people and the recorder see it, at one moment.
#[derive(Clone, Debug)]
pub struct AgentView {
    pub id: Uuid,
    pub facts: Arc<Facts>,
    pub verdict: Verdict,
    pub since: OffsetDateTime,
    pub because: String,
    pub grounds: Option<Arc<Grounds>>,
    pub fence: Option<Fence>,
    /// Last valid message, by the wall clock.
    pub last_seen: Option<OffsetDateTime>,
    /// Its age: on the monotonic clock, or by the wall clock when an earlier run heard it.
    pub age: Option<Duration>,
    pub session: Option<SessionView>,
    /// What the agent acknowledged last.
    pub applied: Option<Revised>,
    pub conditions: Vec<Standing>,
}

/// A live session at one moment.
#[derive(Clone, Debug)]
pub struct SessionView {
    pub id: Uuid,
    pub address: String,
    pub deadline: Duration,
    pub rtt: rtt::Window,
    pub waiting_for: Option<Revised>,
    /// Revision and reason of the last refusal, until another is applied.
    pub refused: Option<(u64, String)>,
}

impl Agent {
    /// Looks at the agent at `now`, which is `wall` on the wall clock.
    #[must_use]
    pub fn view(&self, now: Moment, wall: OffsetDateTime) -> AgentView {
        let state = self.lock();
        let heard = state.session.as_ref().map(|session| session.last_heard());
        let age = heard
            .or(state.last.map(|last| last.heard))
            .map(|heard| now.since(heard));
        let session = state.session.as_ref().map(|session| SessionView {
            id: session.id,
            address: session.address.clone(),
            deadline: session.offline_after(),
            rtt: session.rtt_window(),
            waiting_for: session.waiting_for(),
            refused: session.refused(),
        });
        let applied = state
            .session
            .as_ref()
            .map_or(state.applied, |s| s.acknowledged());
        AgentView {
            id: self.id,
            facts: Arc::clone(&state.facts),
            verdict: state.verdict,
            since: state.since,
            because: state.because.clone(),
            grounds: state.grounds.clone(),
            fence: state.fence,
            last_seen: age.map(|age| wall - age).or(state.last_seen),
            age: age.or_else(|| (wall - state.last_seen?).try_into().ok()),
            session,
            applied,
            conditions: state.conditions.clone(),
        }
    }
}

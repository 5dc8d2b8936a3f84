//! What an agent would not take, remembered over its sessions so that it is not sent the same again.

use fleetbeat_liveness::retune::Revised;

use super::agent::State;
use super::{Opening, Session};

/// The newest push that an agent refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    revision: u64,
    reason: String,
    /// What it had in force, and which software it was.
    applied: Option<Revised>,
    agent_version: String,
}

impl Refusal {
    pub(super) fn new(
        (revision, reason): (u64, String),
        applied: Option<Revised>,
        agent_version: &str,
    ) -> Self {
        Self {
            revision,
            reason,
            applied,
            agent_version: agent_version.to_owned(),
        }
    }
}

impl State {
    /// The agent answered a push on its `session`.
    pub(super) fn answered(&mut self, session: &Session) {
        self.applied = session.acknowledged();
        let refused = session.refused();
        let version = &self.facts.agent_version;
        self.refusal =
            refused.map(|refused| Box::new(Refusal::new(refused, self.applied, version)));
    }

    /// Revision and reason of the refusal that still holds for whoever says this Hello. Other software
    /// may take what the one before refused, and so may an agent that lost what it had in force.
    pub(super) fn still_refused(&self, opening: &Opening) -> Option<(u64, String)> {
        let refusal = self.refusal.as_ref()?;
        let same = refusal.applied == opening.applied
            && refusal.agent_version == opening.facts.agent_version;
        same.then(|| (refusal.revision, refusal.reason.clone()))
    }
}

//! Changing the tuning of a live session without ever convicting a live agent.
//!
//! Between a push and its answer nobody knows which tuning the agent runs: the one it acknowledged last,
//! the one just sent, or any that was sent in between. The server therefore expects the component-wise
//! maximum over all of them, raises it before a push becomes visible, and lowers it only when the agent
//! answers the newest push.
//!
//! This relies on one promise of the agent: having received a push, it ignores every older one and
//! answers the same one the same way.

use crate::expectation::Expectation;
use crate::tuning::Tuning;

/// A tuning with the revision of the policy set that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revised {
    /// Numbers the whole policy set; 0 is the built-in default.
    pub revision: u64,
    pub tuning: Tuning,
}

impl Revised {
    /// Identifies the values, not the revision; see [`Tuning::hash`].
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.tuning.hash()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Applied,
    Refused,
}

/// The agent's answer to one push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub revision: u64,
    pub hash: u64,
    pub outcome: Outcome,
    /// What runs on the agent after this answer, as the agent says.
    pub in_force: Option<Revised>,
}

/// What an answer changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It answers the newest push: from the last valid message on, `expectation` holds.
    Settled { expectation: Expectation },
    /// It answers a push that a later push or an earlier answer overtook; nothing changes.
    Superseded,
    /// Nothing of the kind was sent on this session; nothing changes.
    Unknown,
}

/// The server's side of retuning one session. Its size does not depend on the number of pushes.
#[derive(Debug, Clone)]
pub struct Retune {
    applied: Revised,
    newest: Option<Revised>,
    answered: bool,
    /// Lowest and highest revision pushed on this session.
    pushed: Option<(u64, u64)>,
    expectation: Expectation,
    pong_every: u32,
}

impl Retune {
    /// `in_force` is what Hello reported, or the base of Welcome for an agent that reported none.
    #[must_use]
    pub fn new(in_force: Revised) -> Self {
        Self {
            applied: in_force,
            newest: None,
            answered: true,
            pushed: None,
            expectation: in_force.tuning.expectation(),
            pong_every: in_force.tuning.pong_every(),
        }
    }

    /// Raises what is expected. To be called before the push can reach the agent.
    pub fn push(&mut self, newest: Revised) -> Expectation {
        self.newest = Some(newest);
        self.answered = false;
        let (lowest, highest) = self.pushed.unwrap_or((newest.revision, newest.revision));
        self.pushed = Some((lowest.min(newest.revision), highest.max(newest.revision)));
        self.expectation = self.expectation.component_max(newest.tuning.expectation());
        self.pong_every = self.pong_every.min(newest.tuning.pong_every());
        self.expectation
    }

    /// Lowers what is expected when the newest push is answered. After a refusal what the agent says is
    /// in force counts; when it does not say, what was expected stays.
    pub fn answer(&mut self, answer: Answer) -> Effect {
        let Some(newest) = self.newest else {
            return Effect::Unknown;
        };
        if answer.revision != newest.revision || answer.hash != newest.hash() {
            return self.overtaken(answer.revision);
        }
        if self.answered {
            return Effect::Superseded;
        }
        self.answered = true;
        let settled = match answer.outcome {
            Outcome::Applied => Some(answer.in_force.unwrap_or(newest)),
            Outcome::Refused => answer.in_force,
        };
        if let Some(in_force) = settled {
            self.applied = in_force;
            self.expectation = in_force.tuning.expectation();
            self.pong_every = in_force.tuning.pong_every();
        }
        Effect::Settled {
            expectation: self.expectation,
        }
    }

    fn overtaken(&self, revision: u64) -> Effect {
        match self.pushed {
            Some((lowest, highest)) if (lowest..=highest).contains(&revision) => Effect::Superseded,
            Some(_) | None => Effect::Unknown,
        }
    }

    #[must_use]
    pub fn expectation(&self) -> Expectation {
        self.expectation
    }

    /// How often to answer PINGs: the smallest of what the agent may be running.
    #[must_use]
    pub fn pong_every(&self) -> u32 {
        self.pong_every
    }

    /// What the agent acknowledged last.
    #[must_use]
    pub fn applied(&self) -> &Revised {
        &self.applied
    }

    /// The newest push while it is unanswered.
    #[must_use]
    pub fn waiting(&self) -> Option<&Revised> {
        self.newest.as_ref().filter(|_| !self.answered)
    }
}

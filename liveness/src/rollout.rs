//! Taking one candidate revision to the fleet in phases.
//!
//! A [`Rollout`] is a plain value: what it was asked ([`Plan`]) and how far it came ([`Progress`]). Its
//! owner applies a call, then stores the value together with the revision that the returned [`Change`]
//! asks for in one transaction; when that fails it loads the stored value and calls again, which decides
//! the same. Nothing here waits for an answer of anybody: phases end by soak time, and who has not
//! answered by then counts against the candidate.
//!
//! | decision | revision it needs |
//! |---|---|
//! | start, advance | the candidate for the ranks within the split, the last good one for the rest |
//! | halt by a guard, abort | the last good one for everybody: halt and rollback are one revision |
//! | pause, resume, completion | none: what is in force stays in force |
//! | superseded | none: the newer change is its own revision |

pub mod gathering;
pub mod guard;
pub mod phase;
pub mod plan;
mod progress;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

pub use gathering::{Gathering, Part, Shown};
pub use guard::{Answer, Evidence, Finding, Guard, Guards};
pub use phase::{AgentId, Phase, Size, Split};
pub use plan::{OnLittle, Plan, PlanError};
pub use progress::{Progress, Standing, State};

/// Longest time between two calls of [`Rollout::observe`] that counts as watched. An outage of the owner
/// or a step of the wall clock is not soak time.
pub const WATCHED_MOST: Duration = Duration::from_secs(30);

/// What the owner tells when a phase may begin.
#[derive(Debug, Clone, Copy)]
pub struct Push<'a> {
    /// Wall time since the epoch.
    pub now: Duration,
    /// Members that the candidate speaks of and that are connected.
    pub connected: &'a [AgentId],
    /// The number that a revision made in this transaction gets.
    pub revision: u64,
}

/// What is to be put into force.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A revision with the candidate within the split and the last good one outside.
    Split(Split),
    /// A revision with the values of the last good one for everybody.
    LastGood,
    /// Nothing: everybody has the candidate and it proved itself.
    Completed,
    /// Nothing: the phase saw too little to judge and waits for the operator.
    Paused,
}

/// A call that the state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rollout is {state}, {advice}")]
pub struct NotNow {
    state: &'static str,
    advice: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    pub plan: Plan,
    pub progress: Progress,
}

impl Rollout {
    /// # Errors
    /// A plan that breaks a rule.
    pub fn new(plan: Plan) -> Result<Self, PlanError> {
        plan.check()?;
        let progress = Progress {
            state: State::Planned,
            phase: 0,
            split: None,
            revision: plan.last_good,
            cohort: BTreeMap::new(),
            soaked: Duration::ZERO,
            watched_at: None,
            looks: 0,
            findings: Vec::new(),
        };
        Ok(Self { plan, progress })
    }

    /// Pushes the first phase.
    ///
    /// # Errors
    /// Unless it is planned.
    pub fn start(&mut self, push: Push<'_>) -> Result<Change, NotNow> {
        if self.progress.state != State::Planned {
            return Err(self.not_now("start a new one"));
        }
        Ok(self.begin(0, push))
    }

    /// A member's answer to a revision, or its leaving. Others' answers and those to other revisions
    /// do not count.
    pub fn tell(&mut self, agent: &AgentId, revision: u64, standing: Standing) {
        if revision != self.progress.revision || !self.is_running() {
            return;
        }
        if let Some(known) = self.progress.cohort.get_mut(agent) {
            *known = standing.max(*known);
        }
    }

    /// Counts soak time, and looks at the evidence of the phase when a look is due. To be called at
    /// least every [`WATCHED_MOST`], with all evidence since the phase began.
    pub fn observe(&mut self, push: Push<'_>, evidence: &Evidence) -> Option<Change> {
        if self.progress.state != State::Soaking {
            return None;
        }
        self.soak(push.now);
        let due = self.looks_due(self.progress.soaked);
        if due == self.progress.looks {
            return None;
        }
        self.progress.looks = due;
        self.look(push, evidence)
    }

    /// Whether [`Self::observe`] at `now` would look at the evidence.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        let due = self.looks_due(self.soaked_by(now));
        self.progress.state == State::Soaking && due != self.progress.looks
    }

    /// The owner was away, deaf or held verdicts until `now`: that time is neither watched nor soaked.
    pub fn skip(&mut self, now: Duration) {
        self.progress.watched_at = Some(now);
    }

    /// Stops soak time and looks; everybody keeps what they have.
    ///
    /// # Errors
    /// Unless a phase soaks.
    pub fn pause(&mut self) -> Result<(), NotNow> {
        if self.progress.state != State::Soaking {
            return Err(self.not_now("only one that soaks can be paused"));
        }
        self.progress.state = State::Paused;
        Ok(())
    }

    /// Goes on where it was paused; a phase that had its last look goes on to the next phase.
    ///
    /// # Errors
    /// Unless it is paused.
    pub fn resume(&mut self, push: Push<'_>) -> Result<Option<Change>, NotNow> {
        if self.progress.state != State::Paused {
            return Err(self.not_now("only a paused one can be resumed"));
        }
        self.progress.state = State::Soaking;
        self.progress.watched_at = Some(push.now);
        let over = self.progress.looks >= self.plan.looks;
        Ok(over.then(|| self.advance(push)))
    }

    /// Takes everybody back to the last good revision.
    ///
    /// # Errors
    /// Unless a phase was pushed and the rollout is not over.
    pub fn abort(&mut self) -> Result<Change, NotNow> {
        if !self.is_running() {
            return Err(self.not_now("only a running one can be aborted"));
        }
        self.end(State::Aborted);
        Ok(Change::LastGood)
    }

    /// A newer change takes its place.
    ///
    /// # Errors
    /// When the rollout is over.
    pub fn supersede(&mut self, by: u64) -> Result<(), NotNow> {
        if !self.is_running() && self.progress.state != State::Planned {
            return Err(self.not_now("nothing is left to supersede"));
        }
        self.end(State::Superseded { by });
        Ok(())
    }

    /// Has members on the candidate and may still change.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.progress.state, State::Soaking | State::Paused)
    }

    fn begin(&mut self, phase: usize, push: Push<'_>) -> Change {
        let size = self.plan.phases[phase].size;
        let split = Split::of(size, self.plan.seed, push.connected, self.progress.split);
        let reached = push.connected.iter().filter(|agent| split.includes(agent));
        self.progress = Progress {
            state: State::Soaking,
            phase,
            split: Some(split),
            revision: push.revision,
            cohort: reached.map(|agent| (*agent, Standing::Waiting)).collect(),
            soaked: Duration::ZERO,
            watched_at: Some(push.now),
            looks: 0,
            findings: Vec::new(),
        };
        Change::Split(split)
    }

    fn soak(&mut self, now: Duration) {
        self.progress.soaked = self.soaked_by(now);
        self.progress.watched_at = Some(now);
    }

    fn soaked_by(&self, now: Duration) -> Duration {
        let since = self.progress.watched_at.unwrap_or(now);
        self.progress.soaked + now.saturating_sub(since).min(WATCHED_MOST)
    }

    fn looks_due(&self, soaked: Duration) -> u32 {
        let soak = self.plan.phases[self.progress.phase].soak;
        let looks = self.plan.looks;
        let passed = |look: &u32| soaked * looks >= soak * *look;
        (1..=looks).rev().find(passed).unwrap_or(0)
    }

    fn look(&mut self, push: Push<'_>, evidence: &Evidence) -> Option<Change> {
        let findings = self.findings(evidence);
        let bad = findings.iter().find(|finding| finding.is_bad()).copied();
        let little = findings.iter().any(Finding::is_little);
        self.progress.findings = findings;
        if let Some(bad) = bad {
            self.end(State::RolledBack(bad));
            return Some(Change::LastGood);
        }
        if self.progress.looks < self.plan.looks {
            return None;
        }
        if little && self.plan.on_little == OnLittle::Pause {
            self.progress.state = State::Paused;
            return Some(Change::Paused);
        }
        Some(self.advance(push))
    }

    fn findings(&self, evidence: &Evidence) -> Vec<Finding> {
        let acked_by_now = self.progress.soaked >= self.plan.guards.ack_within;
        let standings = self.progress.cohort.values().copied();
        self.plan
            .guards
            .judge(standings, acked_by_now, evidence, self.plan.alpha())
    }

    fn advance(&mut self, push: Push<'_>) -> Change {
        let next = self.progress.phase + 1;
        if next < self.plan.phases.len() {
            return self.begin(next, push);
        }
        self.progress.state = State::Completed;
        Change::Completed
    }

    fn end(&mut self, state: State) {
        self.progress.state = state;
        self.progress.split = None;
    }

    fn not_now(&self, advice: &'static str) -> NotNow {
        let state = match self.progress.state {
            State::Planned => "planned",
            State::Soaking => "soaking",
            State::Paused => "paused",
            State::Completed => "completed",
            State::RolledBack(_) => "rolled back",
            State::Aborted => "aborted",
            State::Superseded { .. } => "superseded",
        };
        NotNow { state, advice }
    }
}

use std::collections::BTreeSet;

use fleetbeat_liveness::policy::PolicySet;
use fleetbeat_liveness::rollout::{AgentId, Finding, Gathering, Rollout, State};
use serde::Deserialize as _;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::stored::{StoredMembers, StoredPlan, StoredProgress};
use crate::store;
use crate::tuning::{Unreadable, stored};

/// One rollout with all that belongs to it: a value, read from Postgres and written back in steps.
#[derive(Clone, Debug)]
pub struct Course {
    /// 0 until Postgres has numbered it.
    pub id: u64,
    /// As they were read, or written last.
    pub steps: u64,
    pub rollout: Rollout,
    pub evidence: Gathering,
    /// Members that the candidate speaks of and that keep the last good revision in this phase, frozen at
    /// its push.
    pub rest: BTreeSet<AgentId>,
    pub candidate: PolicySet,
    /// The newest revision that it made.
    pub newest: u64,
    pub author: String,
    pub reason: String,
    pub started_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    pub ended_at: Option<OffsetDateTime>,
    /// How it ended, or why it is paused; empty while it soaks.
    pub outcome: String,
}

impl Course {
    pub fn read(stored: &store::rollouts::Rollout) -> Result<Self, Unreadable> {
        let unreadable = |source| Unreadable::Rollout {
            rollout: stored.rollout_id,
            source,
        };
        let (begun, standing) = (&stored.begun, &stored.standing);
        let members = match &standing.members {
            Some(members) => StoredMembers::deserialize(members).map_err(unreadable)?,
            None => StoredMembers::default(),
        };
        let (cohort, rest) = members.members();
        let progress = StoredProgress::deserialize(&standing.progress).map_err(unreadable)?;
        let (progress, evidence) = progress.progress(cohort);
        let plan = StoredPlan::deserialize(&begun.plan).map_err(unreadable)?;
        let plan = plan.plan();
        Ok(Self {
            id: stored.rollout_id,
            steps: stored.steps,
            candidate: stored::read(plan.candidate, &begun.candidate)?,
            newest: standing.revision,
            rollout: Rollout { plan, progress },
            evidence,
            rest,
            author: begun.author.clone(),
            reason: begun.reason.clone(),
            started_at: begun.started_at,
            updated_at: stored.updated_at,
            ended_at: standing.ended_at,
            outcome: standing.outcome.clone(),
        })
    }

    pub(in crate::tuning) fn begun(&self) -> store::rollouts::Begun {
        store::rollouts::Begun {
            plan: serde_json::to_value(StoredPlan::of(&self.rollout.plan)).unwrap_or_default(),
            candidate: stored::write(&self.candidate),
            candidate_hash: hash(&self.candidate),
            last_good: self.rollout.plan.last_good,
            author: self.author.clone(),
            reason: self.reason.clone(),
            started_at: self.started_at,
        }
    }

    /// As it is to be stored; `members` where they changed since they were stored last.
    pub(in crate::tuning) fn standing(&self, members: bool) -> store::rollouts::Standing {
        let progress = &self.rollout.progress;
        let members = members.then(|| StoredMembers::of(&progress.cohort, &self.rest));
        let stored = StoredProgress::of(progress, &self.evidence);
        store::rollouts::Standing {
            state: word(&progress.state).to_owned(),
            progress: serde_json::to_value(stored).unwrap_or_default(),
            members: members.and_then(|members| serde_json::to_value(members).ok()),
            revision: self.newest,
            ended_at: self.ended_at,
            outcome: self.outcome.clone(),
        }
    }

    /// A phase was pushed: who of `connected` is not in its cohort is its rest.
    pub(super) fn freeze(&mut self, connected: &[AgentId]) {
        let cohort = &self.rollout.progress.cohort;
        let others = connected
            .iter()
            .filter(|agent| !cohort.contains_key(*agent));
        self.rest = others.copied().collect();
        self.evidence.begin(self.rest.len());
    }

    #[must_use]
    pub fn is_running(&self) -> bool {
        self.rollout.is_running()
    }

    /// `phase 1 of 3, 5 % of the members, soaking`.
    #[must_use]
    pub fn place(&self) -> String {
        let (plan, progress) = (&self.rollout.plan, &self.rollout.progress);
        let size = plan.phases.get(progress.phase).map(|phase| phase.size);
        let size = size.map(size_in_words).unwrap_or_default();
        format!(
            "phase {} of {}, {size}, {}",
            progress.phase + 1,
            plan.phases.len(),
            word(&progress.state).replace('_', " ")
        )
    }

    /// What the last look had too little evidence of, as a list; empty when nothing.
    #[must_use]
    pub fn little(&self) -> String {
        let findings = self.rollout.progress.findings.iter();
        let little: Vec<&str> = findings
            .filter(|finding| finding.is_little())
            .map(|finding| finding.guard.as_str())
            .collect();
        little.join(", ")
    }

    /// How an end, or a pause that nobody asked for, reads.
    pub(in crate::tuning) fn tell(&mut self, at: OffsetDateTime, by: &str) {
        let little = match self.little() {
            little if little.is_empty() => String::new(),
            little => format!("little evidence of {little}"),
        };
        self.outcome = match &self.rollout.progress.state {
            State::Planned | State::Soaking => String::new(),
            State::Paused if by.is_empty() => {
                format!("paused: {little}; resume it to go on, or abort it")
            }
            State::Paused => format!("paused {by}"),
            State::Completed if little.is_empty() => "completed".to_owned(),
            State::Completed => format!("completed, with {little}"),
            State::RolledBack(finding) => rolled_back(finding),
            State::Aborted => format!("aborted {by}"),
            State::Superseded { by: revision } => {
                format!("superseded by revision {revision} {by}")
            }
        };
        self.ended_at = (!self.is_running()).then_some(at);
    }
}

pub(super) fn rolled_back(finding: &Finding) -> String {
    format!("rolled back: {finding}")
}

pub(super) fn size_in_words(size: fleetbeat_liveness::rollout::Size) -> String {
    use fleetbeat_liveness::rollout::Size;
    match size {
        Size::Percent(100) => "everybody".to_owned(),
        Size::Percent(percent) => format!("{percent} % of the members"),
        Size::Count(1) => "1 member".to_owned(),
        Size::Count(count) => format!("{count} members"),
    }
}

/// As the table's states are called.
#[must_use]
pub(super) fn word(state: &State) -> &'static str {
    match state {
        // A rollout is started by the transaction that makes it.
        State::Planned | State::Soaking => "soaking",
        State::Paused => "paused",
        State::Completed => "completed",
        State::RolledBack(_) => "rolled_back",
        State::Aborted => "aborted",
        State::Superseded { .. } => "superseded",
    }
}

/// SHA-256 of the policies, hexadecimal, whatever their revision.
pub(in crate::tuning) fn hash(candidate: &PolicySet) -> String {
    let text = stored::write(&candidate.unstaged()).to_string();
    let digest = Sha256::digest(text.as_bytes());
    digest
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

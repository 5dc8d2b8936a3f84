use fleetbeat_liveness::policy::PolicySet;
use fleetbeat_liveness::rollout::{Change, Gathering, Rollout};
use rand::RngExt as _;

use super::members::Affected;
use super::{Course, Staging, StagingError};
use crate::tuning::{Author, Desk, Failed};

/// A change that is to reach the fleet in phases.
pub(in crate::tuning) struct Start<'a> {
    pub staging: &'a Staging,
    pub candidate: PolicySet,
    /// What everybody else keeps, under the head's number.
    pub base: &'a PolicySet,
    /// The revision that these policies come from.
    pub last_good: u64,
    pub current: &'a PolicySet,
    pub author: &'a Author,
}

impl Desk {
    /// A course whose first phase is decided, with the policies to push; nothing is stored.
    pub(in crate::tuning) async fn prepare(
        &self,
        start: Start<'_>,
    ) -> Result<(Course, PolicySet), Failed> {
        let number = self.next_number(start.current);
        let affected = Affected::of(&self.registry, &start.candidate, start.base).await;
        let seed = rand::rng().random();
        let tunings = affected.tunings.iter().copied();
        let plan = start
            .staging
            .plan(seed, (number, start.last_good), tunings)?;
        let rollout = Rollout::new(plan).map_err(StagingError::from)?;
        let at = self.registry.clock().wall();
        let mut course = Course {
            id: 0,
            steps: 0,
            rollout,
            evidence: Gathering::default(),
            rest: std::collections::BTreeSet::new(),
            candidate: start.candidate,
            newest: number,
            author: start.author.name.clone(),
            reason: start.author.reason.clone(),
            started_at: at,
            updated_at: at,
            ended_at: None,
            outcome: String::new(),
        };
        let push = self.push_of(&affected, number);
        let mut policies = start.base.at_revision(number);
        if let Change::Split(split) = course.rollout.start(push)? {
            policies = policies.staged_to(split, &course.candidate);
        }
        course.freeze(&affected.connected);
        Ok((course, policies))
    }
}

use std::collections::BTreeMap;
use std::time::Duration;

use super::guard::Finding;
use super::phase::{AgentId, Split};

/// Where a member of the frozen cohort stands. Later ones win, in whatever order they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Has not answered the push.
    Waiting,
    Applied,
    Refused,
    /// Disconnected for good or said goodbye.
    Left,
}

#[derive(Debug, Clone, PartialEq)]
pub enum State {
    Planned,
    Soaking,
    Paused,
    Completed,
    /// A guard halted it; everybody returned to the last good revision.
    RolledBack(Finding),
    Aborted,
    Superseded {
        by: u64,
    },
}

/// How far a rollout came.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub state: State,
    /// Index into the plan's phases.
    pub phase: usize,
    pub split: Option<Split>,
    /// The revision that the phase was pushed with.
    pub revision: u64,
    /// Connected members within the split when the phase was pushed.
    pub cohort: BTreeMap<AgentId, Standing>,
    /// Soak time of the phase so far.
    pub soaked: Duration,
    /// Wall time of the last call since the epoch, once there was one.
    pub watched_at: Option<Duration>,
    /// Looks taken at the phase.
    pub looks: u32,
    /// What the last look found, a finding per guard.
    pub findings: Vec<Finding>,
}

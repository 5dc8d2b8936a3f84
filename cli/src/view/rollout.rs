use fleetbeat_proto::v1;
use fleetbeat_proto::v1::rollout_phase::Size;
use serde::Serialize;

use super::{Time, plain_name, told};

/// `fleetbeat tune rollout list`
#[derive(Debug, Serialize)]
pub(crate) struct RolloutList {
    /// Newest first.
    pub(crate) rollouts: Vec<Rollout>,
}

/// `fleetbeat tune rollout show`
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Rollout {
    pub(crate) rollout: u64,
    /// soaking, paused, completed, `rolled_back`, aborted, superseded.
    pub(crate) state: String,
    pub(crate) outcome: Option<String>,
    pub(crate) author: String,
    pub(crate) reason: String,
    pub(crate) started_at: Time,
    pub(crate) updated_at: Time,
    /// Null while it runs.
    pub(crate) ended_at: Option<Time>,
    pub(crate) phases: Vec<Phase>,
    /// Counts from 1.
    pub(crate) phase: u32,
    pub(crate) soaked_ns: u64,
    pub(crate) looks_taken: u32,
    pub(crate) looks: u32,
    /// advance or pause.
    pub(crate) on_little: String,
    pub(crate) last_good: u64,
    pub(crate) revision: u64,
    pub(crate) changes: Vec<String>,
    pub(crate) cohort: Cohort,
    pub(crate) candidate: Side,
    pub(crate) compared: Side,
    pub(crate) compared_with: String,
    /// Of the last look; empty before the first.
    pub(crate) findings: Vec<Finding>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Phase {
    pub(crate) percent: Option<u32>,
    pub(crate) count: Option<u32>,
    pub(crate) soak_ns: Option<u64>,
}

/// Members of the phase, frozen at its push.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Cohort {
    pub(crate) waiting: u64,
    pub(crate) applied: u64,
    pub(crate) refused: u64,
    pub(crate) left: u64,
    /// Those that kept the old policies.
    pub(crate) rest: u64,
}

/// What one side showed in the phase so far.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Side {
    /// That showed round trips.
    pub(crate) members: u64,
    pub(crate) member_hours: f64,
    pub(crate) disconnects: u64,
    pub(crate) reconnects: u64,
    pub(crate) rtt_p99_ns: Option<u64>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    /// disconnects, reconnects, rtt, refusals, unacked.
    pub(crate) guard: String,
    /// fine, worse, `over_limit`, `too_little`.
    pub(crate) answer: String,
    pub(crate) sentence: String,
}

impl RolloutList {
    pub(crate) fn from_wire(wire: v1::ListRolloutsResponse) -> Self {
        Self {
            rollouts: wire.rollouts.into_iter().map(Rollout::from_wire).collect(),
        }
    }
}

impl Rollout {
    pub(crate) fn from_wire(wire: v1::Rollout) -> Self {
        let state = v1::RolloutState::try_from(wire.state).ok();
        let state = state.map(|state| state.as_str_name());
        let on_little = v1::OnLittle::try_from(wire.on_little).ok();
        let on_little = on_little.map(|what| what.as_str_name());
        Self {
            rollout: wire.rollout,
            state: plain_name(state, "ROLLOUT_STATE_", wire.state),
            outcome: told(wire.outcome),
            author: wire.author,
            reason: wire.reason,
            started_at: Time(wire.started_unix_us),
            updated_at: Time(wire.updated_unix_us),
            ended_at: wire.ended_unix_us.map(Time),
            phases: wire.phases.into_iter().map(Phase::from_wire).collect(),
            phase: wire.phase.saturating_add(1),
            soaked_ns: wire.soaked_ns,
            looks_taken: wire.looks_taken,
            looks: wire.looks,
            on_little: plain_name(on_little, "ON_LITTLE_", wire.on_little),
            last_good: wire.last_good,
            revision: wire.revision,
            changes: wire.changes,
            cohort: wire.cohort.map(Cohort::from_wire).unwrap_or_default(),
            candidate: wire.candidate.map(Side::from_wire).unwrap_or_default(),
            compared: wire.compared.map(Side::from_wire).unwrap_or_default(),
            compared_with: wire.compared_with,
            findings: wire.findings.into_iter().map(Finding::from_wire).collect(),
        }
    }
}

impl Phase {
    fn from_wire(wire: v1::RolloutPhase) -> Self {
        let (percent, count) = match wire.size {
            Some(Size::Percent(percent)) => (Some(percent), None),
            Some(Size::Count(count)) => (None, Some(count)),
            None => (None, None),
        };
        Self {
            percent,
            count,
            soak_ns: wire.soak_ns,
        }
    }
}

impl Cohort {
    fn from_wire(wire: v1::RolloutCohort) -> Self {
        let v1::RolloutCohort {
            waiting,
            applied,
            refused,
            left,
            rest,
        } = wire;
        Self {
            waiting,
            applied,
            refused,
            left,
            rest,
        }
    }

    pub(crate) fn members(&self) -> u64 {
        self.waiting + self.applied + self.refused + self.left
    }
}

impl Side {
    fn from_wire(wire: v1::RolloutSide) -> Self {
        Self {
            members: wire.members,
            member_hours: wire.member_hours,
            disconnects: wire.disconnects,
            reconnects: wire.reconnects,
            rtt_p99_ns: wire.rtt_p99_ns,
        }
    }
}

impl Finding {
    fn from_wire(wire: v1::RolloutFinding) -> Self {
        let v1::RolloutFinding {
            guard,
            answer,
            sentence,
        } = wire;
        Self {
            guard,
            answer,
            sentence,
        }
    }
}

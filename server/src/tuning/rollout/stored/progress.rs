use std::collections::BTreeMap;
use std::time::Duration;

use fleetbeat_liveness::histogram::BUCKETS;
use fleetbeat_liveness::rollout::guard::{Against, Need, Side};
use fleetbeat_liveness::rollout::{
    AgentId, Answer, Finding, Gathering, Guard, Progress, Split, Standing, State,
};
use fleetbeat_proto::nanos;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::tuning::rollout) struct StoredProgress {
    state: StoredState,
    phase: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<StoredSplit>,
    revision: u64,
    soaked_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    watched_unix_us: Option<u64>,
    looks: u32,
    findings: Vec<StoredFinding>,
    evidence: StoredEvidence,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredState {
    Planned,
    Soaking,
    Paused,
    Completed,
    RolledBack(StoredFinding),
    Aborted,
    Superseded { by: u64 },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSplit {
    seed: u64,
    reach: u64,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
struct StoredFinding {
    #[serde(with = "GuardWord")]
    guard: Guard,
    #[serde(with = "StoredAnswer")]
    answer: Answer,
    #[serde(with = "AgainstWord")]
    against: Against,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Guard", rename_all = "snake_case")]
enum GuardWord {
    Disconnects,
    Reconnects,
    Rtt,
    Refusals,
    Unacked,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Answer", rename_all = "snake_case")]
enum StoredAnswer {
    Fine,
    Worse {
        candidate: f64,
        old: f64,
    },
    OverLimit {
        candidate: f64,
        limit: f64,
    },
    #[serde(with = "StoredNeed")]
    TooLittle(Need),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Need", rename_all = "snake_case")]
enum StoredNeed {
    MemberHours(f64),
    Members(u32),
    Cohort(u32),
    Time,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Against", rename_all = "snake_case")]
enum AgainstWord {
    Rest,
    Before,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredEvidence {
    candidate: StoredSide,
    rest: StoredSide,
    before: StoredSide,
    #[serde(with = "AgainstWord")]
    against: Against,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSide {
    members: u32,
    member_hours: f64,
    disconnects: u32,
    reconnects: u32,
    /// Counts of the buckets that have any.
    rtt: BTreeMap<usize, u64>,
}

impl StoredProgress {
    pub(in crate::tuning::rollout) fn of(progress: &Progress, evidence: &Gathering) -> Self {
        let micros = |at: Duration| u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        Self {
            state: StoredState::of(&progress.state),
            phase: progress.phase,
            split: progress
                .split
                .map(|Split { seed, reach }| StoredSplit { seed, reach }),
            revision: progress.revision,
            soaked_ns: nanos(progress.soaked),
            watched_unix_us: progress.watched_at.map(micros),
            looks: progress.looks,
            findings: progress
                .findings
                .iter()
                .copied()
                .map(StoredFinding::of)
                .collect(),
            evidence: StoredEvidence {
                candidate: StoredSide::of(&evidence.candidate),
                rest: StoredSide::of(&evidence.rest),
                before: StoredSide::of(&evidence.before),
                against: evidence.against,
            },
        }
    }

    pub(in crate::tuning::rollout) fn progress(
        self,
        cohort: BTreeMap<AgentId, Standing>,
    ) -> (Progress, Gathering) {
        let evidence = Gathering {
            candidate: self.evidence.candidate.side(),
            rest: self.evidence.rest.side(),
            before: self.evidence.before.side(),
            against: self.evidence.against,
        };
        let progress = Progress {
            state: self.state.state(),
            phase: self.phase,
            split: self
                .split
                .map(|StoredSplit { seed, reach }| Split { seed, reach }),
            revision: self.revision,
            cohort,
            soaked: Duration::from_nanos(self.soaked_ns),
            watched_at: self.watched_unix_us.map(Duration::from_micros),
            looks: self.looks,
            findings: self
                .findings
                .into_iter()
                .map(StoredFinding::finding)
                .collect(),
        };
        (progress, evidence)
    }
}

impl StoredState {
    fn of(state: &State) -> Self {
        match state {
            State::Planned => Self::Planned,
            State::Soaking => Self::Soaking,
            State::Paused => Self::Paused,
            State::Completed => Self::Completed,
            State::RolledBack(finding) => Self::RolledBack(StoredFinding::of(*finding)),
            State::Aborted => Self::Aborted,
            State::Superseded { by } => Self::Superseded { by: *by },
        }
    }

    fn state(self) -> State {
        match self {
            Self::Planned => State::Planned,
            Self::Soaking => State::Soaking,
            Self::Paused => State::Paused,
            Self::Completed => State::Completed,
            Self::RolledBack(finding) => State::RolledBack(finding.finding()),
            Self::Aborted => State::Aborted,
            Self::Superseded { by } => State::Superseded { by },
        }
    }
}

impl StoredFinding {
    fn of(
        Finding {
            guard,
            answer,
            against,
        }: Finding,
    ) -> Self {
        Self {
            guard,
            answer,
            against,
        }
    }

    fn finding(self) -> Finding {
        let Self {
            guard,
            answer,
            against,
        } = self;
        Finding {
            guard,
            answer,
            against,
        }
    }
}

impl StoredSide {
    fn of(side: &Side) -> Self {
        let counts = side.rtt.iter().copied().enumerate();
        Self {
            members: side.members,
            member_hours: side.member_hours,
            disconnects: side.disconnects,
            reconnects: side.reconnects,
            rtt: counts.filter(|(_, count)| *count > 0).collect(),
        }
    }

    fn side(self) -> Side {
        let mut rtt = Vec::new();
        for (bucket, count) in self.rtt {
            rtt.resize(BUCKETS, 0);
            rtt[bucket.min(BUCKETS - 1)] += count;
        }
        Side {
            members: self.members,
            member_hours: self.member_hours,
            disconnects: self.disconnects,
            reconnects: self.reconnects,
            rtt,
        }
    }
}

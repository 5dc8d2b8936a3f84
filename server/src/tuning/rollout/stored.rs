//! A rollout as Postgres keeps it: JSON with units in its names.

mod progress;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleetbeat_liveness::rollout::guard::Rate;
use fleetbeat_liveness::rollout::{AgentId, Guards, OnLittle, Phase, Plan, Size, Standing};
use fleetbeat_proto::nanos;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(super) use progress::StoredProgress;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredPlan {
    seed: u64,
    candidate: u64,
    last_good: u64,
    phases: Vec<StoredPhase>,
    looks: u32,
    #[serde(with = "OnLittleWord")]
    on_little: OnLittle,
    guards: StoredGuards,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPhase {
    #[serde(with = "SizeWord")]
    size: Size,
    soak_ns: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Size", rename_all = "snake_case")]
enum SizeWord {
    Percent(u32),
    Count(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "OnLittle", rename_all = "snake_case")]
enum OnLittleWord {
    Advance,
    Pause,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredGuards {
    false_halts: f64,
    #[serde(with = "StoredRate")]
    disconnects: Rate,
    #[serde(with = "StoredRate")]
    reconnects: Rate,
    rtt_tolerated: f64,
    rtt_limit_ns: u64,
    refused: f64,
    unacked: f64,
    ack_within_ns: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Rate", deny_unknown_fields)]
struct StoredRate {
    tolerated: f64,
    harm: f64,
    limit: f64,
}

/// Who is watched, frozen at the push.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StoredMembers {
    waiting: Vec<Uuid>,
    applied: Vec<Uuid>,
    refused: Vec<Uuid>,
    left: Vec<Uuid>,
    rest: Vec<Uuid>,
}

impl StoredPlan {
    pub(super) fn of(plan: &Plan) -> Self {
        let Guards {
            false_halts,
            disconnects,
            reconnects,
            rtt_tolerated,
            rtt_limit,
            refused,
            unacked,
            ack_within,
        } = plan.guards;
        let phases = plan.phases.iter().map(|phase| StoredPhase {
            size: phase.size,
            soak_ns: nanos(phase.soak),
        });
        Self {
            seed: plan.seed,
            candidate: plan.candidate,
            last_good: plan.last_good,
            phases: phases.collect(),
            looks: plan.looks,
            on_little: plan.on_little,
            guards: StoredGuards {
                false_halts,
                disconnects,
                reconnects,
                rtt_tolerated,
                rtt_limit_ns: nanos(rtt_limit),
                refused,
                unacked,
                ack_within_ns: nanos(ack_within),
            },
        }
    }

    pub(super) fn plan(self) -> Plan {
        let guards = self.guards;
        let phases = self.phases.into_iter().map(|phase| Phase {
            size: phase.size,
            soak: Duration::from_nanos(phase.soak_ns),
        });
        Plan {
            seed: self.seed,
            candidate: self.candidate,
            last_good: self.last_good,
            phases: phases.collect(),
            looks: self.looks,
            guards: Guards {
                false_halts: guards.false_halts,
                disconnects: guards.disconnects,
                reconnects: guards.reconnects,
                rtt_tolerated: guards.rtt_tolerated,
                rtt_limit: Duration::from_nanos(guards.rtt_limit_ns),
                refused: guards.refused,
                unacked: guards.unacked,
                ack_within: Duration::from_nanos(guards.ack_within_ns),
            },
            on_little: self.on_little,
        }
    }
}

impl StoredMembers {
    pub(super) fn of(cohort: &BTreeMap<AgentId, Standing>, rest: &BTreeSet<AgentId>) -> Self {
        let standing = |wanted: Standing| {
            let members = cohort
                .iter()
                .filter(move |(_, standing)| **standing == wanted);
            members.map(|(agent, _)| Uuid::from_bytes(*agent)).collect()
        };
        Self {
            waiting: standing(Standing::Waiting),
            applied: standing(Standing::Applied),
            refused: standing(Standing::Refused),
            left: standing(Standing::Left),
            rest: rest.iter().copied().map(Uuid::from_bytes).collect(),
        }
    }

    pub(super) fn members(self) -> (BTreeMap<AgentId, Standing>, BTreeSet<AgentId>) {
        let lists = [
            (self.waiting, Standing::Waiting),
            (self.applied, Standing::Applied),
            (self.refused, Standing::Refused),
            (self.left, Standing::Left),
        ];
        let cohort = lists.into_iter().flat_map(|(agents, standing)| {
            let bytes = agents.into_iter().map(Uuid::into_bytes);
            bytes.map(move |agent| (agent, standing))
        });
        let rest = self.rest.into_iter().map(Uuid::into_bytes);
        (cohort.collect(), rest.collect())
    }
}

#[cfg(test)]
mod tests {
    use fleetbeat_liveness::histogram::BUCKETS;
    use fleetbeat_liveness::rollout::guard::{Against, Need, Side};
    use fleetbeat_liveness::rollout::{Answer, Finding, Gathering, Guard, Progress, Split, State};

    use super::*;

    fn plan() -> Plan {
        let soak = Duration::from_mins(10);
        let sizes = [Size::Count(3), Size::Percent(25), Size::Percent(100)];
        Plan {
            seed: u64::MAX - 3,
            candidate: 8,
            last_good: 7,
            phases: sizes.map(|size| Phase { size, soak }).to_vec(),
            looks: 4,
            guards: Guards::default(),
            on_little: OnLittle::Pause,
        }
    }

    fn finding(guard: Guard, answer: Answer) -> Finding {
        let against = Against::Before;
        Finding {
            guard,
            answer,
            against,
        }
    }

    #[test]
    fn plan_survives_storage() {
        let stored = serde_json::to_value(StoredPlan::of(&plan())).unwrap();
        assert_eq!(StoredPlan::deserialize(&stored).unwrap().plan(), plan());
    }

    /// Every state and every kind of finding, with all that was counted.
    #[test]
    fn progress_evidence_and_members_survive_storage() {
        let over = Answer::OverLimit {
            candidate: 2.5,
            limit: 1.0,
        };
        let worse = Answer::Worse {
            candidate: 14.2,
            old: 0.1,
        };
        let needs = [
            Need::MemberHours(7.5),
            Need::Members(900),
            Need::Cohort(3),
            Need::Time,
        ];
        let findings: Vec<Finding> = needs
            .into_iter()
            .map(|need| finding(Guard::Unacked, Answer::TooLittle(need)))
            .chain([
                finding(Guard::Rtt, over),
                finding(Guard::Refusals, Answer::Fine),
            ])
            .collect();
        let mut rtt = vec![0; BUCKETS];
        (rtt[7], rtt[BUCKETS - 1]) = (3, 1);
        let side = |members| Side {
            members,
            member_hours: 1.25,
            disconnects: 2,
            reconnects: 1,
            rtt: rtt.clone(),
        };
        let evidence = Gathering {
            candidate: side(1),
            rest: Side::default(),
            before: side(2),
            against: Against::Before,
        };
        let cohort = BTreeMap::from([
            ([1; 16], Standing::Waiting),
            ([2; 16], Standing::Applied),
            ([3; 16], Standing::Refused),
            ([4; 16], Standing::Left),
        ]);
        let rest = BTreeSet::from([[5; 16], [6; 16]]);
        for state in [
            State::Planned,
            State::Soaking,
            State::Paused,
            State::Completed,
            State::RolledBack(finding(Guard::Disconnects, worse)),
            State::Aborted,
            State::Superseded { by: 12 },
        ] {
            let progress = Progress {
                state,
                phase: 1,
                split: Some(Split {
                    seed: u64::MAX,
                    reach: u64::MAX - 1,
                }),
                revision: 9,
                cohort: cohort.clone(),
                soaked: Duration::from_nanos(1_234_567_891),
                watched_at: Some(Duration::from_micros(1_800_000_000_000_001)),
                looks: 2,
                findings: findings.clone(),
            };
            let stored = serde_json::to_value(StoredProgress::of(&progress, &evidence)).unwrap();
            let members = serde_json::to_value(StoredMembers::of(&cohort, &rest)).unwrap();
            let (read, others) = StoredMembers::deserialize(&members).unwrap().members();
            assert_eq!(others, rest);
            let read = StoredProgress::deserialize(&stored).unwrap().progress(read);
            assert_eq!(read, (progress, evidence.clone()));
        }
    }

    #[test]
    fn what_a_later_version_wrote_is_refused() {
        let mut stored = serde_json::to_value(StoredPlan::of(&plan())).unwrap();
        stored["weather"] = "rain".into();
        assert!(StoredPlan::deserialize(&stored).is_err());
    }
}

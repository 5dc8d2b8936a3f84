use std::collections::BTreeMap;

use fleetbeat_liveness as liveness;
use fleetbeat_proto::{nanos, v1};
use serde::Serialize;

use super::Time;

/// T, N, W as one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Tuning {
    pub(crate) interval_ns: u64,
    pub(crate) misses: u32,
    pub(crate) timeout_ns: u64,
    pub(crate) pong_every: u32,
    pub(crate) adaptive: bool,
    /// D; unset when the values are outside the bounds that this program knows.
    pub(crate) deadline_ns: Option<u64>,
    /// Longest silence that is ever tolerated: 2·D in adaptive mode, else D; unset as D is.
    pub(crate) deadline_at_most_ns: Option<u64>,
}

impl Tuning {
    /// Nothing when one of the three is missing.
    pub(crate) fn from_wire(wire: &v1::Tuning) -> Option<Self> {
        let (interval_ns, misses, timeout_ns) = (wire.interval_ns?, wire.misses?, wire.timeout_ns?);
        let pong_every = wire.pong_every.unwrap_or(1);
        let within_bounds = liveness::Tuning::try_from(*wire).ok();
        let deadline_ns = within_bounds.map(|tuning| nanos(tuning.deadline()));
        let deadline_at_most_ns = within_bounds.map(|tuning| nanos(tuning.deadline_at_most()));
        Some(Self {
            interval_ns,
            misses,
            timeout_ns,
            pong_every,
            adaptive: wire.adaptive.unwrap_or(false),
            deadline_ns,
            deadline_at_most_ns,
        })
    }

    pub(crate) fn of(wire: Option<&v1::Tuning>) -> Option<Self> {
        wire.and_then(Self::from_wire)
    }
}

/// A tuning with the revision that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Revised {
    pub(crate) revision: u64,
    #[serde(flatten)]
    pub(crate) tuning: Tuning,
}

impl Revised {
    pub(crate) fn of(wire: Option<&v1::RevisedTuning>) -> Option<Self> {
        let wire = wire?;
        Some(Self {
            revision: wire.revision,
            tuning: Tuning::of(wire.tuning.as_ref())?,
        })
    }
}

/// `fleetbeat tune show`
#[derive(Debug, Serialize)]
pub(crate) struct Policies {
    pub(crate) revision: u64,
    /// In order: of several that give an agent the same value the last one holds.
    pub(crate) policies: Vec<Policy>,
    /// What a part of the agents has instead, while a rollout is on its way.
    pub(crate) staged: Option<Staged>,
    /// Where no policy speaks.
    pub(crate) defaults: Option<Tuning>,
    /// For the agent or group that was asked for.
    pub(crate) effective: Option<Revised>,
    pub(crate) effective_because: Option<String>,
    pub(crate) sources: Vec<Source>,
}

/// Policies of a candidate.
#[derive(Debug, Serialize)]
pub(crate) struct Staged {
    /// Of all agents by their hash, which is about that of members.
    pub(crate) share: f64,
    pub(crate) policies: Vec<Policy>,
}

/// What one policy gives whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Policy {
    pub(crate) name: String,
    /// All that is set must be met.
    pub(crate) group: Option<String>,
    pub(crate) agent_ids: Vec<String>,
    pub(crate) labels: BTreeMap<String, Vec<String>>,
    pub(crate) interval_ns: Option<u64>,
    pub(crate) misses: Option<u32>,
    pub(crate) timeout_ns: Option<u64>,
    /// D; none when the policy gives no T, N and W.
    pub(crate) deadline_ns: Option<u64>,
    /// 2·D when the policy is adaptive, else D.
    pub(crate) deadline_at_most_ns: Option<u64>,
    pub(crate) pong_every: Option<u32>,
    pub(crate) adaptive: Option<bool>,
    /// When it goes by itself.
    pub(crate) expires_at: Option<Time>,
}

/// Where one value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Source {
    /// `T, N, W`, `pong_every` or `adaptive`.
    pub(crate) value: String,
    /// No policy is the built-in default.
    pub(crate) policy: Option<String>,
    /// Why another policy's value is not in force.
    pub(crate) yielded: Option<String>,
}

impl Policies {
    pub(crate) fn from_wire(wire: v1::GetTuningResponse) -> Self {
        let set = wire.policies.unwrap_or_default();
        let policies =
            |policies: Vec<v1::Policy>| policies.into_iter().map(Policy::from_wire).collect();
        let source = |source: v1::ValueSource| Source {
            value: source.value,
            policy: super::told(source.policy),
            yielded: super::told(source.yielded),
        };
        Self {
            revision: set.revision,
            policies: policies(set.policies),
            staged: set.staged.map(|staged| Staged {
                share: share(staged.reach),
                policies: policies(staged.policies),
            }),
            defaults: Tuning::of(wire.defaults.as_ref()),
            effective: Revised::of(wire.effective.as_ref()),
            effective_because: super::told(wire.effective_because),
            sources: wire.sources.into_iter().map(source).collect(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no 64 bits")]
fn share(reach: u64) -> f64 {
    reach as f64 / u64::MAX as f64
}

impl Policy {
    pub(crate) fn from_wire(wire: v1::Policy) -> Self {
        let selector = wire.selector.unwrap_or_default();
        let tuning = wire.tuning.unwrap_or_default();
        let labels = selector
            .labels
            .into_iter()
            .map(|(key, of)| (key, of.values));
        let whole = Tuning::from_wire(&tuning);
        Self {
            name: wire.name,
            group: selector.group,
            agent_ids: selector.agent_ids,
            labels: labels.collect(),
            interval_ns: tuning.interval_ns,
            misses: tuning.misses,
            timeout_ns: tuning.timeout_ns,
            deadline_ns: whole.and_then(|tuning| tuning.deadline_ns),
            deadline_at_most_ns: whole.and_then(|tuning| tuning.deadline_at_most_ns),
            pong_every: tuning.pong_every,
            adaptive: tuning.adaptive,
            expires_at: wire.expires_unix_us.map(Time),
        }
    }
}

/// `fleetbeat tune set`, `unset`, `apply`, `diff`, `rollback`
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    /// The revision made; none for a dry run or when nothing would change.
    pub(crate) revision: Option<u64>,
    pub(crate) dry_run: bool,
    /// A line per policy.
    pub(crate) changes: Vec<String>,
    /// For an agent that just meets the selector; for whole sets, one that only the policies of the whole
    /// fleet speak of.
    pub(crate) before: Option<Tuning>,
    pub(crate) after: Option<Tuning>,
    /// Live agents to which the value goes.
    pub(crate) targets: u64,
    /// Expected of all known agents.
    pub(crate) beats_per_second_before: f64,
    pub(crate) beats_per_second_after: f64,
    /// Limits of the fleet that the change exceeds.
    pub(crate) exceeded: Vec<String>,
    /// Of a change that reaches the fleet in phases.
    pub(crate) staged_to: Option<StagedTo>,
    /// Where the push ended; none when it was not waited for.
    pub(crate) progress: Option<Progress>,
}

/// Where a rollout begins.
#[derive(Debug, Serialize)]
pub(crate) struct StagedTo {
    /// 0 for a dry run.
    pub(crate) rollout: u64,
    /// Connected members that its first phase reaches.
    pub(crate) cohort: u64,
    /// Connected members of whom it speaks.
    pub(crate) connected: u64,
}

impl Outcome {
    pub(crate) fn from_wire(wire: v1::SetTuningResponse, dry_run: bool) -> Self {
        Self {
            revision: wire.revision,
            dry_run,
            changes: wire.changes,
            before: Tuning::of(wire.before.as_ref()),
            after: Tuning::of(wire.after.as_ref()),
            targets: wire.targets,
            beats_per_second_before: wire.beats_per_second_before,
            beats_per_second_after: wire.beats_per_second_after,
            exceeded: wire.exceeded,
            staged_to: wire.staged_to.map(|staged| StagedTo {
                rollout: staged.rollout,
                cohort: staged.cohort,
                connected: staged.connected,
            }),
            progress: None,
        }
    }
}

/// `fleetbeat tune watch`, and the end of `tune set`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Progress {
    pub(crate) revision: u64,
    pub(crate) targets: u64,
    pub(crate) applied: u64,
    pub(crate) refused: u64,
    pub(crate) lost: u64,
    pub(crate) superseded: u64,
    pub(crate) waiting: u64,
    /// Of those that wait: not acknowledged in time.
    pub(crate) overdue: u64,
    pub(crate) ack_p50_ns: Option<u64>,
    pub(crate) ack_p99_ns: Option<u64>,
    pub(crate) refusals: Vec<Refusal>,
    /// The server says that nothing more is to come.
    pub(crate) done: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Refusal {
    pub(crate) agent_id: String,
    pub(crate) agent_name: String,
    pub(crate) reason: String,
}

impl Progress {
    pub(crate) fn from_wire(wire: v1::RevisionProgress) -> Self {
        let refusal = |refusal: v1::Refusal| Refusal {
            agent_id: refusal.agent_id,
            agent_name: refusal.agent_name,
            reason: refusal.reason,
        };
        Self {
            revision: wire.revision,
            targets: wire.targets,
            applied: wire.applied,
            refused: wire.refused,
            lost: wire.lost,
            superseded: wire.superseded,
            waiting: wire.waiting,
            overdue: wire.overdue,
            ack_p50_ns: wire.ack_p50_ns,
            ack_p99_ns: wire.ack_p99_ns,
            refusals: wire.refusals.into_iter().map(refusal).collect(),
            done: wire.done,
        }
    }

    /// Every agent that was sent the value has applied it.
    pub(crate) fn all_applied(&self) -> bool {
        self.done && self.applied == self.targets
    }

    /// Targets from which nothing more is to come.
    pub(crate) fn settled(&self) -> u64 {
        self.targets.saturating_sub(self.waiting)
    }
}

/// `fleetbeat tune history`
#[derive(Debug, Serialize)]
pub(crate) struct Revisions {
    /// Newest first.
    pub(crate) revisions: Vec<Revision>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Revision {
    pub(crate) revision: u64,
    pub(crate) parent: u64,
    pub(crate) created_at: Time,
    pub(crate) author: String,
    pub(crate) reason: String,
    pub(crate) changes: Vec<String>,
    /// Live agents on which it is the one last applied.
    pub(crate) applied_now: u64,
    /// Live agents that were sent it last and do not run it.
    pub(crate) drifting_now: u64,
}

impl Revision {
    pub(crate) fn from_wire(wire: v1::Revision) -> Self {
        Self {
            revision: wire.revision,
            parent: wire.parent,
            created_at: Time(wire.created_unix_us),
            author: wire.author,
            reason: wire.reason,
            changes: wire.changes,
            applied_now: wire.applied_now,
            drifting_now: wire.drifting_now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(interval_ns: u64) -> v1::Tuning {
        v1::Tuning {
            interval_ns: Some(interval_ns),
            misses: Some(3),
            timeout_ns: Some(2_000_000_000),
            pong_every: None,
            adaptive: None,
        }
    }

    #[test]
    fn the_deadline_is_n_times_t_plus_w() {
        let tuning = Tuning::from_wire(&wire(20_000_000_000)).unwrap();
        assert_eq!(tuning.deadline_ns, Some(62_000_000_000));
        assert_eq!(tuning.pong_every, 1);
    }

    #[test]
    fn values_beyond_the_bounds_are_shown_without_a_deadline() {
        let tuning = Tuning::from_wire(&wire(u64::MAX)).unwrap();
        assert_eq!((tuning.interval_ns, tuning.deadline_ns), (u64::MAX, None));
    }

    #[test]
    fn a_part_alone_is_no_tuning() {
        assert_eq!(
            Tuning::from_wire(&v1::Tuning {
                misses: None,
                ..wire(1)
            }),
            None
        );
    }

    #[test]
    fn all_applied_needs_the_end_of_the_push() {
        let progress = Progress {
            targets: 2,
            applied: 2,
            ..Progress::default()
        };
        assert!(!progress.all_applied());
        assert!(
            Progress {
                done: true,
                ..progress.clone()
            }
            .all_applied()
        );
        assert!(
            !Progress {
                done: true,
                applied: 1,
                lost: 1,
                ..progress
            }
            .all_applied()
        );
    }
}

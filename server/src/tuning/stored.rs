//! A policy set as Postgres keeps it: JSON with units in its names. What earlier versions wrote, a plain
//! list of whole tunings per group, is read as well.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleetbeat_liveness::policy::{Cadence, Policy, PolicySet, Selector, Values};
use fleetbeat_liveness::rollout::Split;
use fleetbeat_liveness::tuning::{Tuning, TuningError};
use fleetbeat_proto::nanos;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::store::tuning::Revision;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSet {
    policies: Vec<StoredPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    staged: Option<StoredStaging>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredStaging {
    seed: u64,
    reach: u64,
    policies: Vec<StoredPolicy>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPolicy {
    name: String,
    selector: StoredSelector,
    #[serde(skip_serializing_if = "Option::is_none")]
    cadence: Option<StoredCadence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pong_every: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    adaptive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_unix_us: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCadence {
    interval_ns: u64,
    misses: u32,
    timeout_ns: u64,
}

/// Empty for the whole fleet.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSelector {
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    agents: BTreeSet<Uuid>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, BTreeSet<String>>,
}

/// As written by versions that knew one policy per group.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WholeTuning {
    selector: StoredSelector,
    interval_ns: u64,
    misses: u32,
    timeout_ns: u64,
    pong_every: u32,
    #[serde(default)]
    adaptive: bool,
}

/// Why stored policies cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Written by a later version, or by hand.
    #[error(
        "revision {revision} holds policies that this version does not understand; is a later version of the server in use?"
    )]
    Form {
        revision: u64,
        source: serde_json::Error,
    },
    /// Values that were never accepted by a server.
    #[error("revision {revision} holds a tuning out of bounds")]
    Bounds { revision: u64, source: TuningError },
    #[error(
        "rollout {rollout} is stored in a form that this version does not understand; is a later version of the server in use?"
    )]
    Rollout {
        rollout: u64,
        source: serde_json::Error,
    },
}

pub(super) fn write(policies: &PolicySet) -> Value {
    let stored = |policies: &[Policy]| policies.iter().map(StoredPolicy::of).collect();
    let staged = policies.staged().map(|staged| StoredStaging {
        seed: staged.split.seed,
        reach: staged.split.reach,
        policies: stored(staged.policies),
    });
    let set = StoredSet {
        policies: stored(policies.policies()),
        staged,
    };
    serde_json::to_value(set).unwrap_or_default()
}

pub(super) fn read(revision: u64, value: &Value) -> Result<PolicySet, Unreadable> {
    let form = |source| Unreadable::Form { revision, source };
    let bounds = |source| Unreadable::Bounds { revision, source };
    if value.is_array() {
        let whole = Vec::<WholeTuning>::deserialize(value).map_err(form)?;
        let policies = whole.into_iter().map(WholeTuning::policy);
        let policies = policies.collect::<Result<Vec<_>, _>>().map_err(bounds)?;
        return Ok(PolicySet::new(revision, policies));
    }
    let StoredSet { policies, staged } = StoredSet::deserialize(value).map_err(form)?;
    let set = |policies: Vec<StoredPolicy>| -> Result<PolicySet, Unreadable> {
        let policies = policies.into_iter().map(StoredPolicy::policy);
        let policies = policies.collect::<Result<Vec<_>, _>>().map_err(bounds)?;
        Ok(PolicySet::new(revision, policies))
    };
    let policies = set(policies)?;
    let Some(staged) = staged else {
        return Ok(policies);
    };
    let split = Split {
        seed: staged.seed,
        reach: staged.reach,
    };
    Ok(policies.staged_to(split, &set(staged.policies)?))
}

/// Policies of a revision that was read.
///
/// # Errors
/// A later version wrote them, or nobody did.
pub fn policies_of(made: &Revision) -> Result<PolicySet, Unreadable> {
    read(made.revision, &made.draft.policies)
}

/// One tuning, for the audit.
pub(super) fn tuning(tuning: Tuning) -> Value {
    serde_json::json!({
        "interval_ns": nanos(tuning.interval()),
        "misses": tuning.misses(),
        "timeout_ns": nanos(tuning.timeout()),
        "pong_every": tuning.pong_every(),
        "adaptive": tuning.adaptive(),
    })
}

impl StoredPolicy {
    fn of(policy: &Policy) -> Self {
        let micros = |at: Duration| u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        let cadence = policy.values.cadence.map(|cadence| StoredCadence {
            interval_ns: nanos(cadence.interval()),
            misses: cadence.misses(),
            timeout_ns: nanos(cadence.timeout()),
        });
        Self {
            name: policy.name.clone(),
            selector: StoredSelector::of(&policy.selector),
            cadence,
            pong_every: policy.values.pong_every,
            adaptive: policy.values.adaptive,
            expires_unix_us: policy.expires_at.map(micros),
        }
    }

    fn policy(self) -> Result<Policy, TuningError> {
        let cadence = self.cadence.map(|cadence| {
            let interval = Duration::from_nanos(cadence.interval_ns);
            Cadence::new(
                interval,
                cadence.misses,
                Duration::from_nanos(cadence.timeout_ns),
            )
        });
        let values = Values {
            cadence: cadence.transpose()?,
            pong_every: self.pong_every,
            adaptive: self.adaptive,
        };
        values.check()?;
        Ok(Policy {
            name: self.name,
            selector: self.selector.selector(),
            values,
            expires_at: self.expires_unix_us.map(Duration::from_micros),
        })
    }
}

impl StoredSelector {
    fn of(selector: &Selector) -> Self {
        Self {
            group: selector.group.clone(),
            agents: selector
                .agents
                .iter()
                .copied()
                .map(Uuid::from_bytes)
                .collect(),
            labels: selector.labels.clone(),
        }
    }

    fn selector(self) -> Selector {
        Selector {
            group: self.group,
            agents: self.agents.into_iter().map(Uuid::into_bytes).collect(),
            labels: self.labels,
        }
    }
}

impl WholeTuning {
    fn policy(self) -> Result<Policy, TuningError> {
        let interval = Duration::from_nanos(self.interval_ns);
        let timeout = Duration::from_nanos(self.timeout_ns);
        let tuning = Tuning::new(interval, self.misses, timeout, self.pong_every)?;
        let tuning = tuning.with_adaptive(self.adaptive)?;
        Ok(Policy::whole(self.selector.selector(), tuning))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies() -> PolicySet {
        let tuning = Tuning::new(Duration::from_millis(500), 4, Duration::from_millis(400), 2);
        let adaptive = Tuning::default().with_adaptive(true).unwrap();
        PolicySet::new(
            9,
            [
                Policy::whole(Selector::fleet(), adaptive),
                Policy::whole(Selector::group("web"), tuning.unwrap()),
                Policy {
                    name: "drill".to_owned(),
                    selector: Selector {
                        group: None,
                        agents: [[3; 16], [4; 16]].into(),
                        labels: BTreeMap::from([(
                            "zone".to_owned(),
                            ["a", "b"].map(str::to_owned).into(),
                        )]),
                    },
                    values: Values {
                        pong_every: Some(1),
                        ..Values::default()
                    },
                    expires_at: Some(Duration::from_micros(1_800_000_000_000_001)),
                },
            ],
        )
    }

    #[test]
    fn policies_survive_storage() {
        let policies = policies();
        assert_eq!(read(9, &write(&policies)).unwrap(), policies);
        let none = read(3, &write(&PolicySet::default())).unwrap();
        assert_eq!(none.policies(), []);
    }

    #[test]
    fn staging_survives_storage() {
        let split = Split {
            seed: u64::MAX - 1,
            reach: u64::MAX - 2,
        };
        let staged = PolicySet::default()
            .at_revision(9)
            .staged_to(split, &policies());
        assert_eq!(read(9, &write(&staged)).unwrap(), staged);
    }

    #[test]
    fn whole_tunings_per_group_of_earlier_versions_are_read() {
        let earlier = serde_json::json!([
            {"selector": {}, "interval_ns": 20_000_000_000_u64, "misses": 3,
             "timeout_ns": 2_000_000_000, "pong_every": 1},
            {"selector": {"group": "web"}, "interval_ns": 500_000_000, "misses": 4,
             "timeout_ns": 400_000_000, "pong_every": 1, "adaptive": true},
        ]);
        let web = Tuning::new(Duration::from_millis(500), 4, Duration::from_millis(400), 1);
        let web = web.unwrap().with_adaptive(true).unwrap();
        let expected = PolicySet::new(
            7,
            [
                Policy::whole(Selector::fleet(), Tuning::default()),
                Policy::whole(Selector::group("web"), web),
            ],
        );
        assert_eq!(read(7, &earlier).unwrap(), expected);
    }

    #[test]
    fn stored_policies_of_another_form_or_out_of_bounds_are_refused() {
        let whole = serde_json::json!([{"selector": {"regions": {}}, "interval_ns": 1}]);
        let mut later = write(&policies());
        later["policies"][0]["weather"] = "rain".into();
        for later in [whole, later, Value::Null] {
            assert!(matches!(
                read(1, &later),
                Err(Unreadable::Form { revision: 1, .. })
            ));
        }
        let mut zero = write(&policies());
        zero["policies"][0]["cadence"]["misses"] = 0.into();
        assert!(matches!(
            read(1, &zero),
            Err(Unreadable::Bounds { revision: 1, .. })
        ));
    }
}

//! A policy set as Postgres keeps it: JSON with units in its names. Selectors are objects, so that
//! further ways to select join without a migration.

use std::time::Duration;

use fleetbeat_liveness::policy::{Policy, PolicySet, Selector};
use fleetbeat_liveness::tuning::{Tuning, TuningError};
use fleetbeat_proto::nanos;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPolicy {
    selector: StoredSelector,
    interval_ns: u64,
    misses: u32,
    timeout_ns: u64,
    pong_every: u32,
    #[serde(default)]
    adaptive: bool,
}

/// Empty for the whole fleet.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSelector {
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
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
}

pub(super) fn write(policies: &PolicySet) -> Value {
    let stored = policies.policies().iter().map(|policy| StoredPolicy {
        selector: StoredSelector {
            group: match &policy.selector {
                Selector::Fleet => None,
                Selector::Group(group) => Some(group.clone()),
            },
        },
        interval_ns: nanos(policy.tuning.interval()),
        misses: policy.tuning.misses(),
        timeout_ns: nanos(policy.tuning.timeout()),
        pong_every: policy.tuning.pong_every(),
        adaptive: policy.tuning.adaptive(),
    });
    serde_json::to_value(stored.collect::<Vec<_>>()).unwrap_or_default()
}

pub(super) fn read(revision: u64, value: &Value) -> Result<PolicySet, Unreadable> {
    let stored = Vec::<StoredPolicy>::deserialize(value)
        .map_err(|source| Unreadable::Form { revision, source })?;
    let policies = stored.into_iter().map(|policy| {
        let interval = Duration::from_nanos(policy.interval_ns);
        let timeout = Duration::from_nanos(policy.timeout_ns);
        let tuning = Tuning::new(interval, policy.misses, timeout, policy.pong_every)
            .and_then(|tuning| tuning.with_adaptive(policy.adaptive))
            .map_err(|source| Unreadable::Bounds { revision, source })?;
        let selector = policy
            .selector
            .group
            .map_or(Selector::Fleet, Selector::Group);
        Ok(Policy { selector, tuning })
    });
    Ok(PolicySet::new(
        revision,
        policies.collect::<Result<Vec<_>, _>>()?,
    ))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_survive_storage() {
        let tuning = Tuning::new(Duration::from_millis(500), 4, Duration::from_millis(400), 2);
        let policies = PolicySet::new(
            9,
            [
                Policy {
                    selector: Selector::Fleet,
                    tuning: Tuning::default().with_adaptive(true).unwrap(),
                },
                Policy {
                    selector: Selector::Group("web".to_owned()),
                    tuning: tuning.unwrap(),
                },
            ],
        );
        assert_eq!(read(9, &write(&policies)).unwrap(), policies);
        assert_eq!(
            read(3, &write(&PolicySet::default())).unwrap().policies(),
            []
        );
    }

    #[test]
    fn what_was_stored_before_adaptive_mode_is_not_adaptive() {
        let policies = PolicySet::default().with(Selector::Fleet, Tuning::default());
        let mut stored = write(&policies);
        stored[0]
            .as_object_mut()
            .unwrap()
            .remove("adaptive")
            .unwrap();
        assert_eq!(read(1, &stored).unwrap(), policies);
    }

    #[test]
    fn stored_policies_of_another_form_or_out_of_bounds_are_refused() {
        let later = serde_json::json!([{"selector": {"labels": {}}, "interval_ns": 1}]);
        assert!(matches!(
            read(1, &later),
            Err(Unreadable::Form { revision: 1, .. })
        ));
        let mut zero = write(&PolicySet::default().with(Selector::Fleet, Tuning::default()));
        zero[0]["misses"] = 0.into();
        assert!(matches!(
            read(1, &zero),
            Err(Unreadable::Bounds { revision: 1, .. })
        ));
    }
}

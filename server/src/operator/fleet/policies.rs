//! Policies between the contract and the server.

use std::collections::BTreeSet;
use std::time::Duration;

use fleetbeat_liveness::policy::{
    Because, Cadence, Effective, Policy, PolicySet, Selector, Values,
};
use fleetbeat_proto::{nanos, v1};
use uuid::Uuid;

use super::super::Trouble;

pub(super) fn to_wire(set: &PolicySet) -> v1::PolicySet {
    let all = |policies: &[Policy]| policies.iter().map(policy_to_wire).collect();
    v1::PolicySet {
        revision: set.revision(),
        policies: all(set.policies()),
        staged: set.staged().map(|staged| v1::Staged {
            seed: staged.split.seed,
            reach: staged.split.reach,
            policies: all(staged.policies),
        }),
    }
}

pub(super) fn from_wire(set: v1::PolicySet) -> Result<Vec<Policy>, Trouble> {
    set.policies.into_iter().map(policy_from_wire).collect()
}

/// Where each value comes from.
pub(super) fn sources(effective: &Effective) -> Vec<v1::ValueSource> {
    let sources = effective.sources.each().map(|(value, because)| {
        let yielded = effective.yields.iter().find(|lost| lost.value == value);
        v1::ValueSource {
            value: value.to_string(),
            policy: match because {
                Because::Policy(name) => name.clone(),
                Because::Default => String::new(),
            },
            yielded: yielded.map(ToString::to_string).unwrap_or_default(),
        }
    });
    sources.collect()
}

pub(super) fn selector(wire: v1::Selector) -> Result<Selector, Trouble> {
    let agent = |id: &String| match id.parse::<Uuid>() {
        Ok(id) => Ok(id.into_bytes()),
        Err(_) => Err(Trouble::Wrong(format!(
            "{id:?} is no agent's id: write it as `fleetbeat agents list` shows it, a UUID"
        ))),
    };
    let agents: Result<BTreeSet<_>, _> = wire.agent_ids.iter().map(agent).collect();
    let values = |values: v1::LabelValues| values.values.into_iter().collect();
    Ok(Selector {
        group: wire.group,
        agents: agents?,
        labels: wire
            .labels
            .into_iter()
            .map(|(key, of)| (key, values(of)))
            .collect(),
    })
}

/// Wall time since the Unix epoch.
pub(super) fn moment(unix_us: i64) -> Duration {
    Duration::from_micros(u64::try_from(unix_us).unwrap_or_default())
}

fn policy_to_wire(policy: &Policy) -> v1::Policy {
    let values = &policy.values;
    let micros = |at: Duration| i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
    v1::Policy {
        selector: Some(selector_to_wire(&policy.selector)),
        tuning: Some(v1::Tuning {
            interval_ns: values.cadence.map(|cadence| nanos(cadence.interval())),
            misses: values.cadence.map(|cadence| cadence.misses()),
            timeout_ns: values.cadence.map(|cadence| nanos(cadence.timeout())),
            pong_every: values.pong_every,
            adaptive: values.adaptive,
        }),
        name: policy.name.clone(),
        expires_unix_us: policy.expires_at.map(micros),
    }
}

fn selector_to_wire(selector: &Selector) -> v1::Selector {
    let agents = selector.agents.iter().copied().map(Uuid::from_bytes);
    let labels = selector.labels.iter().map(|(key, values)| {
        let values = values.iter().cloned().collect();
        (key.clone(), v1::LabelValues { values })
    });
    v1::Selector {
        group: selector.group.clone(),
        agent_ids: agents.map(|id| id.to_string()).collect(),
        labels: labels.collect(),
    }
}

fn policy_from_wire(wire: v1::Policy) -> Result<Policy, Trouble> {
    let name = wire.name;
    let wrong = |what: &dyn std::fmt::Display| Trouble::Wrong(format!("policy {name}: {what}"));
    let tuning = wire.tuning.unwrap_or_default();
    let cadence = match (tuning.interval_ns, tuning.misses, tuning.timeout_ns) {
        (None, None, None) => None,
        (Some(interval), Some(misses), Some(timeout)) => {
            let interval = Duration::from_nanos(interval);
            let cadence = Cadence::new(interval, misses, Duration::from_nanos(timeout));
            Some(cadence.map_err(|error| wrong(&error))?)
        }
        _ => {
            return Err(wrong(
                &"interval, misses and timeout are one value: give all three or none",
            ));
        }
    };
    Ok(Policy {
        selector: selector(wire.selector.unwrap_or_default())?,
        values: Values {
            cadence,
            pong_every: tuning.pong_every,
            adaptive: tuning.adaptive,
        },
        expires_at: wire.expires_unix_us.map(moment),
        name,
    })
}

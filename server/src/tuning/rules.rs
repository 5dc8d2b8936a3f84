//! What policies from outside have to keep. Pure.

use std::time::Duration;

use fleetbeat_liveness::policy::{Policy, Selector};
use fleetbeat_liveness::tuning::TuningError;

/// Policies of one set.
const POLICIES: usize = 1_001;
/// Agents of one selector.
const AGENTS: usize = 1_000;
/// Labels that one selector asks for.
const LABELS: usize = 16;
/// Values of one of them.
const LABEL_VALUES: usize = 64;
/// Bytes of a name of a policy, a group or a label.
const NAME: usize = 63;
/// Bytes of a label's value.
const LABEL_VALUE: usize = 255;
const REASON: usize = 500;
/// A policy that outlasts this is no temporary one.
const LIFE: Duration = Duration::from_hours(24 * 366);

/// Why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error(transparent)]
    Tuning(#[from] TuningError),
    #[error("policy {policy}: {error}")]
    Values { policy: String, error: TuningError },
    #[error(
        "policy {policy} gives nothing: give it T, N and W, pong_every or adaptive, or leave it out"
    )]
    Nothing { policy: String },
    #[error(
        "group {0:?} is not a group's name: expected 1 to {NAME} letters, digits, dots, dashes or \
         underscores"
    )]
    Group(String),
    #[error(
        "policy {0:?} is not a policy's name: expected 1 to {NAME} letters, digits, dots, dashes or \
         underscores"
    )]
    Name(String),
    #[error("two policies are called {0}: give one of them another name")]
    Twice(String),
    #[error("there is no policy {0}; `fleetbeat tune show` lists those there are")]
    Unknown(String),
    #[error(
        "there is a policy {0} for other agents already: name this one with another name, or change \
         that one by its name"
    )]
    Taken(String),
    #[error("policy {policy}: {what}")]
    Selector { policy: String, what: String },
    #[error("policy {policy} would expire {when}: give it a time from now to a year")]
    Expiry { policy: String, when: &'static str },
    #[error("a reason of 1 to {REASON} bytes without control characters is needed")]
    Reason,
    #[error("{0} policies are more than {POLICIES}; remove some first")]
    TooMany(usize),
}

/// A whole set, with `now` as wall time since the Unix epoch.
pub(super) fn check_policies(policies: &[Policy], now: Duration) -> Result<(), Wrong> {
    if policies.len() > POLICIES {
        return Err(Wrong::TooMany(policies.len()));
    }
    let mut names = std::collections::HashSet::new();
    for policy in policies {
        check_policy(policy, now)?;
        if !names.insert(&policy.name) {
            return Err(Wrong::Twice(policy.name.clone()));
        }
    }
    Ok(())
}

fn check_policy(policy: &Policy, now: Duration) -> Result<(), Wrong> {
    let name = || policy.name.clone();
    check_selector(&policy.selector).map_err(|wrong| match wrong {
        Broken::Group(group) => Wrong::Group(group),
        Broken::Else(what) => Wrong::Selector {
            policy: name(),
            what,
        },
    })?;
    if !is_name(&policy.name) {
        return Err(Wrong::Name(name()));
    }
    if policy.values.is_empty() {
        return Err(Wrong::Nothing { policy: name() });
    }
    policy.values.check().map_err(|error| Wrong::Values {
        policy: name(),
        error,
    })?;
    let when = match policy.expires_at {
        Some(at) if at <= now => "in the past",
        Some(at) if at > now + LIFE => "later than in a year",
        Some(_) | None => return Ok(()),
    };
    Err(Wrong::Expiry {
        policy: name(),
        when,
    })
}

enum Broken {
    Group(String),
    Else(String),
}

fn check_selector(selector: &Selector) -> Result<(), Broken> {
    if let Some(group) = selector.group.as_ref().filter(|group| !is_name(group)) {
        return Err(Broken::Group(group.clone()));
    }
    let (agents, labels) = (selector.agents.len(), selector.labels.len());
    if agents > AGENTS {
        return Err(Broken::Else(format!(
            "{agents} agents are more than {AGENTS}; give them a label or a group"
        )));
    }
    if labels > LABELS {
        return Err(Broken::Else(format!(
            "{labels} labels are more than {LABELS}"
        )));
    }
    for (key, values) in &selector.labels {
        if key.is_empty() || key.len() > NAME || key.chars().any(char::is_control) {
            return Err(Broken::Else(format!(
                "label {key:?} is no label: expected 1 to {NAME} bytes without control characters"
            )));
        }
        if values.is_empty() || values.len() > LABEL_VALUES {
            return Err(Broken::Else(format!(
                "label {key} needs 1 to {LABEL_VALUES} values and has {}",
                values.len()
            )));
        }
        let bad =
            |value: &&String| value.len() > LABEL_VALUE || value.chars().any(char::is_control);
        if let Some(value) = values.iter().find(bad) {
            return Err(Broken::Else(format!(
                "label {key} cannot be {value:?}: expected at most {LABEL_VALUE} bytes without control \
                 characters"
            )));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let length = (1..=NAME).contains(&name.len());
    length
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// A reason for the record.
pub(super) fn check_reason(reason: &str) -> Result<(), Wrong> {
    let length = (1..=REASON).contains(&reason.len());
    if length && !reason.chars().any(char::is_control) && !reason.trim().is_empty() {
        Ok(())
    } else {
        Err(Wrong::Reason)
    }
}

/// A name that an agent could have as its group.
pub fn check_group(group: &str) -> Result<(), Wrong> {
    if is_name(group) {
        Ok(())
    } else {
        Err(Wrong::Group(group.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use fleetbeat_liveness::policy::Values;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    fn policy(name: &str, selector: Selector) -> Policy {
        Policy {
            name: name.to_owned(),
            selector,
            values: Values {
                adaptive: Some(true),
                ..Values::default()
            },
            expires_at: None,
        }
    }

    fn refusal(policies: &[Policy]) -> String {
        check_policies(policies, NOW).unwrap_err().to_string()
    }

    fn labels(given: impl IntoIterator<Item = (String, Vec<String>)>) -> Selector {
        let set = |(key, values): (String, Vec<String>)| (key, values.into_iter().collect());
        Selector {
            labels: given
                .into_iter()
                .map(set)
                .collect::<BTreeMap<_, BTreeSet<_>>>(),
            ..Selector::default()
        }
    }

    #[test]
    fn everything_from_outside_has_a_bound() {
        let one = |key: &str, value: String| labels([(key.to_owned(), vec![value])]);
        let numbers = |n: usize| (0..n).map(|n| n.to_string());
        let agents = (0..1_001_u128).map(u128::to_be_bytes).collect();
        for (selector, said) in [
            (Selector::group("we b"), "not a group's name"),
            (Selector::group("x".repeat(64)), "not a group's name"),
            (
                Selector {
                    agents,
                    ..Selector::default()
                },
                "1001 agents are more than 1000",
            ),
            (
                labels(numbers(17).map(|n| (n, vec![String::new()]))),
                "17 labels are more than 16",
            ),
            (
                labels([("zone".to_owned(), Vec::new())]),
                "label zone needs 1 to 64 values and has 0",
            ),
            (
                labels([("zone".to_owned(), numbers(65).collect())]),
                "and has 65",
            ),
            (one("", String::new()), "label \"\" is no label"),
            (one("zone", "x".repeat(256)), "at most 255 bytes"),
            (
                one("zone", "a\nb".to_owned()),
                "label zone cannot be \"a\\nb\"",
            ),
        ] {
            let text = refusal(&[policy("p", selector)]);
            assert!(text.contains(said), "wanted {said}, got {text}");
        }
        let fleet = |name: &str| policy(name, Selector::fleet());
        for (policies, said) in [
            (vec![fleet("")], "is not a policy's name"),
            (vec![fleet("a b")], "is not a policy's name"),
            (
                vec![fleet("a"), fleet("b"), fleet("a")],
                "two policies are called a",
            ),
            (
                numbers(1_002).map(|n| fleet(&n)).collect(),
                "1002 policies are more than 1001",
            ),
            (
                vec![Policy {
                    values: Values::default(),
                    ..fleet("a")
                }],
                "policy a gives nothing",
            ),
        ] {
            let text = refusal(&policies);
            assert!(text.contains(said), "wanted {said}, got {text}");
        }
    }

    #[test]
    fn policy_expires_between_now_and_a_year() {
        let until = |at| Policy {
            expires_at: Some(at),
            ..policy("drill", Selector::fleet())
        };
        assert!(refusal(&[until(NOW)]).contains("policy drill would expire in the past"));
        assert!(refusal(&[until(NOW + 2 * LIFE)]).contains("later than in a year"));
        assert_eq!(check_policies(&[until(NOW + LIFE)], NOW), Ok(()));
    }

    #[test]
    fn values_that_contradict_each_other_name_their_policy() {
        let values = Values {
            pong_every: Some(5),
            adaptive: Some(true),
            ..Values::default()
        };
        let text = refusal(&[Policy {
            values,
            ..policy("radio", Selector::fleet())
        }]);
        assert!(
            text.starts_with("policy radio: adaptive mode needs"),
            "{text}"
        );
    }

    #[test]
    fn reason_is_text_of_some_length() {
        assert_eq!(check_reason("too many timeouts"), Ok(()));
        for bad in ["", "  ", "a\nb", &"x".repeat(501)] {
            assert_eq!(check_reason(bad), Err(Wrong::Reason), "{bad:?}");
        }
    }
}

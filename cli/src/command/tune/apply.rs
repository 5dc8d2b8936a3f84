//! Making a revision on top of the one that was read, and saying what it changes.

use std::time::Duration;

use fleetbeat_proto::v1;

use super::parts::Parts;
use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::view::{Change, Outcome, Policies, Policy, Tuning};

/// How often a change is built again when another operator was faster.
const ATTEMPTS: u32 = 3;
/// A server of several learns of the others' revisions within half a second.
const PAUSE: Duration = Duration::from_millis(300);

/// What shall change.
#[derive(Debug)]
pub(super) enum Wish {
    /// No group is the whole fleet.
    Set {
        group: Option<String>,
        parts: Parts,
    },
    Unset {
        group: String,
    },
    Rollback {
        to: u64,
    },
}

impl Wish {
    fn group(&self) -> Option<&str> {
        match self {
            Self::Set { group, .. } => group.as_deref(),
            Self::Unset { group } => Some(group),
            Self::Rollback { .. } => None,
        }
    }
}

/// Under which terms.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) reason: String,
    /// Only on this revision.
    pub(super) expect: Option<u64>,
    pub(super) dry_run: bool,
}

/// Reads what is in force, builds the change on it, and sends it with the revision it was built on, so
/// that the unsaid parts can't come from another one. When somebody was faster and no revision was
/// demanded, it is built again.
pub(super) async fn apply(
    fleet: &mut Fleet,
    wish: &Wish,
    terms: &Terms,
) -> Result<Outcome, Failure> {
    let mut attempt = 1;
    loop {
        match send(fleet, wish, terms).await {
            Err(failure)
                if failure.exit() == Exit::Conflict
                    && terms.expect.is_none()
                    && attempt < ATTEMPTS =>
            {
                attempt += 1;
                tokio::time::sleep(PAUSE).await;
            }
            settled => return settled,
        }
    }
}

async fn send(fleet: &mut Fleet, wish: &Wish, terms: &Terms) -> Result<Outcome, Failure> {
    let group = wish.group().unwrap_or_default().to_owned();
    let known = fleet
        .tuning(v1::GetTuningRequest {
            agent: String::new(),
            group,
        })
        .await?;
    let expected = terms
        .expect
        .or(known.policies.as_ref().map(|set| set.revision));
    let request = |group| request(group, terms, expected);
    match wish {
        Wish::Set { group, parts } => {
            let tuning = Some(parts.fill(&in_force(&known, group.as_deref()))?);
            let request = v1::SetTuningRequest {
                tuning,
                ..request(group.clone())
            };
            Ok(outcome(
                &fleet.set_tuning(request).await?,
                one_change(group.clone()),
                terms,
            ))
        }
        Wish::Unset { group } => {
            let group = Some(group.clone());
            let request = v1::SetTuningRequest {
                remove: true,
                ..request(group.clone())
            };
            Ok(outcome(
                &fleet.set_tuning(request).await?,
                one_change(group),
                terms,
            ))
        }
        Wish::Rollback { to } => {
            let request = v1::RollbackTuningRequest {
                to_revision: *to,
                reason: terms.reason.clone(),
                expected_revision: expected,
                dry_run: terms.dry_run,
                force: false,
            };
            let known = Policies::from_wire(known);
            Ok(outcome(
                &fleet.rollback_tuning(request).await?,
                all_changes(known),
                terms,
            ))
        }
    }
}

fn request(
    group: Option<String>,
    terms: &Terms,
    expected_revision: Option<u64>,
) -> v1::SetTuningRequest {
    v1::SetTuningRequest {
        selector: Some(v1::Selector {
            group,
            ..v1::Selector::default()
        }),
        tuning: None,
        remove: false,
        reason: terms.reason.clone(),
        expected_revision,
        dry_run: terms.dry_run,
        ..v1::SetTuningRequest::default()
    }
}

fn outcome(
    answer: &v1::SetTuningResponse,
    changes: impl FnOnce(&v1::SetTuningResponse) -> Vec<Change>,
    terms: &Terms,
) -> Outcome {
    Outcome {
        revision: answer.revision,
        dry_run: terms.dry_run,
        changes: changes(answer),
        targets: answer.targets,
        progress: None,
    }
}

/// The one selector that was named.
fn one_change(group: Option<String>) -> impl FnOnce(&v1::SetTuningResponse) -> Vec<Change> {
    |answer| {
        let before = Tuning::of(answer.before.as_ref());
        vec![Change {
            group,
            before,
            after: Tuning::of(answer.after.as_ref()),
        }]
    }
}

/// Every selector that differs from what was known.
fn all_changes(known: Policies) -> impl FnOnce(&v1::SetTuningResponse) -> Vec<Change> {
    move |answer| {
        let after = answer.policies.iter().flat_map(|set| set.policies.clone());
        let after: Vec<Policy> = after.filter_map(Policy::from_wire).collect();
        differences(&known.policies, &after, known.defaults)
    }
}

/// The value whose parts stay when they are unsaid.
fn in_force(known: &v1::GetTuningResponse, group: Option<&str>) -> v1::Tuning {
    let of_the_fleet = || {
        let policies = known.policies.iter().flat_map(|set| &set.policies);
        let mut fleet = policies.filter(|policy| {
            policy
                .selector
                .as_ref()
                .is_none_or(|selector| selector.group.is_none())
        });
        fleet
            .next()
            .and_then(|policy| policy.tuning)
            .or(known.defaults)
    };
    let effective = known.effective.and_then(|revised| revised.tuning);
    match group {
        Some(_) => effective.or_else(of_the_fleet),
        None => of_the_fleet(),
    }
    .unwrap_or_default()
}

/// Selectors whose value differs between two policy sets, the fleet first, then by group.
fn differences(before: &[Policy], after: &[Policy], defaults: Option<Tuning>) -> Vec<Change> {
    let value = |set: &[Policy], group: &Option<String>| {
        let of = |wanted: &Option<String>| {
            set.iter()
                .find(|policy| policy.group == *wanted)
                .map(|policy| policy.tuning)
        };
        of(group).or_else(|| of(&None)).or(defaults)
    };
    let mut groups: Vec<_> = before
        .iter()
        .chain(after)
        .map(|policy| policy.group.clone())
        .collect();
    groups.sort();
    groups.dedup();
    groups
        .into_iter()
        .map(|group| Change {
            before: value(before, &group),
            after: value(after, &group),
            group,
        })
        .filter(|change| change.before != change.after)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(misses: u32) -> v1::Tuning {
        v1::Tuning {
            interval_ns: Some(20_000_000_000),
            misses: Some(misses),
            timeout_ns: Some(2_000_000_000),
            pong_every: Some(1),
            adaptive: Some(false),
        }
    }

    fn wire_policy(group: Option<&str>, misses: u32) -> v1::Policy {
        let group = group.map(str::to_owned);
        v1::Policy {
            selector: Some(v1::Selector {
                group,
                ..v1::Selector::default()
            }),
            tuning: Some(wire(misses)),
            ..v1::Policy::default()
        }
    }

    fn policy(group: Option<&str>, misses: u32) -> Policy {
        Policy::from_wire(wire_policy(group, misses)).unwrap()
    }

    #[test]
    fn the_fleet_falls_back_to_the_default_and_a_group_has_what_is_effective() {
        let mut known = v1::GetTuningResponse {
            policies: Some(v1::PolicySet {
                revision: 3,
                ..v1::PolicySet::default()
            }),
            defaults: Some(wire(3)),
            ..v1::GetTuningResponse::default()
        };
        assert_eq!(in_force(&known, None), wire(3));
        known.policies = Some(v1::PolicySet {
            revision: 3,
            policies: vec![wire_policy(None, 4), wire_policy(Some("edge"), 5)],
            staged: None,
        });
        known.effective = Some(v1::RevisedTuning {
            revision: 3,
            hash: 0,
            tuning: Some(wire(5)),
        });
        assert_eq!(in_force(&known, None), wire(4));
        assert_eq!(in_force(&known, Some("edge")), wire(5));
    }

    #[test]
    fn a_rollback_shows_each_selector_whose_value_moves() {
        let before = [
            policy(None, 4),
            policy(Some("core"), 5),
            policy(Some("edge"), 6),
        ];
        let after = [policy(None, 4), policy(Some("core"), 7)];
        let moved: Vec<_> = differences(&before, &after, None)
            .into_iter()
            .map(|c| {
                (
                    c.group.unwrap(),
                    c.before.unwrap().misses,
                    c.after.unwrap().misses,
                )
            })
            .collect();
        assert_eq!(
            moved,
            [("core".to_owned(), 5, 7), ("edge".to_owned(), 6, 4)]
        );
    }

    #[test]
    fn a_removed_fleet_policy_gives_way_to_the_default() {
        let defaults = Tuning::from_wire(&wire(3));
        let changes = differences(&[policy(None, 4)], &[], defaults);
        assert_eq!(changes[0].after, defaults);
    }
}

//! What a change makes of the policies. Pure.

use std::time::Duration;

use fleetbeat_liveness::policy::{PolicySet, Selector};
use fleetbeat_liveness::tuning::{Tuning, TuningError};

/// Policies of one set.
const POLICIES: usize = 1_001;
const GROUP_LENGTH: usize = 63;
const REASON_LENGTH: usize = 500;

/// Members of a tuning; `None` keeps what is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    pub interval: Option<Duration>,
    pub misses: Option<u32>,
    pub timeout: Option<Duration>,
    pub pong_every: Option<u32>,
    pub adaptive: Option<bool>,
}

/// What an operator wants of the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Set {
        selector: Selector,
        tuning: Partial,
    },
    /// The selector's policy goes; the less specific one applies again.
    Unset {
        selector: Selector,
    },
}

/// Policies as they would be, under the number that follows; not yet a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub policies: PolicySet,
    /// What the selector had and would have.
    pub before: Tuning,
    pub after: Tuning,
    /// A line per policy; empty when nothing would change.
    pub changes: Vec<String>,
}

/// Why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error(transparent)]
    Tuning(#[from] TuningError),
    #[error(
        "group {0:?} is not a group's name: expected 1 to {GROUP_LENGTH} letters, digits, dots, \
         dashes or underscores"
    )]
    Group(String),
    #[error("a reason of 1 to {REASON_LENGTH} bytes without control characters is needed")]
    Reason,
    #[error("there are {} policies already; remove one first", POLICIES)]
    TooMany,
}

impl Draft {
    /// Applies `change` to `current`.
    pub fn of(current: &PolicySet, change: &Change) -> Result<Self, Wrong> {
        let selector = change.selector();
        if let Selector::Group(group) = selector {
            check_group(group)?;
        }
        let before = in_force(current, selector);
        let policies = match change {
            Change::Set { tuning, .. } => {
                current.with(selector.clone(), tuning.filled_from(before)?)
            }
            Change::Unset { .. } => current.without(selector),
        };
        if policies.policies().len() > POLICIES {
            return Err(Wrong::TooMany);
        }
        let after = in_force(&policies, selector);
        let changes = policies.changes(current);
        Ok(Self {
            policies,
            before,
            after,
            changes,
        })
    }

    /// The policies of `old` under the number after `current`.
    #[must_use]
    pub fn rollback(current: &PolicySet, old: &PolicySet) -> Self {
        let policies = old.at_revision(current.revision().saturating_add(1));
        let changes = policies.changes(current);
        let (before, after) = (current.default_tuning(), policies.default_tuning());
        Self {
            policies,
            before,
            after,
            changes,
        }
    }

    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        self.changes.is_empty()
    }
}

impl Change {
    #[must_use]
    pub fn selector(&self) -> &Selector {
        match self {
            Self::Set { selector, .. } | Self::Unset { selector } => selector,
        }
    }
}

impl Partial {
    fn filled_from(self, base: Tuning) -> Result<Tuning, TuningError> {
        Tuning::new(
            self.interval.unwrap_or(base.interval()),
            self.misses.unwrap_or(base.misses()),
            self.timeout.unwrap_or(base.timeout()),
            self.pong_every.unwrap_or(base.pong_every()),
        )?
        .with_adaptive(self.adaptive.unwrap_or(base.adaptive()))
    }
}

/// What a selector has: its own policy, else the fleet's default.
#[must_use]
pub fn in_force(policies: &PolicySet, selector: &Selector) -> Tuning {
    policies
        .get(selector)
        .unwrap_or_else(|| policies.default_tuning())
}

/// A reason for the record.
pub(super) fn check_reason(reason: &str) -> Result<(), Wrong> {
    let length = (1..=REASON_LENGTH).contains(&reason.len());
    if length && !reason.chars().any(char::is_control) && !reason.trim().is_empty() {
        Ok(())
    } else {
        Err(Wrong::Reason)
    }
}

/// A name that an agent could have as its group.
pub fn check_group(group: &str) -> Result<(), Wrong> {
    let length = (1..=GROUP_LENGTH).contains(&group.len());
    let letters = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if length && group.chars().all(letters) {
        Ok(())
    } else {
        Err(Wrong::Group(group.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn web() -> Selector {
        Selector::Group("web".to_owned())
    }

    fn set(selector: Selector, tuning: Partial) -> Change {
        Change::Set { selector, tuning }
    }

    fn tuning(interval: Duration, misses: u32, timeout: Duration) -> Tuning {
        Tuning::new(interval, misses, timeout, 1).unwrap()
    }

    #[test]
    fn unset_members_keep_what_the_selector_has_by_its_own_policy_or_the_fleets() {
        let five = Partial {
            interval: Some(5 * SECOND),
            ..Partial::default()
        };
        let fleet = Draft::of(&PolicySet::default(), &set(Selector::Fleet, five)).unwrap();
        assert_eq!(fleet.after, tuning(5 * SECOND, 3, 2 * SECOND));
        let four = Partial {
            misses: Some(4),
            ..Partial::default()
        };
        let group = Draft::of(&fleet.policies, &set(web(), four)).unwrap();
        assert_eq!(
            (group.before, group.after),
            (fleet.after, tuning(5 * SECOND, 4, 2 * SECOND))
        );
        let slower = Partial {
            timeout: Some(3 * SECOND),
            ..Partial::default()
        };
        let again = Draft::of(&group.policies, &set(web(), slower)).unwrap();
        assert_eq!(again.after, tuning(5 * SECOND, 4, 3 * SECOND));
        assert_eq!(again.policies.revision(), 3);
    }

    #[test]
    fn values_out_of_bounds_are_refused_with_the_bound() {
        let half = SECOND / 2;
        for (partial, said) in [
            (
                Partial {
                    interval: Some(Duration::ZERO),
                    ..Partial::default()
                },
                "too short",
            ),
            (
                Partial {
                    interval: Some(7200 * SECOND),
                    ..Partial::default()
                },
                "too long",
            ),
            (
                Partial {
                    interval: Some(half),
                    ..Partial::default()
                },
                "timeout",
            ),
            (
                Partial {
                    misses: Some(0),
                    ..Partial::default()
                },
                "misses 0",
            ),
            (
                Partial {
                    pong_every: Some(11),
                    ..Partial::default()
                },
                "11",
            ),
            (
                Partial {
                    pong_every: Some(5),
                    adaptive: Some(true),
                    ..Partial::default()
                },
                "set pong_every to 1 instead of 5, or adaptive off",
            ),
        ] {
            let wrong = Draft::of(&PolicySet::default(), &set(Selector::Fleet, partial));
            let text = wrong.unwrap_err().to_string();
            assert!(text.contains(said), "wanted {said}, got {text}");
        }
    }

    #[test]
    fn removing_gives_back_the_fleets_default_and_removing_nothing_changes_nothing() {
        let four = Partial {
            misses: Some(4),
            ..Partial::default()
        };
        let with = Draft::of(&PolicySet::default(), &set(web(), four)).unwrap();
        let without = Draft::of(&with.policies, &Change::Unset { selector: web() }).unwrap();
        assert_eq!(without.after, Tuning::default());
        assert_eq!(without.changes, ["group web: removed, was T=20s N=4 W=2s"]);
        let nothing = Draft::of(&without.policies, &Change::Unset { selector: web() }).unwrap();
        assert!(nothing.changes_nothing());
    }

    #[test]
    fn rollback_is_a_newer_revision_with_older_values() {
        let four = Partial {
            misses: Some(4),
            ..Partial::default()
        };
        let first = Draft::of(&PolicySet::default(), &set(web(), four)).unwrap();
        let five = Partial {
            misses: Some(5),
            ..Partial::default()
        };
        let second = Draft::of(&first.policies, &set(web(), five)).unwrap();
        let back = Draft::rollback(&second.policies, &first.policies);
        assert_eq!(back.policies.revision(), 3);
        assert_eq!(back.policies.policies(), first.policies.policies());
        assert_eq!(back.changes.len(), 1);
    }

    #[test]
    fn names_and_reasons_have_bounds() {
        for group in ["", "a b", "ü", "a\0", &"x".repeat(64)] {
            assert!(check_group(group).is_err(), "{group:?}");
        }
        check_group("web-1.eu_west").unwrap();
        for reason in ["", "  ", "two\nlines", &"x".repeat(501)] {
            assert!(check_reason(reason).is_err(), "{reason:?}");
        }
        check_reason("größere Abstände").unwrap();
    }
}

//! What a change makes of the policies. Pure.

use std::time::Duration;

use fleetbeat_liveness::policy::{Cadence, Policy, PolicySet, Selector, Values};
use fleetbeat_liveness::tuning::{Tuning, TuningError};

use super::rules::{Wrong, check_policies};

/// Members of a tuning that are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    /// Of these three what is `None` is as in force, when one is given.
    pub interval: Option<Duration>,
    pub misses: Option<u32>,
    pub timeout: Option<Duration>,
    /// `None` leaves it to other policies, or as the policy has it.
    pub pong_every: Option<u32>,
    pub adaptive: Option<bool>,
}

/// Which policy is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The last one of exactly this selector that does not expire, or a new one under its usual name.
    Of(Selector),
    /// The one of this name; with the selector it is to have, or its own.
    Named(String, Option<Selector>),
}

/// What an operator wants of the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Set {
        which: Which,
        tuning: Partial,
        /// The policy goes by itself after this; `None` keeps what it has.
        expires_in: Option<Duration>,
    },
    /// The policy goes; those before it apply again.
    Unset { which: Which },
    /// Other policies altogether.
    Replace { policies: Vec<Policy> },
}

/// Policies as they would be, under the number that follows; not yet a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub policies: PolicySet,
    /// What an agent that just meets the selector had and would have.
    pub before: Tuning,
    pub after: Tuning,
    /// A line per policy; empty when nothing would change.
    pub changes: Vec<String>,
}

impl Draft {
    /// Applies `change` to `current` at `now`, wall time since the Unix epoch.
    pub fn of(current: &PolicySet, change: &Change, now: Duration) -> Result<Self, Wrong> {
        match change {
            Change::Set {
                which,
                tuning,
                expires_in,
            } => {
                let policy = match (which, expires_in) {
                    // What ends by itself never takes the place of what stays.
                    (Which::Of(selector), Some(_)) => {
                        let name = format!("{}-temporary", selector.usual_name());
                        found(current, &Which::Named(name, Some(selector.clone())))
                    }
                    (_, _) => found(current, which),
                }?;
                let expires_at = expires_in.map(|life| now.saturating_add(life));
                let policy = with(current, policy, *tuning, expires_at)?;
                let (name, selector) = (policy.name.clone(), policy.selector.clone());
                let draft = Self::between(current, current.with(policy), &selector);
                check_policies(draft.policies.policies(), now)?;
                draft.refuse_yielding(&name, &selector)?;
                Ok(draft)
            }
            Change::Unset { which } => {
                let known = match which {
                    Which::Of(selector) => current.lasting(selector),
                    Which::Named(name, _) => {
                        let policy = current.get(name);
                        Some(policy.ok_or_else(|| Wrong::Unknown(name.clone()))?)
                    }
                };
                let selector = match (known, which) {
                    (Some(policy), _) => &policy.selector,
                    (None, Which::Of(selector)) => selector,
                    (None, Which::Named(name, _)) => return Err(Wrong::Unknown(name.clone())),
                };
                let without = known.map_or_else(
                    || current.at_revision(current.revision().saturating_add(1)),
                    |policy| current.without(&policy.name),
                );
                Ok(Self::between(current, without, selector))
            }
            Change::Replace { policies } => {
                check_policies(policies, now)?;
                let next = current.revision().saturating_add(1);
                let policies = PolicySet::new(next, policies.iter().cloned());
                Ok(Self::between(current, policies, &Selector::fleet()))
            }
        }
    }

    /// The policies of `old` under the number after `current`, without what expired by `now`.
    #[must_use]
    pub fn rollback(current: &PolicySet, old: &PolicySet, now: Duration) -> Self {
        let next = current.revision().saturating_add(1);
        let policies = old.unstaged().at_revision(next).without_expired(now);
        Self::between(current, policies, &Selector::fleet())
    }

    /// `current` without what expired by `now`.
    #[must_use]
    pub fn expiry(current: &PolicySet, now: Duration) -> Self {
        let next = current.revision().saturating_add(1);
        let policies = current.at_revision(next).without_expired(now);
        Self::between(current, policies, &Selector::fleet())
    }

    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        self.changes.is_empty()
    }

    fn between(current: &PolicySet, policies: PolicySet, selector: &Selector) -> Self {
        Self {
            before: in_force(current, selector),
            after: in_force(&policies, selector),
            changes: policies.changes(current),
            policies,
        }
    }

    /// Whoever sets a value wants it in force.
    fn refuse_yielding(&self, name: &str, selector: &Selector) -> Result<(), Wrong> {
        let effective = self.policies.effective(&selector.example());
        match effective.yields.into_iter().next() {
            Some(lost) => Err(Wrong::Values {
                policy: name.to_owned(),
                error: lost.rule,
            }),
            None => Ok(()),
        }
    }
}

/// The policy to change, or a new one without values.
fn found(current: &PolicySet, which: &Which) -> Result<Policy, Wrong> {
    let fresh = |name: &str, selector: &Selector| Policy {
        name: name.to_owned(),
        selector: selector.clone(),
        values: Values::default(),
        expires_at: None,
    };
    match which {
        Which::Of(selector) => match current.lasting(selector) {
            Some(policy) => Ok(policy.clone()),
            None if current.get(&selector.usual_name()).is_some() => {
                Err(Wrong::Taken(selector.usual_name()))
            }
            None => Ok(fresh(&selector.usual_name(), selector)),
        },
        Which::Named(name, None) => {
            let known = current.get(name).cloned();
            known.ok_or_else(|| Wrong::Unknown(name.clone()))
        }
        Which::Named(name, Some(selector)) => Ok(current.get(name).map_or_else(
            || fresh(name, selector),
            |known| Policy {
                selector: selector.clone(),
                ..known.clone()
            },
        )),
    }
}

fn with(
    current: &PolicySet,
    policy: Policy,
    tuning: Partial,
    expires_at: Option<Duration>,
) -> Result<Policy, TuningError> {
    let Values {
        cadence,
        pong_every,
        adaptive,
    } = policy.values;
    let base = cadence.unwrap_or_else(|| in_force(current, &policy.selector).into());
    let values = Values {
        cadence: tuning.cadence(base)?.or(cadence),
        pong_every: tuning.pong_every.or(pong_every),
        adaptive: tuning.adaptive.or(adaptive),
    };
    Ok(Policy {
        values,
        expires_at: expires_at.or(policy.expires_at),
        ..policy
    })
}

impl Partial {
    fn cadence(self, base: Cadence) -> Result<Option<Cadence>, TuningError> {
        if self.interval.is_none() && self.misses.is_none() && self.timeout.is_none() {
            return Ok(None);
        }
        let interval = self.interval.unwrap_or(base.interval());
        let misses = self.misses.unwrap_or(base.misses());
        let timeout = self.timeout.unwrap_or(base.timeout());
        Cadence::new(interval, misses, timeout).map(Some)
    }
}

/// What an agent has that just meets the selector.
#[must_use]
pub fn in_force(policies: &PolicySet, selector: &Selector) -> Tuning {
    policies.effective(&selector.example()).tuning.tuning
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Duration = Duration::from_secs(1_000);

    fn web() -> Selector {
        Selector::group("web")
    }

    fn set(selector: Selector, tuning: Partial) -> Change {
        let which = Which::Of(selector);
        Change::Set {
            which,
            tuning,
            expires_in: None,
        }
    }

    fn tuning(interval: Duration, misses: u32, timeout: Duration) -> Tuning {
        Tuning::new(interval, misses, timeout, 1).unwrap()
    }

    fn every(seconds: u32) -> Partial {
        Partial {
            interval: Some(seconds * SECOND),
            ..Partial::default()
        }
    }

    fn draft(current: &PolicySet, change: &Change) -> Draft {
        Draft::of(current, change, NOW).unwrap()
    }

    #[test]
    fn unset_members_keep_what_the_selector_has_by_its_own_policy_or_others() {
        let fleet = draft(&PolicySet::default(), &set(Selector::fleet(), every(5)));
        assert_eq!(fleet.after, tuning(5 * SECOND, 3, 2 * SECOND));
        let four = Partial {
            misses: Some(4),
            ..Partial::default()
        };
        let group = draft(&fleet.policies, &set(web(), four));
        assert_eq!(
            (group.before, group.after),
            (fleet.after, tuning(5 * SECOND, 4, 2 * SECOND))
        );
        let slower = Partial {
            timeout: Some(3 * SECOND),
            ..Partial::default()
        };
        let again = draft(&group.policies, &set(web(), slower));
        assert_eq!(again.after, tuning(5 * SECOND, 4, 3 * SECOND));
        assert_eq!(again.policies.revision(), 3);
    }

    /// Other parameters are given one by one: a group's own T does not freeze the fleet's mode.
    #[test]
    fn what_a_policy_does_not_say_stays_open() {
        let group = draft(&PolicySet::default(), &set(web(), every(5)));
        let adaptive = Partial {
            adaptive: Some(true),
            ..Partial::default()
        };
        let fleet = draft(&group.policies, &set(Selector::fleet(), adaptive));
        let after = in_force(&fleet.policies, &web());
        assert_eq!((after.interval(), after.adaptive()), (5 * SECOND, true));
        assert_eq!(fleet.changes, ["fleet: set to adaptive=on"]);
    }

    #[test]
    fn values_out_of_bounds_are_refused_with_the_bound() {
        let half = SECOND / 2;
        let given = |change: fn(&mut Partial)| {
            let mut partial = Partial::default();
            change(&mut partial);
            partial
        };
        for (partial, said) in [
            (
                Partial {
                    interval: Some(Duration::ZERO),
                    ..Partial::default()
                },
                "too short",
            ),
            (every(7200), "too long"),
            (
                Partial {
                    interval: Some(half),
                    ..Partial::default()
                },
                "timeout",
            ),
            (given(|p| p.misses = Some(0)), "misses 0"),
            (given(|p| p.pong_every = Some(11)), "11"),
            (
                given(|p| (p.pong_every, p.adaptive) = (Some(5), Some(true))),
                "set pong_every to 1 instead of 5, or adaptive off",
            ),
        ] {
            let change = set(Selector::fleet(), partial);
            let wrong = Draft::of(&PolicySet::default(), &change, NOW).unwrap_err();
            let text = wrong.to_string();
            assert!(text.contains(said), "wanted {said}, got {text}");
        }
    }

    /// C4: the fleet's lease and a group's adaptive mode are valid each, and not together.
    #[test]
    fn value_that_would_have_to_yield_is_refused() {
        let lease = Partial {
            pong_every: Some(5),
            ..Partial::default()
        };
        let fleet = draft(&PolicySet::default(), &set(Selector::fleet(), lease));
        let adaptive = Partial {
            adaptive: Some(true),
            ..Partial::default()
        };
        let refused = Draft::of(&fleet.policies, &set(web(), adaptive), NOW).unwrap_err();
        assert!(
            refused
                .to_string()
                .starts_with("policy group-web: adaptive mode needs"),
            "{refused}"
        );
    }

    #[test]
    fn removing_gives_back_what_others_give_and_removing_nothing_changes_nothing() {
        let four = Partial {
            misses: Some(4),
            ..Partial::default()
        };
        let with = draft(&PolicySet::default(), &set(web(), four));
        let unset = Change::Unset {
            which: Which::Of(web()),
        };
        let without = draft(&with.policies, &unset);
        assert_eq!(without.after, Tuning::default());
        assert_eq!(without.changes, ["group-web: removed, was T=20s N=4 W=2s"]);
        assert!(draft(&without.policies, &unset).changes_nothing());
        let named = Change::Unset {
            which: Which::Named("group-web".to_owned(), None),
        };
        let absent = Draft::of(&without.policies, &named, NOW);
        assert_eq!(absent, Err(Wrong::Unknown("group-web".to_owned())));
    }

    #[test]
    fn temporary_policy_of_a_selector_has_a_name_of_its_own() {
        let lasting = draft(&PolicySet::default(), &set(web(), every(20)));
        let hunt = Change::Set {
            which: Which::Of(web()),
            tuning: every(5),
            expires_in: Some(60 * SECOND),
        };
        let hunting = draft(&lasting.policies, &hunt);
        let names = hunting
            .policies
            .policies()
            .iter()
            .map(|policy| &policy.name);
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["group-web", "group-web-temporary"]
        );
    }

    /// A temporary retune lies over the lasting policy and leaves it as it is.
    #[test]
    fn named_policy_that_expires_leaves_the_lasting_one_alone() {
        let lasting = draft(&PolicySet::default(), &set(web(), every(20)));
        let hunt = Change::Set {
            which: Which::Named("hunt".to_owned(), Some(web())),
            tuning: every(5),
            expires_in: Some(60 * SECOND),
        };
        let hunting = draft(&lasting.policies, &hunt);
        assert_eq!(hunting.after.interval(), 5 * SECOND);
        let nine = draft(&hunting.policies, &set(web(), every(9)));
        assert_eq!(nine.after.interval(), 5 * SECOND);
        assert_eq!(
            Draft::expiry(&nine.policies, NOW + 59 * SECOND).changes,
            [""; 0]
        );
        let over = Draft::expiry(&nine.policies, NOW + 60 * SECOND);
        assert_eq!(in_force(&over.policies, &web()).interval(), 9 * SECOND);
        assert_eq!(over.policies.revision(), nine.policies.revision() + 1);
        // Neither does a rollback bring back what was to be over by then.
        let back = Draft::rollback(&over.policies, &hunting.policies, NOW + 60 * SECOND);
        assert_eq!(in_force(&back.policies, &web()).interval(), 20 * SECOND);
    }

    #[test]
    fn named_policy_keeps_its_selector_until_it_is_given_another() {
        let name = |selector| Which::Named("slow".to_owned(), selector);
        let change = |which, tuning| Change::Set {
            which,
            tuning,
            expires_in: None,
        };
        let unknown = Draft::of(&PolicySet::default(), &change(name(None), every(5)), NOW);
        assert_eq!(unknown, Err(Wrong::Unknown("slow".to_owned())));
        let made = draft(&PolicySet::default(), &change(name(Some(web())), every(60)));
        let slower = draft(&made.policies, &change(name(None), every(90)));
        assert_eq!(in_force(&slower.policies, &web()).interval(), 90 * SECOND);
        let db = Selector::group("db");
        let moved = draft(&slower.policies, &change(name(Some(db.clone())), every(90)));
        assert_eq!(in_force(&moved.policies, &web()), Tuning::default());
        assert_eq!(in_force(&moved.policies, &db).interval(), 90 * SECOND);
        let taken = Policy {
            name: "group-web".to_owned(),
            ..moved.policies.policies()[0].clone()
        };
        let replace = Change::Replace {
            policies: vec![taken],
        };
        let replaced = draft(&moved.policies, &replace);
        let refused = Draft::of(&replaced.policies, &set(web(), every(5)), NOW);
        assert_eq!(refused, Err(Wrong::Taken("group-web".to_owned())));
    }

    #[test]
    fn rollback_is_the_old_policies_under_a_newer_number() {
        let first = draft(&PolicySet::default(), &set(web(), every(5)));
        let second = draft(&first.policies, &set(web(), every(9)));
        let back = Draft::rollback(&second.policies, &first.policies, NOW);
        assert_eq!(back.policies, first.policies.at_revision(3));
        assert_eq!(back.changes, ["group-web: T=9s N=3 W=2s → T=5s N=3 W=2s"]);
        assert!(Draft::rollback(&first.policies, &first.policies, NOW).changes_nothing());
    }
}

use std::collections::BTreeMap;

use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::policy::{Attributes, Because, Policy, PolicySet, Selector};
use proptest::prelude::*;

use crate::given::{any_tuning, tuning};

fn of_group(group: &str) -> Attributes {
    Attributes {
        agent_id: [7; 16],
        group: group.to_owned(),
        labels: BTreeMap::new(),
    }
}

fn group(group: &str) -> Selector {
    Selector::Group(group.to_owned())
}

#[test]
fn without_policies_the_built_in_default_applies() {
    let effective = PolicySet::default().effective(&of_group("web"));
    assert_eq!(
        (effective.tuning.revision, effective.tuning.tuning),
        (0, Tuning::default())
    );
    assert_eq!(effective.because.to_string(), "built-in default");
}

#[test]
fn the_policy_of_a_group_goes_before_that_of_the_fleet() {
    let (fleet, web) = (tuning(60, 3, 2), tuning(5, 2, 1));
    let policies = PolicySet::default()
        .with(Selector::Fleet, fleet)
        .with(group("web"), web);
    let of_web = policies.effective(&of_group("web"));
    assert_eq!((of_web.tuning.revision, of_web.tuning.tuning), (2, web));
    assert_eq!(of_web.because.to_string(), "policy of group web");
    let of_others = policies.effective(&of_group("batch"));
    assert_eq!(of_others.tuning.tuning, fleet);
    assert_eq!(of_others.because, Because::Policy(Selector::Fleet));
    assert_eq!(policies.default_tuning(), fleet);
    assert_eq!(
        policies
            .without(&group("web"))
            .effective(&of_group("web"))
            .tuning
            .tuning,
        fleet
    );
}

/// C2: a rollback is a newer revision with older values.
#[test]
fn a_policy_set_never_changes_and_each_change_is_a_newer_one() {
    let first = PolicySet::default().with(Selector::Fleet, tuning(60, 3, 2));
    let second = first.with(Selector::Fleet, tuning(5, 2, 1));
    let rolled_back = first.at_revision(3);
    let revisions = [&first, &second, &rolled_back].map(PolicySet::revision);
    assert_eq!(revisions, [1, 2, 3]);
    assert_eq!(first.default_tuning(), tuning(60, 3, 2));
    assert_eq!(rolled_back.policies(), first.policies());
}

#[test]
fn changes_are_told_a_line_per_policy() {
    let (a, b) = (tuning(60, 3, 2), tuning(5, 2, 1));
    let older = PolicySet::default()
        .with(group("web"), a)
        .with(group("batch"), a);
    let newer = older
        .with(Selector::Fleet, b)
        .with(group("web"), b)
        .without(&group("batch"));
    assert_eq!(
        newer.changes(&older),
        [
            "fleet: set to T=5s N=2 W=1s",
            "group batch: removed, was T=60s N=3 W=2s",
            "group web: T=60s N=3 W=2s → T=5s N=2 W=1s",
        ]
    );
    assert_eq!(newer.changes(&newer.at_revision(9)), Vec::<String>::new());
}

fn any_selector() -> impl Strategy<Value = Selector> {
    prop_oneof![1 => Just(Selector::Fleet), 4 => "[a-e]{0,2}".prop_map(Selector::Group)]
}

proptest! {
    /// C4: what comes into force is always the whole tuning of one policy, the last one that was given
    /// to the most specific selector.
    #[test]
    fn the_effective_tuning_is_one_whole_value(
        given in prop::collection::vec((any_selector(), any_tuning()), 0..40),
        name in "[a-e]{0,2}",
    ) {
        let attributes = of_group(&name);
        let policies = given.iter().fold(PolicySet::default(), |policies, (selector, tuning)| {
            policies.with(selector.clone(), *tuning)
        });
        let last = |selector: &Selector| {
            given.iter().rev().find(|(given, _)| given == selector).map(|(_, tuning)| *tuning)
        };
        let own = group(&name);
        let expected = last(&own).or(last(&Selector::Fleet)).unwrap_or_default();
        let effective = policies.effective(&attributes);
        prop_assert_eq!(effective.tuning.tuning, expected);
        if let Because::Policy(selector) = effective.because {
            prop_assert!(selector.matches(&attributes));
            prop_assert_eq!(policies.get(&selector), Some(expected));
        }
        let again = given.iter().cloned().map(|(selector, tuning)| Policy { selector, tuning });
        prop_assert_eq!(PolicySet::new(policies.revision(), again), policies);
    }
}

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::policy::{
    Attributes, Because, Cadence, Policy, PolicySet, Selector, Value, Values,
};
use fleetbeat_liveness::rollout::Split;
use fleetbeat_liveness::tuning::TuningError;
use proptest::prelude::*;

use crate::given::{any_tuning, secs, tuning};

fn of_group(group: &str) -> Attributes {
    Attributes {
        agent_id: [7; 16],
        group: group.to_owned(),
        labels: BTreeMap::new(),
    }
}

fn set(given: impl IntoIterator<Item = Policy>) -> PolicySet {
    PolicySet::new(1, given)
}

fn fleet(tuning: Tuning) -> Policy {
    Policy::whole(Selector::fleet(), tuning)
}

fn group(name: &str, tuning: Tuning) -> Policy {
    Policy::whole(Selector::group(name), tuning)
}

fn named(name: &str, selector: Selector, values: Values) -> Policy {
    Policy {
        name: name.to_owned(),
        selector,
        values,
        expires_at: None,
    }
}

fn only(adaptive: bool) -> Values {
    Values {
        adaptive: Some(adaptive),
        ..Values::default()
    }
}

#[test]
fn without_policies_the_built_in_default_applies() {
    let effective = PolicySet::default().effective(&of_group("web"));
    assert_eq!(
        (effective.tuning.revision, effective.tuning.tuning),
        (0, Tuning::default())
    );
    assert_eq!(effective.sources.to_string(), "built-in default");
}

#[test]
fn later_policies_go_before_earlier_ones_value_by_value() {
    let lease = Values {
        pong_every: Some(5),
        ..Values::default()
    };
    let policies = set([
        fleet(tuning(60, 3, 2)),
        named("lease", Selector::group("web"), lease),
        named(
            "fast",
            Selector::fleet(),
            Values {
                cadence: Some(tuning(5, 2, 1).into()),
                ..Values::default()
            },
        ),
    ]);
    let effective = policies.effective(&of_group("web"));
    assert_eq!(
        effective.tuning.tuning,
        Tuning::new(secs(5), 2, secs(1), 5).unwrap()
    );
    assert_eq!(
        effective.sources.to_string(),
        "T, N, W by policy fast; pong_every by policy lease; adaptive by policy fleet"
    );
    let of_others = policies.effective(&of_group("batch"));
    assert_eq!(of_others.tuning.tuning, tuning(5, 2, 1));
    assert_eq!(
        of_others.sources.pong_every,
        Because::Policy("fleet".to_owned())
    );
}

/// Group, labels by equality and `in`, and agents: all that is set must be met.
#[test]
fn selector_is_the_conjunction_of_what_is_set() {
    let labels = |given: &[(&str, &[&str])]| {
        let values = |values: &[&str]| values.iter().map(ToString::to_string).collect();
        given
            .iter()
            .map(|(key, of)| ((*key).to_owned(), values(of)))
            .collect()
    };
    let agent = Attributes {
        agent_id: [1; 16],
        group: "web".to_owned(),
        labels: [("zone", "b"), ("role", "gateway")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    };
    let selector = |group: Option<&str>, agents: &[[u8; 16]], of: &[(&str, &[&str])]| Selector {
        group: group.map(str::to_owned),
        agents: agents.iter().copied().collect(),
        labels: labels(of),
    };
    for (yes, selector) in [
        (true, selector(None, &[], &[])),
        (true, selector(Some("web"), &[], &[])),
        (false, selector(Some("we"), &[], &[])),
        (true, selector(None, &[[2; 16], [1; 16]], &[])),
        (false, selector(None, &[[2; 16]], &[])),
        (true, selector(None, &[], &[("zone", &["b"])])),
        (true, selector(None, &[], &[("zone", &["a", "b"])])),
        (false, selector(None, &[], &[("zone", &["a", "c"])])),
        (false, selector(None, &[], &[("rack", &["b"])])),
        (
            true,
            selector(
                Some("web"),
                &[[1; 16]],
                &[("zone", &["b"]), ("role", &["gateway"])],
            ),
        ),
        (
            false,
            selector(
                Some("web"),
                &[[1; 16]],
                &[("zone", &["b"]), ("role", &["db"])],
            ),
        ),
        (false, selector(Some("db"), &[[1; 16]], &[("zone", &["b"])])),
    ] {
        assert_eq!(selector.matches(&agent), yes, "{selector}");
        assert!(selector.matches(&selector.example()), "{selector}");
    }
}

#[test]
fn policy_without_a_place_goes_behind_all_that_are_not_more_specific() {
    let labelled = Selector {
        labels: BTreeMap::from([("zone".to_owned(), BTreeSet::from(["a".to_owned()]))]),
        ..Selector::default()
    };
    let some = Selector {
        agents: BTreeSet::from([[1; 16]]),
        ..Selector::default()
    };
    let policies = PolicySet::default()
        .with(named("some", some, only(true)))
        .with(named("zone-a", labelled, only(false)))
        .with(group("web", tuning(5, 2, 1)))
        .with(group("batch", tuning(5, 2, 1)))
        .with(fleet(tuning(60, 3, 2)))
        .with(group("web", tuning(6, 2, 1)));
    let names: Vec<&str> = policies
        .policies()
        .iter()
        .map(|policy| policy.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["fleet", "group-web", "group-batch", "zone-a", "some"]
    );
    assert_eq!(policies.revision(), 6);
}

/// C4: each policy is valid, and together they are not: adaptive mode needs the answer to every PING.
#[test]
fn what_cannot_stand_together_yields_and_says_so() {
    let lease = Values {
        pong_every: Some(10),
        ..Values::default()
    };
    let policies = set([
        named("lease", Selector::fleet(), lease),
        named("radio", Selector::group("web"), only(true)),
        named(
            "slow",
            Selector::group("batch"),
            Values {
                cadence: Some(Cadence::new(secs(3600), 2, secs(5)).unwrap()),
                ..Values::default()
            },
        ),
    ]);
    let web = policies.effective(&of_group("web"));
    assert_eq!(
        (web.tuning.tuning.pong_every(), web.tuning.tuning.adaptive()),
        (10, false)
    );
    let [lost] = &web.yields[..] else {
        panic!("{:?}", web.yields)
    };
    assert_eq!(
        (lost.value, &lost.given_by),
        (Value::Adaptive, &Because::Policy("radio".to_owned()))
    );
    assert!(
        lost.to_string()
            .starts_with("adaptive of policy radio yields: adaptive mode needs the round trip"),
        "{lost}"
    );
    let batch = policies.effective(&of_group("batch"));
    assert_eq!(batch.tuning.tuning, tuning(3600, 2, 5));
    assert!(matches!(
        batch.yields[0].rule,
        TuningError::ReverseGapTooLong { .. }
    ));
}

#[test]
fn values_that_contradict_each_other_are_refused_by_themselves() {
    let values = |pong_every, adaptive| Values {
        pong_every,
        adaptive,
        ..Values::default()
    };
    assert!(values(Some(5), None).check().is_ok());
    assert!(values(None, Some(true)).check().is_ok());
    assert!(values(Some(5), Some(true)).check().is_err());
    assert!(values(Some(11), None).check().is_err());
    let slow = Values {
        cadence: Some(Cadence::new(secs(3600), 2, secs(5)).unwrap()),
        ..values(Some(2), None)
    };
    assert!(slow.check().is_err());
}

/// C2: a rollback is a newer revision with older values.
#[test]
fn a_policy_set_never_changes_and_each_change_is_a_newer_one() {
    let first = PolicySet::default().with(fleet(tuning(60, 3, 2)));
    let second = first.with(fleet(tuning(5, 2, 1)));
    let rolled_back = first.at_revision(3);
    let revisions = [&first, &second, &rolled_back].map(PolicySet::revision);
    assert_eq!(revisions, [1, 2, 3]);
    assert_eq!(first.default_tuning(), tuning(60, 3, 2));
    assert_eq!(rolled_back.policies(), first.policies());
}

#[test]
fn changes_are_told_a_line_per_policy() {
    let (a, b) = (tuning(60, 3, 2), tuning(5, 2, 1));
    let older = set([
        group("web", a),
        group("batch", a),
        named("x", Selector::group("web"), only(true)),
    ]);
    let x = Policy {
        expires_at: Some(Duration::from_hours(500_000)),
        ..named("x", Selector::group("db"), only(true))
    };
    let newer = set([x, group("web", b), fleet(b)]);
    assert_eq!(
        newer.changes(&older),
        [
            "fleet: set to T=5s N=2 W=1s pong_every=1 adaptive=off",
            "group-batch: removed, was T=60s N=3 W=2s pong_every=1 adaptive=off",
            "group-web: T=60s N=3 W=2s pong_every=1 adaptive=off → T=5s N=2 W=1s pong_every=1 adaptive=off",
            "x: for group web → group db, for good → until 2027-01-15T08:00:00Z",
            "order: group-web, x → x, group-web",
        ]
    );
    assert_eq!(newer.changes(&newer.at_revision(9)), Vec::<String>::new());
}

/// C2: the phase is a part of the revision, and reconnecting jumps none.
#[test]
fn a_candidate_is_in_force_within_its_split_and_nowhere_else() {
    let (good, candidate) = (
        set([fleet(tuning(60, 3, 2))]),
        set([fleet(tuning(5, 2, 1))]),
    );
    let half = Split {
        seed: 1,
        reach: u64::MAX / 2,
    };
    let staged = good.at_revision(2).staged_to(half, &candidate);
    assert_eq!(staged.revision(), 2);
    let agents = (0..200_u128).map(u128::to_be_bytes);
    let (mut inside, mut outside) = (0, 0);
    for agent_id in agents {
        let effective = staged.effective(&Attributes {
            agent_id,
            ..of_group("web")
        });
        let is_in = half.includes(&agent_id);
        let wanted = if is_in {
            tuning(5, 2, 1)
        } else {
            tuning(60, 3, 2)
        };
        assert_eq!((effective.tuning.tuning, effective.staged), (wanted, is_in));
        *(if is_in { &mut inside } else { &mut outside }) += 1;
    }
    assert!(inside > 50 && outside > 50, "{inside} and {outside}");
    assert_eq!(staged.unstaged(), good.at_revision(2));
    assert_eq!(
        staged.changes(&good),
        [
            "candidate for 50 %: fleet: T=60s N=3 W=2s pong_every=1 adaptive=off → \
          T=5s N=2 W=1s pong_every=1 adaptive=off"
        ]
    );
    let everyone = Split {
        reach: u64::MAX,
        ..half
    };
    let done = good.at_revision(3).staged_to(everyone, &candidate);
    assert_eq!(done, candidate.at_revision(3));
    assert_eq!(
        done.changes(&staged).last().unwrap(),
        "candidate: for everybody"
    );
    assert_eq!(good.changes(&staged), ["candidate: for nobody"]);
}

/// A policy that ends within a rollout makes a difference, although everybody else has what they had.
#[test]
fn expiry_of_a_candidates_policy_is_told_and_names_it() {
    let hunt = Policy {
        expires_at: Some(secs(50)),
        ..named("hunt", Selector::group("web"), only(true))
    };
    let good = set([fleet(tuning(60, 3, 2))]);
    let candidate = good.with(hunt);
    let half = Split {
        seed: 1,
        reach: u64::MAX / 2,
    };
    let staged = good.at_revision(2).staged_to(half, &candidate);
    assert_eq!(staged.next_expiry(), Some(secs(50)));
    assert_eq!(staged.expired(secs(49)), [""; 0]);
    assert_eq!(staged.expired(secs(50)), ["hunt"]);
    let over = staged.at_revision(3).without_expired(secs(50));
    assert_eq!(
        over.changes(&staged),
        ["candidate: hunt: removed, was adaptive=on for group web, until 1970-01-01T00:00:50Z"]
    );
    assert_eq!(over.next_expiry(), None);
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let selector = prop_oneof![
        1 => Just(Selector::fleet()),
        3 => "[a-c]{0,1}".prop_map(Selector::group),
        1 => (0_u8..4).prop_map(|n| Selector {
            agents: BTreeSet::from([[n; 16]]),
            ..Selector::default()
        }),
        1 => "[a-c]".prop_map(|value| Selector {
            labels: BTreeMap::from([("zone".to_owned(), BTreeSet::from([value]))]),
            ..Selector::default()
        }),
    ];
    ("[a-e]{1}", selector, any_tuning(), any::<[bool; 3]>()).prop_map(
        |(name, selector, tuning, [cadence, pong_every, adaptive])| Policy {
            name,
            selector,
            values: Values {
                cadence: cadence.then(|| tuning.into()),
                pong_every: pong_every.then_some(tuning.pong_every()),
                adaptive: adaptive.then_some(tuning.adaptive()),
            },
            expires_at: None,
        },
    )
}

proptest! {
    /// Against the plain reading: walk the list, keep the last T, N, W of a policy that matches. What
    /// comes into force is always a valid tuning (C4).
    #[test]
    fn effective_tuning_is_the_last_value_of_each_kind(
        given in prop::collection::vec(any_policy(), 0..30),
        name in "[a-c]{0,1}",
        zone in "[a-c]",
        id in 0_u8..4,
    ) {
        let attributes = Attributes {
            agent_id: [id; 16],
            labels: BTreeMap::from([("zone".to_owned(), zone)]),
            ..of_group(&name)
        };
        let policies = set(given);
        let matching = || policies.policies().iter().rev().filter(|policy| policy.selector.matches(&attributes));
        let effective = policies.effective(&attributes);
        let tuning = effective.tuning.tuning;
        let cadence = matching().find_map(|policy| policy.values.cadence);
        prop_assert_eq!(Cadence::from(tuning), cadence.unwrap_or_else(|| Tuning::default().into()));
        let pong_every = matching().find_map(|policy| policy.values.pong_every).unwrap_or(1);
        let adaptive = matching().find_map(|policy| policy.values.adaptive).unwrap_or(false);
        let yields = |value| effective.yields.iter().any(|lost| lost.value == value);
        prop_assert!(tuning.pong_every() == pong_every || yields(Value::PongEvery));
        prop_assert!(tuning.adaptive() == adaptive || yields(Value::Adaptive));
        let valid = Tuning::new(tuning.interval(), tuning.misses(), tuning.timeout(), tuning.pong_every())
            .and_then(|valid| valid.with_adaptive(tuning.adaptive()));
        prop_assert_eq!(valid, Ok(tuning));
        for (value, because) in effective.sources.each() {
            if let Because::Policy(name) = because {
                let policy = policies.get(name).unwrap();
                prop_assert!(policy.selector.matches(&attributes), "{value} by {name}");
            }
        }
    }
}

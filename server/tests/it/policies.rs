//! Sets of policies: files, selectors, temporary ones, the fleet's limits.

use std::collections::HashMap;
use std::time::Duration;

use fleetbeat_liveness::bounds::Bounds;
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::tuning_ack::Outcome;
use tonic::Code;

use crate::actor::{Actor, hello};
use crate::office::{Office, Setup, interval, set};
use crate::retune::web;

fn policy(name: &str, selector: v1::Selector, tuning: v1::Tuning) -> v1::Policy {
    v1::Policy {
        selector: Some(selector),
        tuning: Some(tuning),
        name: name.to_owned(),
        expires_unix_us: None,
    }
}

fn every(seconds: u64) -> v1::Tuning {
    v1::Tuning {
        misses: Some(3),
        timeout_ns: Some(1_000_000_000),
        ..interval(seconds * 1_000)
    }
}

fn labelled(key: &str, values: &[&str]) -> v1::Selector {
    let values = values.iter().map(ToString::to_string).collect();
    v1::Selector {
        labels: HashMap::from([(key.to_owned(), v1::LabelValues { values })]),
        ..v1::Selector::default()
    }
}

fn apply(policies: Vec<v1::Policy>) -> v1::ApplyPoliciesRequest {
    v1::ApplyPoliciesRequest {
        policies: Some(v1::PolicySet {
            policies,
            ..v1::PolicySet::default()
        }),
        reason: "a file".to_owned(),
        ..v1::ApplyPoliciesRequest::default()
    }
}

/// What is applied, stored, read by another server and told again is what was sent.
#[tokio::test]
async fn whole_policy_set_makes_the_round_trip_and_reaches_whom_it_selects() {
    let office = Office::open().await;
    let mut agents = Vec::new();
    for (n, zone) in [(1, "a"), (2, "b"), (3, "c")] {
        let mut hello = hello(n);
        hello.labels.insert("zone".to_owned(), zone.to_owned());
        let mut actor = Actor::join(&office.house, hello).await;
        actor.ack_welcome().await;
        agents.push(actor);
    }
    let mut client = office.client().await;
    let one = v1::Selector {
        agent_ids: vec!["02020202-0202-0202-0202-020202020202".to_owned()],
        ..v1::Selector::default()
    };
    let adaptive = v1::Tuning {
        adaptive: Some(true),
        ..v1::Tuning::default()
    };
    let sent = vec![
        policy("zones", labelled("zone", &["a", "b"]), every(5)),
        policy("one", one, adaptive),
    ];
    let dry = v1::ApplyPoliciesRequest {
        dry_run: true,
        ..apply(sent.clone())
    };
    let dry = client.apply_policies(dry).await.unwrap().into_inner();
    assert_eq!((dry.revision, dry.targets), (None, 2));
    assert_eq!(
        dry.changes,
        [
            "one: set to adaptive=on for 1 agent",
            "zones: set to T=5s N=3 W=1s for zone=a|b"
        ]
    );
    let made = client.apply_policies(apply(sent.clone())).await.unwrap();
    assert_eq!(made.into_inner().revision, Some(1));
    for agent in &mut agents[..2] {
        agent.ack(Outcome::Applied).await;
    }
    let tuning = |n| office.house.session(n).in_force().tuning;
    office
        .house
        .until(|| tuning(2).adaptive() && tuning(1).interval() == Duration::from_secs(5))
        .await;
    assert_eq!(tuning(3).interval(), Duration::from_secs(20));

    let ask = v1::GetTuningRequest {
        agent: "agent-2".to_owned(),
        ..v1::GetTuningRequest::default()
    };
    let told = client.get_tuning(ask).await.unwrap().into_inner();
    assert_eq!(told.policies.unwrap().policies, sent);
    let sources: Vec<_> = told
        .sources
        .iter()
        .map(|source| (source.value.as_str(), source.policy.as_str()))
        .collect();
    assert_eq!(
        sources,
        [
            ("T, N, W", "zones"),
            ("pong_every", ""),
            ("adaptive", "one")
        ]
    );
    let other = office.other_desk();
    other.refresh().await.unwrap();
    assert_eq!(other.policies(), office.desk.policies());
    let again = client
        .apply_policies(apply(sent))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((again.revision, again.changes), (None, vec![]));
    office.database.stop().await;
}

/// Two operators at once: one wins, the other sees why.
#[tokio::test]
async fn change_built_on_an_old_revision_is_refused_with_what_changed_since() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let on_top_of_nothing = |seconds| v1::ApplyPoliciesRequest {
        expected_revision: Some(0),
        ..apply(vec![policy(
            "mine",
            v1::Selector::default(),
            every(seconds),
        )])
    };
    let mut rival = office.client().await;
    let (a, b) = tokio::join!(
        client.apply_policies(on_top_of_nothing(5)),
        rival.apply_policies(on_top_of_nothing(6))
    );
    let refused = match (a, b) {
        (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
        (a, b) => panic!("one of two was to win: {a:?}, {b:?}"),
    };
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let text = refused.message();
    assert!(
        text.contains("revision 0 was expected and 1 is the newest"),
        "{text}"
    );
    assert!(text.contains("\n  revision 1 by first-"), "{text}");
    assert!(text.contains("(a file): mine: set to T="), "{text}");
    assert_eq!(office.desk.policies().revision(), 1);
    office.database.stop().await;
}

#[tokio::test]
async fn temporary_policy_goes_by_itself_and_the_audit_tells_it() {
    let office = Office::open().await;
    let mut agent = web(&office, 1).await;
    let mut client = office.client().await;
    client
        .set_tuning(set("web", interval(9_000)))
        .await
        .unwrap();
    agent.ack(Outcome::Applied).await;
    let soon = v1::SetTuningRequest {
        expires_in_ns: Some(1_500_000_000),
        ..set("web", interval(5_000))
    };
    let made = client.set_tuning(soon).await.unwrap().into_inner();
    assert_eq!(
        made.policies.unwrap().policies[1].name,
        "group-web-temporary"
    );
    agent.ack(Outcome::Applied).await;
    office.run_desk();
    while agent.ack(Outcome::Applied).await < 3 {}
    office
        .house
        .until(|| {
            let session = office.house.session(1);
            session.waiting_for().is_none() && session.in_force().revision == 3
        })
        .await;
    let after = office.house.session(1).in_force().tuning;
    assert_eq!(after.interval(), Duration::from_secs(9));
    let audit = office.store.recent_audit(1).await.unwrap();
    assert_eq!(
        (
            audit[0].action.as_str(),
            audit[0].actor.as_str(),
            audit[0].reason.as_str()
        ),
        (
            "ExpirePolicies",
            "expiry",
            "the time is over of group-web-temporary"
        )
    );
    office.database.stop().await;
}

#[tokio::test]
async fn limits_of_the_fleet_refuse_with_numbers_until_they_are_forced() {
    let bounds = Bounds {
        interval_least: Duration::from_secs(2),
        deadline_most: Duration::from_mins(2),
        beats_per_second_most: 0.2,
    };
    let office = Office::open_with(Setup {
        bounds,
        ..Setup::default()
    })
    .await;
    let _agents = [web(&office, 1).await, web(&office, 2).await];
    let mut client = office.client().await;
    let fine = v1::Tuning {
        timeout_ns: Some(1_000_000_000),
        ..interval(1_000)
    };
    for (tuning, said) in [
        (fine, "interval 1s is below the fleet's floor of 2s"),
        (
            interval(60_000),
            "silence would be tolerated for 182s, above the fleet's ceiling of 120s",
        ),
        (
            interval(5_000),
            "2 members would send 0.4 heartbeats per second, above the fleet's ceiling of 0.2",
        ),
    ] {
        let refused = client.set_tuning(set("web", tuning)).await.unwrap_err();
        assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
        assert!(
            refused.message().contains(said),
            "wanted {said}, got {refused}"
        );
        assert!(refused.message().contains("--force"), "{refused}");
        let dry = v1::SetTuningRequest {
            dry_run: true,
            ..set("web", tuning)
        };
        let dry = client.set_tuning(dry).await.unwrap().into_inner();
        assert!(
            dry.exceeded.iter().any(|limit| limit.contains(said)),
            "{dry:?}"
        );
    }
    let forced = v1::SetTuningRequest {
        force: true,
        ..set("web", interval(5_000))
    };
    let forced = client.set_tuning(forced).await.unwrap().into_inner();
    assert_eq!(forced.revision, Some(1));
    assert!(
        (forced.beats_per_second_after - 2.0 / 4.75).abs() < 1e-9,
        "{forced:?}"
    );
    // What eases the load is no breach, though the fleet is still above its limit.
    let eased = client
        .set_tuning(set("web", interval(9_000)))
        .await
        .unwrap();
    assert_eq!(eased.into_inner().exceeded, Vec::<String>::new());
    let audit = office.store.recent_audit(10).await.unwrap();
    let outcome = |n: usize| audit[n].outcome.as_str();
    assert_eq!(outcome(0), "done");
    assert!(
        outcome(1).starts_with("done, forced although 2 members would send"),
        "{audit:?}"
    );
    assert!(
        outcome(2).contains("above the fleet's ceiling"),
        "{audit:?}"
    );
    office.database.stop().await;
}

#[tokio::test]
async fn policies_from_outside_are_refused_with_what_to_do() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let fleet = v1::Selector::default;
    let no_id = v1::Selector {
        agent_ids: vec!["web-1".to_owned()],
        ..v1::Selector::default()
    };
    let half = v1::Tuning {
        timeout_ns: None,
        ..every(5)
    };
    let expired = v1::Policy {
        expires_unix_us: Some(1),
        ..policy("old", fleet(), every(5))
    };
    for (policies, said) in [
        (
            vec![policy("a", fleet(), half)],
            "policy a: interval, misses and timeout are one value",
        ),
        (
            vec![policy("a", no_id, every(5))],
            "\"web-1\" is no agent's id",
        ),
        (
            vec![policy("a", fleet(), v1::Tuning::default())],
            "policy a gives nothing",
        ),
        (
            vec![policy("", fleet(), every(5))],
            "is not a policy's name",
        ),
        (vec![expired], "policy old would expire in the past"),
        (
            vec![
                policy("a", fleet(), every(5)),
                policy("a", fleet(), every(6)),
            ],
            "two policies are called a",
        ),
    ] {
        let refused = client.apply_policies(apply(policies)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(
            refused.message().contains(said),
            "wanted {said}, got {refused}"
        );
    }
    let unknown = v1::SetTuningRequest {
        selector: None,
        policy: "nobody".to_owned(),
        ..set("web", interval(5_000))
    };
    let refused = client.set_tuning(unknown).await.unwrap_err();
    assert!(
        refused.message().contains("there is no policy nobody"),
        "{refused}"
    );
    assert_eq!(office.desk.policies().revision(), 0);
    office.database.stop().await;
}

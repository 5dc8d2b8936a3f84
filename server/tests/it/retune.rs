//! Retuning live agents: from the operator's call to each agent's answer.

use fleetbeat_liveness::policy::Selector;
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::tuning_ack::Outcome;
use fleetbeat_server::tuning::{Author, Change, Failed, Partial, Terms, Which, Wish};
use std::time::Duration;
use tonic::Code;

use crate::actor::{Actor, hello};
use crate::database::eventually;
use crate::office::{Client, Office, interval, set};

/// An agent of group `web`.
pub(crate) async fn web(office: &Office, n: u8) -> Actor {
    let mut hello = hello(n);
    "web".clone_into(&mut hello.group);
    let mut actor = Actor::join(&office.house, hello).await;
    actor.ack_welcome().await;
    office
        .house
        .until(|| office.house.session(n).waiting_for().is_none())
        .await;
    actor
}

fn set_it(selector: Selector, tuning: Partial) -> Wish {
    Wish::Change(Change::Set {
        which: Which::Of(selector),
        tuning,
        expires_in: None,
    })
}

/// The last message about `revision`.
pub(crate) async fn outcome(client: &mut Client, revision: u64) -> v1::RevisionProgress {
    let watch = v1::WatchRevisionRequest {
        revision,
        wait_ns: 0,
    };
    let mut stream = client.watch_revision(watch).await.unwrap().into_inner();
    loop {
        let progress = stream.message().await.unwrap().expect("a last message");
        if progress.done {
            return progress;
        }
    }
}

#[tokio::test]
async fn change_reaches_exactly_those_whose_value_differs_and_every_answer_is_counted() {
    let office = Office::open().await;
    let mut agents = Vec::new();
    for n in 1..=4 {
        agents.push(web(&office, n).await);
    }
    let mut other = Actor::join(&office.house, hello(9)).await;
    other.ack_welcome().await;
    let mut client = office.client().await;

    let dry = v1::SetTuningRequest {
        dry_run: true,
        ..set("web", interval(5_000))
    };
    let dry = client.set_tuning(dry).await.unwrap().into_inner();
    assert_eq!((dry.revision, dry.targets), (None, 4));
    assert_eq!(office.desk.policies().revision(), 0);

    let set_it = client
        .set_tuning(set("web", interval(5_000)))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((set_it.revision, set_it.targets), (Some(1), 4));
    assert_eq!(set_it.before.unwrap().interval_ns, Some(20_000_000_000));
    let after = set_it.after.unwrap();
    assert_eq!(
        (after.interval_ns, after.misses),
        (Some(5_000_000_000), Some(3))
    );
    // Until it is answered the deadline is the more tolerant one.
    assert_eq!(
        office.house.session(1).offline_after(),
        Duration::from_secs(62)
    );

    let leaving = agents.pop().unwrap();
    let mut refusing = agents.pop().unwrap();
    refusing.ack(Outcome::Refused).await;
    leaving.goodbye(v1::CloseReason::Goodbye).await;
    for agent in &mut agents {
        agent.ack(Outcome::Applied).await;
    }
    let progress = outcome(&mut client, 1).await;
    assert_eq!(
        (
            progress.targets,
            progress.applied,
            progress.refused,
            progress.lost,
            progress.waiting
        ),
        (4, 2, 1, 1, 0),
        "{progress:?}"
    );
    assert_eq!(progress.refusals[0].agent_name, "agent-3");
    assert_eq!(progress.refusals[0].reason, "no");
    assert!(progress.ack_p50_ns.unwrap() > 0 && progress.ack_p99_ns >= progress.ack_p50_ns);
    assert_eq!(
        office.house.session(1).offline_after(),
        Duration::from_secs(17)
    );
    assert_eq!(office.house.session(9).in_force().revision, 0);

    let shown = client
        .get_agent(v1::GetAgentRequest {
            agent: "agent-3".to_owned(),
        })
        .await;
    let shown = shown.unwrap().into_inner().agent.unwrap();
    assert_eq!(shown.refusal, "no");
    assert_eq!(shown.desired.unwrap().revision, 1);
    eventually("one agent drifts", async || {
        client
            .get_status(v1::GetStatusRequest {})
            .await
            .unwrap()
            .into_inner()
            .drifting
            == 1
    })
    .await;
    let history = client
        .list_revisions(v1::ListRevisionsRequest::default())
        .await
        .unwrap();
    let revision = &history.into_inner().revisions[0];
    assert_eq!(
        (
            revision.applied_now,
            revision.drifting_now,
            revision.reason.as_str()
        ),
        (2, 1, "a test")
    );
    assert!(revision.author.starts_with("first-"), "{}", revision.author);
    assert_eq!(revision.changes, ["group-web: set to T=5s N=3 W=2s"]);
    office.database.stop().await;
}

#[tokio::test]
async fn newer_revision_supersedes_and_rollback_is_a_newer_one() {
    let office = Office::open().await;
    let mut agent = web(&office, 1).await;
    let mut client = office.client().await;
    client
        .set_tuning(set("web", interval(5_000)))
        .await
        .unwrap();
    client
        .set_tuning(set("web", interval(8_000)))
        .await
        .unwrap();
    let first = outcome(&mut client, 1).await;
    assert_eq!((first.targets, first.superseded), (1, 1));
    let rollback = v1::RollbackTuningRequest {
        to_revision: 1,
        reason: "worse".to_owned(),
        ..v1::RollbackTuningRequest::default()
    };
    let back = client
        .rollback_tuning(rollback.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!((back.revision, back.targets), (Some(3), 1));
    // An answer to an older push settles nothing.
    while agent.ack(Outcome::Applied).await < 3 {}
    office
        .house
        .until(|| office.house.session(1).waiting_for().is_none())
        .await;
    let applied = office.house.session(1).in_force();
    assert_eq!(applied.tuning.interval(), Duration::from_secs(5));
    assert_eq!(applied.revision, 3);
    let third = outcome(&mut client, 3).await;
    assert_eq!((third.targets, third.applied), (1, 1));

    let nothing = client.rollback_tuning(rollback).await.unwrap().into_inner();
    assert_eq!((nothing.revision, nothing.targets), (None, 0));
    let absent = v1::RollbackTuningRequest {
        to_revision: 99,
        reason: "x".to_owned(),
        ..v1::RollbackTuningRequest::default()
    };
    assert_eq!(
        client.rollback_tuning(absent).await.unwrap_err().code(),
        Code::NotFound
    );
    let unset = v1::SetTuningRequest {
        remove: true,
        ..set("web", interval(1))
    };
    let unset = client.set_tuning(unset).await.unwrap().into_inner();
    assert_eq!(unset.policies.unwrap().policies, []);
    assert_eq!(unset.after.unwrap().interval_ns, Some(20_000_000_000));
    let audit = office.store.recent_audit(10).await.unwrap();
    let done: Vec<_> = audit
        .iter()
        .map(|e| (e.action.as_str(), e.revision))
        .collect();
    assert_eq!(
        done,
        [
            ("SetTuning", Some(4)),
            ("RollbackTuning", None),
            ("RollbackTuning", Some(3)),
            ("SetTuning", Some(2)),
            ("SetTuning", Some(1)),
        ]
    );
    office.database.stop().await;
}

#[tokio::test]
async fn wrong_changes_are_refused_with_what_to_do() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let longer = v1::Tuning {
        timeout_ns: Some(30_000_000_000),
        ..v1::Tuning::default()
    };
    let no_reason = v1::SetTuningRequest {
        reason: String::new(),
        ..set("web", interval(5_000))
    };
    let moved = v1::SetTuningRequest {
        expected_revision: Some(7),
        ..set("web", interval(5_000))
    };
    for (request, code, said) in [
        (set("web", interval(0)), Code::InvalidArgument, "too short"),
        (
            set("web", interval(4_000_000)),
            Code::InvalidArgument,
            "too long",
        ),
        (set("web", longer), Code::InvalidArgument, "timeout"),
        (
            set("we b", interval(5_000)),
            Code::InvalidArgument,
            "not a group's name",
        ),
        (
            set("web", v1::Tuning::default()),
            Code::InvalidArgument,
            "nothing to set",
        ),
        (no_reason, Code::InvalidArgument, "reason"),
        (
            moved,
            Code::FailedPrecondition,
            "revision 7 was expected and 0 is the newest",
        ),
    ] {
        let refused = client.set_tuning(request).await.unwrap_err();
        assert_eq!(refused.code(), code, "{}", refused.message());
        assert!(
            refused.message().contains(said),
            "wanted {said}, got {}",
            refused.message()
        );
    }
    let watch = v1::WatchRevisionRequest {
        revision: 5,
        wait_ns: 0,
    };
    let unknown = client.watch_revision(watch).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert_eq!(office.desk.policies().revision(), 0);
    office.database.stop().await;
}

#[tokio::test]
async fn watch_ends_at_its_deadline_and_says_who_still_waits() {
    let office = Office::open().await;
    let _agent = web(&office, 1).await;
    let mut client = office.client().await;
    client
        .set_tuning(set("web", interval(5_000)))
        .await
        .unwrap();
    let watch = v1::WatchRevisionRequest {
        revision: 1,
        wait_ns: 200_000_000,
    };
    let mut stream = client.watch_revision(watch).await.unwrap().into_inner();
    let mut last = None;
    while let Some(progress) = stream.message().await.unwrap() {
        last = Some(progress);
    }
    let last = last.unwrap();
    assert!(last.done);
    assert_eq!((last.targets, last.waiting), (1, 1));
    office.database.stop().await;
}

#[tokio::test]
async fn servers_that_change_at_once_make_one_history_and_see_each_others_revisions() {
    let office = Office::open().await;
    let other = office.other_desk();
    let author = Author {
        name: "a".to_owned(),
        role: "admin".to_owned(),
        address: String::new(),
        reason: "race".to_owned(),
        traceparent: String::new(),
    };
    let change = |n: u64| {
        let tuning = Partial {
            interval: Some(Duration::from_secs(5 + n)),
            ..Partial::default()
        };
        let desk = if n.is_multiple_of(2) {
            &office.desk
        } else {
            &other
        };
        let wish = set_it(Selector::group(format!("g{n}")), tuning);
        desk.change(wish, author.clone(), Terms::default())
    };
    let (a, b, c, d) = tokio::join!(change(0), change(1), change(2), change(3));
    let mut made: Vec<_> = [a, b, c, d]
        .into_iter()
        .map(|done| done.unwrap().revision.unwrap())
        .collect();
    made.sort_unstable();
    assert_eq!(made, [1, 2, 3, 4]);
    assert_eq!(office.desk.refresh().await.unwrap(), 4);
    assert_eq!(other.refresh().await.unwrap(), 4);
    assert_eq!(office.desk.policies(), other.policies());
    assert_eq!(other.policies().policies().len(), 4);

    let late = Terms {
        expected: Some(3),
        ..Terms::default()
    };
    let wish = Wish::Rollback(1);
    let refused = other.change(wish, author.clone(), late).await.unwrap_err();
    assert!(
        matches!(
            refused,
            Failed::MovedOn {
                expected: 3,
                newest: 4,
                ..
            }
        ),
        "{refused}"
    );
    office.database.stop().await;
}

#[tokio::test]
async fn revision_made_by_another_server_is_pushed_to_our_agents() {
    let office = Office::open().await;
    let mut agent = web(&office, 1).await;
    let tuning = Partial {
        interval: Some(Duration::from_secs(5)),
        ..Partial::default()
    };
    let wish = set_it(Selector::fleet(), tuning);
    let author = Author {
        name: "a".to_owned(),
        role: "admin".to_owned(),
        address: String::new(),
        reason: "elsewhere".to_owned(),
        traceparent: String::new(),
    };
    office
        .other_desk()
        .change(wish, author, Terms::default())
        .await
        .unwrap();
    office.desk.refresh().await.unwrap();
    agent.ack(Outcome::Applied).await;
    office
        .house
        .until(|| office.house.session(1).in_force().revision == 1)
        .await;
    office.database.stop().await;
}

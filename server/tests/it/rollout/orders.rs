//! What operators tell a rollout, and each other.

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::RolloutState;
use tonic::Code;

use super::{
    NEW, OLD, SOME_LOOKS, count, fleet, outcome, percent, roll_out, seconds, shown, staging, tuning,
};
use crate::crew::Nature;
use crate::database::eventually;
use crate::office::{Client, set};

fn told(reason: &str) -> v1::OrderRolloutRequest {
    v1::OrderRolloutRequest {
        rollout: 0,
        reason: reason.to_owned(),
    }
}

async fn phase_is(client: &mut Client, phase: u32) {
    eventually("the phase begins", async || {
        shown(client, 0).await.phase == phase
    })
    .await;
}

#[tokio::test]
async fn of_two_operators_at_once_one_wins_and_the_other_sees_why() {
    let (office, _crew, client) = fleet(4, |_| Nature::Good).await;
    let (mut ann, mut bob) = (client.clone(), client);
    let phases = [count(1), percent(100)];
    let slower = v1::SetTuningRequest {
        staging: Some(staging(&phases)),
        ..set("web", tuning(500))
    };
    let (a, b) = tokio::join!(ann.set_tuning(roll_out(&phases)), bob.set_tuning(slower));
    let (won, lost): (Vec<_>, Vec<_>) = [a, b].into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 1));
    let lost = lost.into_iter().next().unwrap().unwrap_err();
    assert_eq!(lost.code(), Code::FailedPrecondition);
    for said in [
        "rollout 1 is on its way (phase 1 of 2, 1 member, soaking)",
        "--supersede",
        "abort",
    ] {
        assert!(
            lost.message().contains(said),
            "wanted {said}, got {}",
            lost.message()
        );
    }
    // Also a change that has nothing to do with it, and a rollback.
    let other = ann.set_tuning(set("db", tuning(500))).await.unwrap_err();
    let rollback = v1::RollbackTuningRequest {
        to_revision: 1,
        reason: "x".to_owned(),
        ..v1::RollbackTuningRequest::default()
    };
    let rollback = ann.rollback_tuning(rollback).await.unwrap_err();
    for refused in [other, rollback] {
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(
            refused.message().contains("rollout 1"),
            "{}",
            refused.message()
        );
    }
    office.database.stop().await;
}

#[tokio::test]
async fn paused_rollout_takes_no_look_and_no_phase_until_it_is_resumed() {
    let (office, crew, mut client) = fleet(6, |_| Nature::Good).await;
    let mut viewer = office.client_with(&office.token("viewer").await).await;
    client
        .set_tuning(roll_out(&[count(2), percent(100)]))
        .await
        .unwrap();
    eventually("the first phase has it", async || crew.on(NEW).len() == 2).await;
    let refused = viewer.pause_rollout(told("lunch")).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert_eq!(shown(&mut viewer, 1).await.rollout, 1);
    let paused = client
        .pause_rollout(told("lunch"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(paused.state(), RolloutState::Paused);
    assert!(paused.outcome.ends_with("lunch"), "{}", paused.outcome);
    let twice = client.pause_rollout(told("lunch")).await.unwrap_err();
    assert_eq!(twice.code(), Code::FailedPrecondition);
    let before = shown(&mut client, 1).await;
    // What must not happen has its time to happen.
    tokio::time::sleep(SOME_LOOKS).await;
    let after = shown(&mut client, 1).await;
    assert_eq!(
        (after.soaked_ns, after.looks_taken),
        (before.soaked_ns, before.looks_taken)
    );
    assert_eq!(crew.saw(NEW).len(), 2);

    let resumed = client
        .resume_rollout(told("back"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (resumed.state(), resumed.outcome.as_str()),
        (RolloutState::Soaking, "")
    );
    let over = outcome(&mut client, 1).await;
    assert_eq!(over.state(), RolloutState::Completed, "{}", over.outcome);
    let audit = office.store.recent_audit(20).await.unwrap();
    let calls: Vec<(&str, bool)> = audit
        .iter()
        .map(|entry| (entry.action.as_str(), entry.outcome == "done"))
        .collect();
    let expected = [
        ("CompleteRollout", true),
        ("AdvanceRollout", true),
        ("ResumeRollout", true),
        ("PauseRollout", false),
        ("PauseRollout", true),
        ("SetTuning", true),
    ];
    assert_eq!(calls[..6], expected);
    office.database.stop().await;
}

#[tokio::test]
async fn aborted_rollout_gives_everybody_the_old_value_back_and_may_be_tried_again() {
    let (office, crew, mut client) = fleet(6, |_| Nature::Good).await;
    let phases = [count(2), percent(100)];
    client.set_tuning(roll_out(&phases)).await.unwrap();
    eventually("the first phase has it", async || crew.on(NEW).len() == 2).await;
    let no_reason = client.abort_rollout(told("")).await.unwrap_err();
    assert_eq!(no_reason.code(), Code::InvalidArgument);
    let unknown = v1::OrderRolloutRequest {
        rollout: 7,
        ..told("x")
    };
    assert_eq!(
        client.abort_rollout(unknown).await.unwrap_err().code(),
        Code::NotFound
    );
    let aborted = client
        .abort_rollout(told("wrong group"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (aborted.state(), aborted.revision),
        (RolloutState::Aborted, 3)
    );
    assert!(
        aborted.outcome.contains("wrong group"),
        "{}",
        aborted.outcome
    );
    eventually("everybody is back", async || crew.on(OLD).len() == 6).await;
    assert_eq!(
        client.resume_rollout(told("x")).await.unwrap_err().code(),
        Code::NotFound
    );
    let again = client
        .set_tuning(roll_out(&phases))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(again.staged_to.unwrap().rollout, 2);
    office.database.stop().await;
}

/// Hard case C2: what takes the place of a rollout is built on what was before it, also when everybody has
/// the candidate already.
#[tokio::test]
async fn newer_change_supersedes_explicitly_and_is_built_on_the_last_good_policies() {
    let (office, crew, mut client) = fleet(4, |_| Nature::Good).await;
    let long = v1::Staging {
        soak_ns: Some(seconds(600)),
        ..staging(&[percent(100)])
    };
    let everybody = v1::SetTuningRequest {
        staging: Some(long),
        ..roll_out(&[])
    };
    client.set_tuning(everybody).await.unwrap();
    eventually("everybody has it", async || crew.on(NEW).len() == 4).await;
    let other = v1::SetTuningRequest {
        supersede: true,
        ..set("db", tuning(500))
    };
    let made = client.set_tuning(other).await.unwrap().into_inner();
    assert_eq!(made.revision, Some(3));
    eventually("everybody is back", async || crew.on(OLD).len() == 4).await;
    let over = shown(&mut client, 1).await;
    assert_eq!(over.state(), RolloutState::Superseded);
    assert!(
        over.outcome.starts_with("superseded by revision 3 (first-"),
        "{}",
        over.outcome
    );
    let names: Vec<String> = made
        .policies
        .unwrap()
        .policies
        .into_iter()
        .map(|p| p.name)
        .collect();
    assert_eq!(names, ["group-web", "group-db"]);

    // A rollout may take the place of another one.
    client
        .set_tuning(roll_out(&[count(1), percent(100)]))
        .await
        .unwrap();
    let newer = v1::SetTuningRequest {
        supersede: true,
        staging: Some(staging(&[count(2), percent(100)])),
        ..set("web", tuning(500))
    };
    let newer = client.set_tuning(newer).await.unwrap().into_inner();
    assert_eq!(newer.staged_to.unwrap().rollout, 3);
    let second = shown(&mut client, 2).await;
    assert_eq!(
        second.state(),
        RolloutState::Superseded,
        "{}",
        second.outcome
    );
    let third = shown(&mut client, 0).await;
    assert_eq!((third.rollout, third.last_good), (3, 3));
    phase_is(&mut client, 1).await;
    let list = client
        .list_rollouts(v1::ListRolloutsRequest::default())
        .await
        .unwrap();
    let ids: Vec<u64> = list
        .into_inner()
        .rollouts
        .iter()
        .map(|one| one.rollout)
        .collect();
    assert_eq!(ids, [3, 2, 1]);
    office.database.stop().await;
}

#[tokio::test]
async fn phase_with_little_evidence_waits_for_the_operator_where_that_was_asked() {
    let (office, crew, mut client) = fleet(4, |_| Nature::Good).await;
    let careful = v1::Staging {
        on_little: v1::OnLittle::Pause.into(),
        ..staging(&[count(1), percent(100)])
    };
    let careful = v1::SetTuningRequest {
        staging: Some(careful),
        ..roll_out(&[])
    };
    client.set_tuning(careful).await.unwrap();
    let paused = outcome(&mut client, 1).await;
    assert_eq!((paused.state(), paused.phase), (RolloutState::Paused, 0));
    assert!(
        paused.outcome.contains("little evidence of disconnects"),
        "{}",
        paused.outcome
    );
    let little = paused
        .findings
        .iter()
        .find(|finding| finding.guard == "disconnects")
        .unwrap();
    assert_eq!(little.answer, "too_little");
    assert_eq!(crew.saw(NEW).len(), 1);
    client
        .resume_rollout(told("looks good to me"))
        .await
        .unwrap();
    phase_is(&mut client, 1).await;
    eventually("everybody has it", async || crew.on(NEW).len() == 4).await;
    office.database.stop().await;
}

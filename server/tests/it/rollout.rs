//! Candidates that reach a live fleet in phases.

mod orders;
mod restart;

use std::time::Duration;

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::RolloutState;
use tonic::Code;

use crate::actor::hello;
use crate::crew::{Crew, Nature};
use crate::database::eventually;
use crate::office::{Client, Office, set};

/// T of the fleet in these tests, and of the candidate, milliseconds.
pub(crate) const OLD: u64 = 600;
pub(crate) const NEW: u64 = 400;

pub(crate) fn tuning(interval_ms: u64) -> v1::Tuning {
    v1::Tuning {
        interval_ns: Some(interval_ms * 1_000_000),
        misses: Some(2),
        timeout_ns: Some(300_000_000),
        ..v1::Tuning::default()
    }
}

pub(crate) fn seconds(n: u64) -> u64 {
    n * 1_000_000_000
}

pub(crate) fn percent(percent: u32) -> v1::RolloutPhase {
    v1::RolloutPhase {
        size: Some(v1::rollout_phase::Size::Percent(percent)),
        soak_ns: None,
    }
}

pub(crate) fn count(count: u32) -> v1::RolloutPhase {
    v1::RolloutPhase {
        size: Some(v1::rollout_phase::Size::Count(count)),
        soak_ns: None,
    }
}

/// The shortest soak that the candidate allows, with a look each second.
pub(crate) fn staging(phases: &[v1::RolloutPhase]) -> v1::Staging {
    v1::Staging {
        phases: phases.to_vec(),
        soak_ns: Some(seconds(3)),
        looks: Some(3),
        ..v1::Staging::default()
    }
}

/// Gives group `web` the candidate in phases.
pub(crate) fn roll_out(phases: &[v1::RolloutPhase]) -> v1::SetTuningRequest {
    v1::SetTuningRequest {
        staging: Some(staging(phases)),
        ..set("web", tuning(NEW))
    }
}

/// An office with `n` agents of these natures on the old value.
pub(crate) async fn fleet(n: u8, nature: impl Fn(u8) -> Nature) -> (Office, Crew, Client) {
    let office = Office::open().await;
    office.drive();
    crewed(office, n, nature).await
}

/// The same in an office whose rollouts nobody drives yet.
pub(crate) async fn crewed(
    office: Office,
    n: u8,
    nature: impl Fn(u8) -> Nature,
) -> (Office, Crew, Client) {
    let mut client = office.client().await;
    client.set_tuning(set("web", tuning(OLD))).await.unwrap();
    let mut crew = Crew::at(office.house.address);
    for n in 1..=n {
        crew.join(n, nature(n));
    }
    eventually("everybody has the old value", async || {
        crew.on(OLD).len() == usize::from(n) && settled(&office, n)
    })
    .await;
    (office, crew, client)
}

fn settled(office: &Office, n: u8) -> bool {
    let sessions = (1..=n).map(|n| office.house.agent(n).session());
    sessions
        .into_iter()
        .all(|session| session.is_some_and(|session| session.waiting_for().is_none()))
}

pub(crate) async fn shown(client: &mut Client, rollout: u64) -> v1::Rollout {
    let request = v1::GetRolloutRequest { rollout };
    client.get_rollout(request).await.unwrap().into_inner()
}

/// The rollout once it is over, or stands still.
pub(crate) async fn outcome(client: &mut Client, rollout: u64) -> v1::Rollout {
    let request = v1::WatchRolloutRequest {
        rollout,
        wait_ns: 60_000_000_000,
    };
    let mut stream = client.watch_rollout(request).await.unwrap().into_inner();
    let mut last = None;
    while let Some(told) = stream.message().await.unwrap() {
        let over = told.state() != RolloutState::Soaking;
        last = Some(told);
        if over {
            break;
        }
    }
    last.unwrap()
}

/// Hard cases C2 and C6.
#[tokio::test]
async fn planted_bad_value_halts_in_its_first_phase_and_members_of_later_phases_never_see_it() {
    let (office, crew, mut client) = fleet(12, |_| Nature::DropsBelow(500)).await;
    let phases = [percent(10), percent(50), percent(100)];
    let begun = client.set_tuning(roll_out(&phases)).await.unwrap();
    let begun = begun.into_inner();
    let staged = begun.staged_to.unwrap();
    assert_eq!((staged.rollout, staged.connected), (1, 12));
    let first = usize::try_from(staged.cohort).unwrap();
    assert!((1..=5).contains(&first), "{first} in the first phase");

    let over = outcome(&mut client, 1).await;
    assert_eq!(over.state(), RolloutState::RolledBack, "{over:?}");
    assert_eq!((over.phase, over.last_good), (0, 1));
    assert!(
        over.outcome.starts_with("rolled back: disconnects "),
        "{}",
        over.outcome
    );
    let candidate = over.candidate.unwrap();
    assert!(candidate.disconnects >= 2, "{candidate:?}");
    assert_eq!(over.compared.unwrap().disconnects, 0);
    eventually("everybody is back", async || crew.on(OLD).len() == 12).await;
    assert_eq!(crew.saw(NEW).len(), first);

    // Halt and rollback are one revision, by the rollout itself, with its reason.
    let history = client
        .list_revisions(v1::ListRevisionsRequest::default())
        .await
        .unwrap();
    let newest = history.into_inner().revisions.remove(0);
    assert_eq!((newest.revision, newest.parent), (3, 2));
    assert_eq!(newest.author, "rollout 1");
    assert_eq!(newest.reason, over.outcome);
    assert_eq!(office.desk.policies().staged().map(|s| s.split), None);
    let audit = office.store.recent_audit(1).await.unwrap();
    assert_eq!(
        (audit[0].action.as_str(), audit[0].revision),
        ("RollBackRollout", Some(3))
    );

    // It stays on record, and is not offered again by itself.
    for request in [roll_out(&phases), set("web", tuning(NEW))] {
        let refused = client.set_tuning(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        let said = refused.message();
        assert!(
            said.contains("rollout 1") && said.contains("--again"),
            "{said}"
        );
    }
    let again = v1::SetTuningRequest {
        again: true,
        ..roll_out(&phases)
    };
    let again = client.set_tuning(again).await.unwrap().into_inner();
    assert_eq!(again.staged_to.unwrap().rollout, 2);
    office.database.stop().await;
}

#[tokio::test]
async fn harmless_candidate_reaches_everybody_and_each_phase_keeps_those_of_the_one_before() {
    let (office, crew, mut client) = fleet(10, |_| Nature::Good).await;
    let begun = client
        .set_tuning(roll_out(&[count(2), count(5), percent(100)]))
        .await
        .unwrap();
    assert_eq!(begun.into_inner().staged_to.unwrap().cohort, 2);
    eventually("the first phase has it", async || crew.saw(NEW).len() == 2).await;
    let first = crew.saw(NEW);
    eventually("the second phase has it", async || crew.saw(NEW).len() == 5).await;
    assert!(first.iter().all(|n| crew.on(NEW).contains(n)));
    let over = outcome(&mut client, 1).await;
    assert_eq!(over.state(), RolloutState::Completed, "{}", over.outcome);
    assert_eq!(crew.on(NEW).len(), 10);
    let cohort = over.cohort.unwrap();
    assert_eq!((cohort.applied, cohort.rest), (10, 0));
    // Ten members and some seconds prove little, and the page says so.
    assert!(
        over.outcome.contains("little evidence of disconnects"),
        "{}",
        over.outcome
    );
    assert_eq!(over.compared_with, "of the same members before");
    // The last phase is nobody's candidate any more: completion needs no revision.
    let policies = office.desk.policies();
    assert_eq!(
        (policies.revision(), policies.staged().map(|s| s.split)),
        (4, None)
    );
    office.database.stop().await;
}

/// A restarted twin, an offline member, one that refuses, one that never answers and one of another
/// protocol version: none of them is waited for.
#[tokio::test]
async fn members_that_cannot_take_it_do_not_block() {
    let nature = |n| match n {
        1 => Nature::Refuses,
        2 => Nature::Mute,
        _ => Nature::Good,
    };
    let (office, mut crew, mut client) = fleet(8, nature).await;
    let mut twin = hello(3);
    (twin.instance_id, twin.group) = (vec![99; 16], "web".to_owned());
    crew.join_as(twin, Nature::Good);
    let mut older = hello(20);
    (older.protocol, older.group) = (0, "web".to_owned());
    crew.join_as(older, Nature::Good);
    let mut offline = Crew::at(office.house.address);
    offline.join(9, Nature::Good);
    eventually("it is there", async || offline.on(OLD) == [9]).await;
    drop(offline);
    office
        .house
        .until(|| office.house.agent(9).session().is_none())
        .await;

    client
        .set_tuning(roll_out(&[count(8), percent(100)]))
        .await
        .unwrap();
    let over = outcome(&mut client, 1).await;
    assert_eq!(over.state(), RolloutState::Completed, "{}", over.outcome);
    let cohort = over.cohort.unwrap();
    assert_eq!((cohort.refused, cohort.waiting), (1, 1), "{cohort:?}");
    // Who was away finds it on return.
    crew.join(9, Nature::Good);
    eventually("it catches up", async || crew.on(NEW).contains(&9)).await;
    office.database.stop().await;
}

#[tokio::test]
async fn cohort_that_refuses_halts_the_rollout() {
    let (office, crew, mut client) = fleet(10, |_| Nature::Refuses).await;
    client
        .set_tuning(roll_out(&[count(5), percent(100)]))
        .await
        .unwrap();
    let over = outcome(&mut client, 1).await;
    assert_eq!(over.state(), RolloutState::RolledBack);
    let said = "rolled back: refusals 100.0 %, above the limit of 1.0 %";
    assert_eq!((over.outcome.as_str(), over.phase), (said, 0));
    assert_eq!(crew.saw(NEW).len(), 5);
    office.database.stop().await;
}

#[tokio::test]
async fn rollouts_that_could_not_tell_anything_are_refused_with_what_to_do() {
    let (office, _crew, mut client) = fleet(1, |_| Nature::Good).await;
    let asked = |phases: &[v1::RolloutPhase], change: fn(&mut v1::Staging)| {
        let mut request = roll_out(phases);
        change(request.staging.as_mut().unwrap());
        request
    };
    let short = |staging: &mut v1::Staging| staging.soak_ns = Some(seconds(2));
    let many = |staging: &mut v1::Staging| staging.looks = Some(99);
    let unsound = |staging: &mut v1::Staging| {
        staging.guards = Some(v1::RolloutGuards {
            refused: Some(7.0),
            ..v1::RolloutGuards::default()
        });
    };
    for (request, said) in [
        // 2·D + W with D = 1.1 s and W = 0.3 s.
        (asked(&[percent(100)], short), "at least 2.5 s"),
        (
            asked(&[percent(50)], |_| ()),
            "end the phases with 100 percent",
        ),
        (
            asked(&[percent(0), percent(100)], |_| ()),
            "phase 1 has no valid size",
        ),
        (
            asked(&[v1::RolloutPhase::default()], |_| ()),
            "phase 1 has no size",
        ),
        (asked(&[percent(100)], many), "99 looks"),
        (asked(&[percent(100)], unsound), "guards are out of bounds"),
    ] {
        let refused = client.set_tuning(request).await.unwrap_err();
        assert_eq!(
            refused.code(),
            Code::InvalidArgument,
            "{}",
            refused.message()
        );
        assert!(
            refused.message().contains(said),
            "wanted {said}, got {}",
            refused.message()
        );
    }
    let dry = v1::SetTuningRequest {
        dry_run: true,
        ..roll_out(&[percent(100)])
    };
    let dry = client.set_tuning(dry).await.unwrap().into_inner();
    let staged = dry.staged_to.unwrap();
    assert_eq!((dry.revision, staged.rollout, staged.cohort), (None, 0, 1));
    let none = v1::GetRolloutRequest { rollout: 0 };
    assert_eq!(
        client.get_rollout(none).await.unwrap_err().code(),
        Code::NotFound
    );
    office.database.stop().await;
}

/// Longer than a driver needs for some looks.
pub(crate) const SOME_LOOKS: Duration = Duration::from_secs(4);

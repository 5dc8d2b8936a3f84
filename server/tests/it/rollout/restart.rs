//! A rollout outlives the server that drives it.

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::RolloutState;
use fleetbeat_server::store::leases::Holder;
use fleetbeat_server::tuning::rollout::Driver;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::{
    NEW, OLD, SOME_LOOKS, count, crewed, outcome, percent, roll_out, seconds, shown, staging,
    tuning,
};
use crate::crew::{Crew, Nature};
use crate::database::eventually;
use crate::office::{Office, set};
use crate::served::Served;

/// Hard case D3, and issue "Rollouts": SIGKILL in the middle of the first phase.
#[tokio::test]
async fn rollout_goes_on_where_it_was_when_its_server_is_killed() {
    let mut server = Served::start(|_| ()).await;
    let mut client = server.client().await;
    client.set_tuning(set("web", tuning(OLD))).await.unwrap();
    let mut crew = Crew::at(server.lane);
    for n in 1..=6 {
        crew.join(n, Nature::Good);
    }
    eventually("everybody has the old value", async || {
        crew.on(OLD).len() == 6
    })
    .await;
    let slow = v1::Staging {
        soak_ns: Some(seconds(8)),
        ..staging(&[count(2), percent(100)])
    };
    let request = v1::SetTuningRequest {
        staging: Some(slow),
        ..set("web", tuning(NEW))
    };
    client.set_tuning(request).await.unwrap();
    eventually("some of it is stored", async || {
        let shown = shown(&mut client, 1).await;
        shown.soaked_ns >= 3_000_000_000 && shown.candidate.unwrap().member_hours > 0.0
    })
    .await;
    let before = shown(&mut client, 1).await;
    let first = crew.saw(NEW);
    server.kill_and_restart().await;
    let mut client = server.client().await;
    let after = shown(&mut client, 1).await;
    assert_eq!((after.state(), after.phase), (RolloutState::Soaking, 0));
    assert!(after.soaked_ns >= before.soaked_ns, "{after:?}");
    let hours = |rollout: &v1::Rollout| rollout.candidate.unwrap().member_hours;
    assert!(hours(&after) >= hours(&before));
    // Reconnecting does not jump a phase.
    assert_eq!(crew.saw(NEW), first);
    let over = outcome(&mut client, 1).await;
    assert_eq!(
        over.state(),
        RolloutState::Completed,
        "{}\n{}",
        over.outcome,
        server.log()
    );
    eventually("everybody has it", async || crew.on(NEW).len() == 6).await;
    let candidate = over.candidate.unwrap();
    assert_eq!(
        candidate.disconnects, 0,
        "the server's own end is nobody's disconnect"
    );
}

/// Hard case D3: of two servers one drives; when it stops without a word the other one goes on.
#[tokio::test]
async fn rollout_goes_on_where_it_was_when_its_leader_falls_silent() {
    let office = Office::open().await;
    let leader = office.drive_as(Uuid::from_u128(1));
    eventually("it leads", async || {
        let leads = "SELECT count(*) FROM leases";
        office.database.value::<i64>(leads).await == 1
    })
    .await;
    let _follower = office.drive_as(Uuid::from_u128(2));
    let (office, crew, mut client) = crewed(office, 4, |_| Nature::Good).await;
    client
        .set_tuning(roll_out(&[count(2), percent(100)]))
        .await
        .unwrap();
    eventually("it has begun to soak", async || {
        shown(&mut client, 1).await.soaked_ns > 0
    })
    .await;
    let epoch = "SELECT epoch FROM leases";
    assert_eq!(office.database.value::<i64>(epoch).await, 1);
    leader.abort();
    let before = shown(&mut client, 1).await;
    assert_eq!((before.phase, before.state()), (0, RolloutState::Soaking));
    let over = outcome(&mut client, 1).await;
    assert_eq!(over.state(), RolloutState::Completed, "{}", over.outcome);
    assert_eq!(crew.on(NEW).len(), 4);
    let follower = Uuid::from_u128(2);
    let holder = "SELECT holder FROM leases WHERE epoch = 2";
    assert_eq!(office.database.value::<Uuid>(holder).await, follower);
    office.database.stop().await;
}

/// A server that does not know the members has seen nothing, and decides nothing.
#[tokio::test]
async fn server_that_knows_none_of_the_members_takes_no_look() {
    let (office, crew, mut client) = crewed(Office::open().await, 4, |_| Nature::Good).await;
    client
        .set_tuning(roll_out(&[count(2), percent(100)]))
        .await
        .unwrap();
    let stranger = office.other_desk();
    let holder = Holder {
        server_id: Uuid::from_u128(3),
        run_id: Uuid::from_u128(3),
    };
    let driving = TaskTracker::new().spawn(Driver::new(stranger, holder).run(office.stopped()));
    // What must not happen has its time to happen.
    tokio::time::sleep(SOME_LOOKS).await;
    let shown = shown(&mut client, 1).await;
    assert_eq!((shown.soaked_ns, shown.looks_taken), (0, 0));
    assert_eq!(crew.saw(NEW).len(), 2);
    driving.abort();
    office.database.stop().await;
}

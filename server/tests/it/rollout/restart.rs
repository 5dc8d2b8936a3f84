//! A rollout outlives the server that drives it.

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::RolloutState;

use super::{NEW, OLD, count, outcome, percent, seconds, shown, staging, tuning};
use crate::crew::{Crew, Nature};
use crate::database::eventually;
use crate::office::set;
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

//! Boxes in the path that forget or cut flows which are quiet.

use fleetbeat_drill::clock;
use fleetbeat_drill::stage::Place;
use fleetbeat_proto::v1::{CloseReason, Verdict};

use crate::scene::{SOON, Scene, Tuned};

/// Field report A09: what speaks within the box's patience lives; a flow that it forgot is found by the
/// deadline, and one that it answers with RST is back long before.
#[tokio::test]
async fn flows_that_a_box_forgets_are_found_and_beats_within_its_patience_keep_them() {
    const QUICK: Tuned = Tuned::seconds(1, 6, 1);
    const SLOW: Tuned = Tuned::seconds(6, 2, 2);
    const ABRUPT: Tuned = Tuned::seconds(6, 3, 2);
    let mut scene = Scene::here().await;
    let groups = [("quick", QUICK), ("slow", SLOW), ("abrupt", ABRUPT)];
    for (group, tuned) in groups {
        scene.tune(group, tuned).await;
    }
    let forgetful = scene.relay(&["idle 3s forget"]).await;
    let abrupt = scene.relay(&["idle 3s forget-then-reset"]).await;
    let started_us = clock::wall_us();
    for ((name, _), relay) in groups.iter().zip([&forgetful, &forgetful, &abrupt]) {
        let place = Place::beside(relay.address());
        scene.stage.start_agent_at(&place, name, name).unwrap();
    }
    let mut before = Vec::new();
    for (name, _) in groups {
        before.push(scene.verdict(name, Verdict::Online, SOON).await);
    }
    // The second gap of a session is up to T, so the first box may need two beats to forget.
    scene.convicted_on_time("slow", SLOW, started_us).await;
    assert_eq!(
        scene.endings(&before[1], 1).await[0],
        CloseReason::MissedHeartbeats
    );
    scene.verdict("slow", Verdict::Online, SOON).await;
    assert!(forgetful.tally().forgotten >= 1, "{:?}", forgetful.tally());
    let quick = scene.operator.agent("quick").await.unwrap();
    assert_eq!(quick.session_id, before[0].session_id);
    assert_eq!(scene.verdicts("quick").await, [Verdict::Online]);
    // Its flow ended by the box's RST, and it came back before D.
    assert!(abrupt.tally().resets >= 1, "{:?}", abrupt.tally());
    let verdicts = scene.verdicts("abrupt").await;
    assert!(verdicts.contains(&Verdict::Suspect), "{verdicts:?}");
    assert!(!verdicts.contains(&Verdict::Offline), "{verdicts:?}");
    let sessions = scene.sessions(&before[2]).await;
    assert!(sessions.len() >= 2, "{sessions:?}");
    let missed = Some(CloseReason::MissedHeartbeats as i16);
    assert!(
        sessions
            .iter()
            .all(|session| session.close_reason != missed)
    );
}

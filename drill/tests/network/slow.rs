//! Paths that are slow, or bring bytes in heaps, and do not lose any.

use std::time::Duration;

use fleetbeat_drill::clock;
use fleetbeat_drill::stage::{Place, until};
use fleetbeat_proto::v1::{CloseReason, Verdict};

use crate::scene::{Scene, Tuned};

const TUNED: Tuned = Tuned::seconds(2, 3, 1);

/// Field reports A28 and B05: late answers are life and real round trips, and heaps of them cost nobody
/// anything.
#[tokio::test]
async fn answers_that_are_late_or_in_heaps_keep_a_session_and_silence_ends_it_at_the_deadline() {
    let mut scene = Scene::here().await;
    scene.tune("", TUNED).await;
    let late = scene.relay(&["both delay=3s"]).await;
    let heaped = scene.relay(&["both gather=2s"]).await;
    for (name, relay) in [("late", &late), ("heaped", &heaped)] {
        let place = Place::beside(relay.address());
        scene.stage.start_agent_at(&place, name, "default").unwrap();
    }
    scene.online(2, TUNED.deadline() * 3).await;
    let shown = until(
        "the round trip to be shown",
        TUNED.deadline() * 3,
        async || {
            let rtt = scene.operator.agent("late").await?.rtt_median_ns;
            Ok(rtt
                .map(Duration::from_nanos)
                .filter(|rtt| *rtt >= TUNED.t * 3))
        },
    );
    eprintln!("late: median round trip {:?}", shown.await.unwrap());
    // The first attempt had no patience for so slow a Welcome.
    let before = scene.operator.agent("late").await.unwrap();
    // The fault itself takes time.
    tokio::time::sleep(TUNED.deadline() * 2).await;
    // Another 3 s: the next message comes up to T later still, which is suspicious and no more.
    late.tell("up delay=6s").unwrap();
    scene
        .verdict("late", Verdict::Suspect, TUNED.deadline())
        .await;
    let after = scene
        .verdict("late", Verdict::Online, TUNED.deadline())
        .await;
    assert_eq!(after.session_id, before.session_id);
    assert_eq!(scene.verdicts("heaped").await, [Verdict::Online]);
    let stopped_us = clock::wall_us();
    late.tell("both stop").unwrap();
    scene.convicted_on_time("late", TUNED, stopped_us).await;
    assert_eq!(
        scene.endings(&after, 2).await,
        [CloseReason::PeerGaveUp, CloseReason::MissedHeartbeats]
    );
}

//! Runs of servers.

use std::time::Duration;

use fleetbeat_proto::v1::{CloseReason, Verdict};
use fleetbeat_server::store::agents::State;
use fleetbeat_server::store::batch::Batch;
use fleetbeat_server::store::runs::Run;
use uuid::Uuid;

use super::rows::{NOON, agent, apply, closed, fence, opened, registered, run, state};

#[tokio::test]
async fn what_an_earlier_run_left_open_is_ended_once() {
    let (database, store, earlier) = registered().await;
    let live = |n, run: &Run| opened(n, run, fence(1, 1));
    let broken = State {
        session_id: None,
        ..state(2, Verdict::Suspect, fence(1, 1))
    };
    let away = State {
        session_id: None,
        ..state(3, Verdict::Offline, fence(1, 1))
    };
    let batch = Batch {
        opened: vec![
            live(1, &earlier),
            live(2, &earlier),
            live(3, &earlier),
            live(4, &earlier),
        ],
        closed: vec![
            closed(2, CloseReason::TransportError),
            closed(3, CloseReason::MissedHeartbeats),
        ],
        states: vec![state(1, Verdict::Online, fence(1, 1)), broken, away],
        ..Batch::default()
    };
    apply(&store, &earlier, 1, &batch).await;
    let other = Run {
        server_id: Uuid::from_u128(0xff),
        ..run(3)
    };
    store.register(&other, NOON).await.unwrap();
    let elsewhere = Batch {
        opened: vec![opened(5, &other, fence(1, 1))],
        ..Batch::default()
    };
    apply(&store, &other, 1, &elsewhere).await;

    let later = NOON + Duration::from_hours(1);
    let left = store.register(&run(2), later).await.unwrap();
    assert_eq!((left.sessions, left.agents), (2, 2));
    let lost = store.recent_sessions(agent(1), 1).await.unwrap();
    let last_known = NOON + Duration::from_secs(30);
    assert_eq!(lost[0].closed, Some((last_known, CloseReason::ServerLost)));
    let unseen = store.recent_sessions(agent(4), 1).await.unwrap();
    assert_eq!(unseen[0].closed, Some((NOON, CloseReason::ServerLost)));
    let kept = store.recent_sessions(agent(2), 1).await.unwrap();
    assert_eq!(kept[0].closed.unwrap().1, CloseReason::TransportError);
    let others = store.recent_sessions(agent(5), 1).await.unwrap();
    assert_eq!(others[0].closed, None);
    let verdicts: Vec<i16> = database
        .value("SELECT array_agg(verdict ORDER BY agent_id) FROM agent_state")
        .await;
    assert_eq!(verdicts, [5, 5, 3]);

    let again = store.register(&run(2), later).await.unwrap();
    assert_eq!((again.sessions, again.agents), (0, 0));
    let told: i64 = database.value("SELECT count(*) FROM session_events").await;
    assert_eq!(told, 4);
    store.deregister(&run(2), later).await.unwrap();
    let stopped: i64 = database
        .value("SELECT count(*) FROM servers WHERE stopped_at IS NOT NULL")
        .await;
    assert_eq!(stopped, 1);
    database.stop().await;
}

//! Batches of the recorder.

use std::time::Duration;

use fleetbeat_liveness::grounds::{Grounds, Trigger};
use fleetbeat_proto::v1::{Cause, CloseReason, Verdict};
use fleetbeat_server::store::Class;
use fleetbeat_server::store::batch::{Applied, Batch, Care};
use fleetbeat_server::store::events::{Happened, Kind, Scope};
use fleetbeat_server::store::facts::Facts;
use fleetbeat_server::store::metrics::{Bucket, GroupRollup, RttHistogram};
use fleetbeat_server::store::runs::Run;
use fleetbeat_server::store::sessions::Caused;
use fleetbeat_server::store::tuning::{Answer, Outcome};
use uuid::Uuid;

use super::rows::{
    NOON, SERVER, WRITTEN, agent, apply, beats, closed, fence, happened, identity, opened,
    registered, session, silence, state,
};

/// One row and more for every table.
fn everything(run: &Run) -> Batch {
    let bucket = Bucket {
        start: NOON,
        seconds: 10,
    };
    let closed_by = |n: usize| {
        let mut counts = [0; 12];
        counts[n] = 1;
        counts
    };
    let refusal = Answer {
        revision: 3,
        agent_id: agent(1),
        session_id: session(1),
        outcome: Outcome::Refused,
        reason: "W is above T".to_owned(),
        at: NOON,
        took_ns: Some(5),
    };
    Batch {
        identities: vec![identity(1, "one", fence(1, 1))],
        opened: vec![opened(1, run, fence(1, 1))],
        closed: vec![closed(1, CloseReason::MissedHeartbeats)],
        causes: vec![caused(1, Cause::Crash)],
        states: vec![state(1, Verdict::Offline, fence(1, 1))],
        events: vec![
            happened(1, NOON, Kind::SessionOpened, "opened"),
            happened(
                1,
                NOON,
                Kind::SessionClosed(CloseReason::MissedHeartbeats),
                "silent",
            ),
            Happened {
                facts: Some(silent()),
                ..happened(
                    1,
                    NOON,
                    Kind::VerdictChanged(Verdict::Offline),
                    "silent for 62 s",
                )
            },
            happened(2, NOON, Kind::TuningRefused(3), "W is above T"),
        ],
        answers: vec![refusal],
        silences: vec![silence(1)],
        incidents: vec![],
        beats: vec![beats(1, 9, Some((100, 200)))],
        groups: vec![GroupRollup {
            bucket,
            server_id: SERVER,
            group: "web".to_owned(),
            sessions: 0,
            beats: 9,
            opened: 1,
            closed: closed_by(1),
        }],
        histograms: vec![RttHistogram {
            bucket,
            server_id: SERVER,
            group: "web".to_owned(),
            first_bucket: 7,
            counts: vec![1, 0, 2],
        }],
    }
}

fn caused(n: u128, cause: Cause) -> Caused {
    Caused {
        session_id: session(n),
        cause,
    }
}

/// What a conviction rests on.
fn silent() -> Facts {
    let limit = Duration::from_secs(62);
    let grounds = Grounds::bare(Trigger::Silent { limit });
    Facts {
        grounds: Some((&grounds).into()),
        ..Facts::default()
    }
}

/// Requirement S2: a cause is settled once, and for a session that is known.
#[tokio::test]
async fn the_first_cause_of_a_lost_session_stands() {
    let (database, store, run) = registered().await;
    let first = Batch {
        opened: vec![opened(1, &run, fence(1, 1))],
        causes: vec![caused(1, Cause::Path), caused(2, Cause::Path)],
        ..Batch::default()
    };
    assert_eq!(apply(&store, &run, 1, &first).await, WRITTEN);
    let second = Batch {
        closed: vec![closed(1, CloseReason::TransportError)],
        causes: vec![caused(1, Cause::Suspend)],
        ..Batch::default()
    };
    assert_eq!(apply(&store, &run, 2, &second).await, WRITTEN);
    let sessions = store.recent_sessions(agent(1), 10).await.unwrap();
    assert_eq!(sessions[0].cause, Some(Cause::Path));
    let reason = sessions[0].closed.map(|(_, reason)| reason);
    assert_eq!(reason, Some(CloseReason::TransportError));
    database.stop().await;
}

#[tokio::test]
async fn one_batch_writes_every_table_and_reads_back() {
    let (database, store, run) = registered().await;
    let batch = everything(&run);
    assert_eq!(apply(&store, &run, 1, &batch).await, WRITTEN);

    let known = store.load_known().await.unwrap();
    assert_eq!(known.len(), 1);
    assert_eq!(known[0].identity, batch.identities[0]);
    assert_eq!(known[0].verdict, Verdict::Offline);
    assert_eq!(known[0].applied, batch.states[0].applied);
    assert_eq!(known[0].last_seen_at, batch.states[0].last_seen_at);

    let sessions = store.recent_sessions(agent(1), 10).await.unwrap();
    let end = (NOON + Duration::from_mins(1), CloseReason::MissedHeartbeats);
    assert_eq!(sessions[0].closed, Some(end));
    assert_eq!(
        (sessions[0].beats, sessions[0].close_detail.as_str()),
        (Some(9), "why")
    );

    assert_eq!(sessions[0].cause, Some(Cause::Crash));

    let events = store.recent_events(&Scope::All, 10).await.unwrap();
    assert_eq!(events[2].facts, silent());
    assert_eq!(events[1].facts, Facts::default());
    let trigger: String = database
        .value("SELECT facts #>> '{grounds,trigger}' FROM session_events WHERE verdict = 3")
        .await;
    assert_eq!(trigger, "silent");
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    let expected = [
        "session_opened",
        "session_closed",
        "verdict_changed",
        "tuning_refused",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(events[1].close_reason, Some(CloseReason::MissedHeartbeats));
    assert_eq!(
        (events[2].verdict, events[2].revision),
        (Some(Verdict::Offline), None)
    );
    assert_eq!(
        (events[3].revision, events[3].agent_name.as_str()),
        (Some(3), "")
    );
    assert_eq!(
        (events[0].agent_name.as_str(), events[0].group.as_str()),
        ("one", "web")
    );
    let of_agent = store
        .recent_events(&Scope::Agent(agent(1)), 2)
        .await
        .unwrap();
    assert_eq!(of_agent, events[1..3]);
    let of_group = store
        .recent_events(&Scope::Group("web".to_owned()), 10)
        .await
        .unwrap();
    assert_eq!(of_group, events[..3]);
    for scope in [
        Scope::All,
        Scope::Agent(agent(1)),
        Scope::Group("web".to_owned()),
    ] {
        let after = store
            .events_after(&scope, events[1].event_id, 1)
            .await
            .unwrap();
        assert_eq!(after, events[2..3], "{scope:?}");
    }
    assert_eq!(store.newest_event().await.unwrap(), events[3].event_id);

    let ack: String = database
        .value("SELECT outcome || ': ' || reason FROM tuning_acks")
        .await;
    assert_eq!(ack, "refused: W is above T");
    let lease: i64 = database.value("SELECT lease FROM servers").await;
    assert_eq!(lease, 1);
    database.stop().await;
}

#[tokio::test]
async fn numbers_grow_together_when_a_bucket_is_written_again() {
    let (database, store, run) = registered().await;
    let bucket = Bucket {
        start: NOON,
        seconds: 10,
    };
    let group = |sessions, closed| GroupRollup {
        bucket,
        server_id: SERVER,
        group: "web".to_owned(),
        sessions,
        beats: 5,
        opened: 1,
        closed,
    };
    let histogram = |first_bucket, counts: &[u64]| RttHistogram {
        bucket,
        server_id: SERVER,
        group: "web".to_owned(),
        first_bucket,
        counts: counts.to_vec(),
    };
    let mut reasons = [0; 12];
    (reasons[0], reasons[11]) = (1, 2);
    let first = Batch {
        beats: vec![beats(1, 9, None)],
        groups: vec![group(7, reasons)],
        histograms: vec![histogram(7, &[1, 0, 2])],
        ..Batch::default()
    };
    let second = Batch {
        beats: vec![beats(1, 4, Some((100, 200)))],
        groups: vec![group(6, reasons)],
        histograms: vec![histogram(5, &[3, 0, 4])],
        ..Batch::default()
    };
    assert_eq!(apply(&store, &run, 1, &first).await, WRITTEN);
    assert_eq!(apply(&store, &run, 2, &second).await, WRITTEN);
    let beats: String = database
        .value("SELECT concat_ws(' ', beats, late, rtt_count, rtt_sum_ns, rtt_min_ns, rtt_max_ns) FROM beat_rollups")
        .await;
    assert_eq!(beats, "13 2 4 600 100 200");
    let groups: String = database
        .value("SELECT concat_ws(' ', sessions, beats, opened, closed[1], closed[2], closed[12]) FROM group_rollups")
        .await;
    assert_eq!(groups, "6 10 2 2 0 4");
    let merged: String = database
        .value("SELECT first_bucket || ' ' || counts::text FROM rtt_histograms")
        .await;
    assert_eq!(merged, "5 {3,0,5,0,2}");
    database.stop().await;
}

#[tokio::test]
async fn an_older_fence_never_writes_over_a_newer_one() {
    let (database, store, run) = registered().await;
    let newer = Batch {
        identities: vec![identity(1, "newer", fence(2, 1))],
        states: vec![state(1, Verdict::Online, fence(2, 1))],
        ..Batch::default()
    };
    let older = Batch {
        identities: vec![identity(1, "older", fence(1, 9))],
        states: vec![state(1, Verdict::Offline, fence(1, 9))],
        ..Batch::default()
    };
    let equal = Batch {
        states: vec![state(1, Verdict::Suspect, fence(2, 1))],
        ..Batch::default()
    };
    apply(&store, &run, 1, &newer).await;
    apply(&store, &run, 2, &older).await;
    let known = store.load_known().await.unwrap();
    assert_eq!(
        (known[0].identity.name.as_str(), known[0].verdict),
        ("newer", Verdict::Online)
    );
    apply(&store, &run, 3, &equal).await;
    let known = store.load_known().await.unwrap();
    assert_eq!(
        (known[0].fence, known[0].verdict),
        (fence(2, 1), Verdict::Suspect)
    );
    database.stop().await;
}

#[tokio::test]
async fn a_session_is_closed_once_and_the_first_reason_stands() {
    let (database, store, run) = registered().await;
    let batch = |reason| Batch {
        opened: vec![opened(1, &run, fence(1, 1))],
        closed: vec![closed(1, reason)],
        ..Batch::default()
    };
    apply(&store, &run, 1, &batch(CloseReason::Goodbye)).await;
    apply(&store, &run, 2, &batch(CloseReason::TransportError)).await;
    let sessions = store.recent_sessions(agent(1), 10).await.unwrap();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].closed.unwrap().1, CloseReason::Goodbye);
    database.stop().await;
}

#[tokio::test]
async fn a_batch_is_applied_once_and_only_in_its_turn() {
    let (database, store, run) = registered().await;
    let batch = Batch {
        events: vec![happened(1, NOON, Kind::SessionOpened, "x")],
        ..Batch::default()
    };
    let elsewhere = |applied| Applied::Elsewhere { applied };
    assert_eq!(apply(&store, &run, 2, &batch).await, elsewhere(Some(0)));
    assert_eq!(apply(&store, &run, 1, &batch).await, WRITTEN);
    assert_eq!(apply(&store, &run, 1, &batch).await, elsewhere(Some(1)));
    let stranger = Run {
        run_id: Uuid::from_u128(99),
        ..run.clone()
    };
    assert_eq!(apply(&store, &stranger, 1, &batch).await, elsewhere(None));
    assert_eq!(
        database
            .value::<i64>("SELECT count(*) FROM session_events")
            .await,
        1
    );
    store.skip_batches(&run, 5).await.unwrap();
    assert_eq!(apply(&store, &run, 6, &batch).await, WRITTEN);
    database.stop().await;
}

#[tokio::test]
async fn refused_rows_are_set_aside_and_the_rest_lands_in_order() {
    let (database, store, run) = registered().await;
    let tomorrow_in_a_year = NOON + Duration::from_hours(24 * 366);
    let opened_by = |n, name: &str| identity(n, name, fence(1, 1));
    let batch = Batch {
        identities: vec![
            opened_by(1, "one"),
            opened_by(2, "two\0"),
            opened_by(3, "three"),
            opened_by(4, "four"),
        ],
        events: vec![
            happened(1, NOON, Kind::SessionOpened, "first"),
            happened(
                2,
                tomorrow_in_a_year,
                Kind::SessionOpened,
                "from the future",
            ),
            happened(3, NOON, Kind::SessionOpened, "nul\0"),
            happened(4, NOON, Kind::SessionOpened, "last"),
        ],
        ..Batch::default()
    };
    let refused = store
        .apply(&run, 1, &batch, Care::Whole, NOON)
        .await
        .unwrap_err();
    assert_eq!(
        (refused.class(), refused.sqlstate().as_deref()),
        (Class::BadRow, Some("22021"))
    );
    let applied = store
        .apply(&run, 1, &batch, Care::RowByRow, NOON)
        .await
        .unwrap();
    assert_eq!(applied, Applied::Written { rejected: 3 });
    let names: Vec<String> = database
        .value("SELECT array_agg(name ORDER BY name) FROM agents")
        .await;
    assert_eq!(names, ["four", "one", "three"]);
    let details: Vec<String> = database
        .value("SELECT array_agg(detail ORDER BY event_id) FROM session_events")
        .await;
    assert_eq!(details, ["first", "last"]);
    let rejected: Vec<String> = database
        .value("SELECT array_agg(table_name || ' ' || sqlstate ORDER BY rejected_id) FROM rejected")
        .await;
    assert_eq!(
        rejected,
        [
            "agents 22021",
            "session_events 23514",
            "session_events 22021"
        ]
    );
    let row: String = database
        .value("SELECT row_json FROM rejected ORDER BY rejected_id LIMIT 1")
        .await;
    assert!(row.contains(r#""name":"two\u0000""#), "{row}");
    database.stop().await;
}

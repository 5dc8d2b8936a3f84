//! `tune report`: before and after a revision, on what was recorded.

use fleetbeat_liveness::fence::Fence;
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::CloseReason;
use fleetbeat_server::store::batch::{Applied, Batch, Care};
use fleetbeat_server::store::partitions;
use fleetbeat_server::store::runs::Run;
use fleetbeat_server::store::sessions::{Closed, Opened};
use fleetbeat_server::store::silences::{Ended, Silence};
use time::{Duration, OffsetDateTime};
use tonic::Code;
use uuid::Uuid;

use crate::office::{Office, interval, set};
use crate::retune::web;

/// The hour before `at`, all of which the agent had a session in, beside sessions lost `losses` times so far
/// apart, each a false disconnect.
async fn hour_before(
    office: &Office,
    agent_id: Uuid,
    at: OffsetDateTime,
    losses: u128,
    apart: Duration,
) {
    let run = Run {
        server_id: Uuid::new_v4(),
        run_id: Uuid::new_v4(),
        name: "before".to_owned(),
        version: "0.1.0".to_owned(),
        started_at: at,
    };
    let step = |n: u128| at - Duration::HOUR + apart * i32::try_from(n).unwrap();
    let opened = |n: u128| Opened {
        session_id: Uuid::from_u128(n),
        agent_id,
        server_id: run.server_id,
        run_id: run.run_id,
        instance_id: None,
        fence: Fence {
            incarnation: 1,
            connection: u64::try_from(n).unwrap(),
        },
        address: String::new(),
        at: step(n),
    };
    let closed = |n: u128| Closed {
        session_id: Uuid::from_u128(n),
        at: step(n + 1),
        reason: CloseReason::MissedHeartbeats,
        detail: String::new(),
        beats: 3,
    };
    let silence = |n: u128| Silence {
        began: step(n),
        session_id: Uuid::from_u128(n),
        agent_id,
        group: "web".to_owned(),
        gap_ns: 70_000_000_000,
        interval_ns: 20_000_000_000,
        timeout_ns: 2_000_000_000,
        lateness_ns: None,
        ended: Ended::Returned,
    };
    let whole = Closed {
        at,
        reason: CloseReason::Goodbye,
        ..closed(0)
    };
    let batch = Batch {
        opened: (0..=losses).map(opened).collect(),
        closed: (1..=losses).map(closed).chain([whole]).collect(),
        silences: (1..=losses).map(silence).collect(),
        ..Batch::default()
    };
    let (store, day) = (&office.store, partitions::day);
    store
        .ensure_partitions(day(at - Duration::DAY), day(at))
        .await
        .unwrap();
    store.register(&run, at).await.unwrap();
    let done = store.apply(&run, 1, &batch, Care::Whole, at).await;
    assert_eq!(done.unwrap(), Applied::Written { rejected: 0 });
}

/// Requirement S32: only whom it changed, only what no other revision disturbs, and no claim that the counts
/// do not carry.
#[tokio::test]
async fn report_compares_whom_a_revision_changed_and_claims_no_more_than_was_recorded() {
    let office = Office::open().await;
    let _agents = [web(&office, 1).await, web(&office, 2).await];
    let mut client = office.client().await;
    client
        .set_tuning(set("web", interval(60_000)))
        .await
        .unwrap();
    let at = office
        .store
        .revision(1)
        .await
        .unwrap()
        .unwrap()
        .draft
        .created_at;
    hour_before(&office, office.house.agent(1).id, at, 12, Duration::MINUTE).await;
    let ask = |revision| v1::ReportRevisionRequest {
        revision,
        ..v1::ReportRevisionRequest::default()
    };
    let report = client.report_revision(ask(1)).await.unwrap().into_inner();
    assert_eq!((report.agents, report.parent), (2, 0));
    assert_eq!(report.changes, ["group-web: set to T=60s N=3 W=2s"]);
    assert!(report.window_ns < 600_000_000_000, "{report:?}");
    assert_eq!(report.bounded_by, "no more time has passed since");
    // What lies before the window does not count, and so there is nothing to compare.
    assert_eq!(report.before.unwrap().false_disconnects, 0);
    let first = client.report_revision(ask(1)).await.unwrap().into_inner();
    let found = finding(&first, "false_disconnects");
    assert_eq!(found.finding, "too little data");

    // Another revision of the same agents ends the window; one of others does not.
    client
        .set_tuning(set("other", interval(9_000)))
        .await
        .unwrap();
    client
        .set_tuning(set("web", interval(30_000)))
        .await
        .unwrap();
    let bounded = client.report_revision(ask(1)).await.unwrap().into_inner();
    assert_eq!(bounded.bounded_by, "revision 3 changed some of them too");
    let others = client.report_revision(ask(2)).await.unwrap().into_inner();
    assert_eq!(others.agents, 0);
    for (request, code, said) in [
        (ask(99), Code::NotFound, "no revision 99"),
        (
            v1::ReportRevisionRequest {
                window_ns: 1,
                ..ask(1)
            },
            Code::InvalidArgument,
            "between 1 minute and 30 days",
        ),
    ] {
        let refused = client.report_revision(request).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
        assert!(refused.message().contains(said), "{refused}");
    }
    office.database.stop().await;
}

/// An hour after group `web` got another T, in which its agent had a session and nothing happened.
async fn hour_after(losses: u128, apart: Duration) -> Office {
    let office = Office::open().await;
    let actor = web(&office, 1).await;
    office
        .client()
        .await
        .set_tuning(set("web", interval(60_000)))
        .await
        .unwrap();
    let hour_ago = "UPDATE tuning_revisions SET created_at = created_at - interval '1 hour' \
                    RETURNING revision";
    let _: i64 = office.database.value(hour_ago).await;
    let made = office.store.revision(1).await.unwrap().unwrap();
    let agent = office.house.agent(1).id;
    hour_before(&office, agent, made.draft.created_at, losses, apart).await;
    let since = "INSERT INTO sessions (session_id, agent_id, server_id, run_id, incarnation, connection, \
                 address, opened_at) SELECT gen_random_uuid(), agent_id, server_id, run_id, 2, 1, '', \
                 now() - interval '1 hour' FROM sessions LIMIT 1 RETURNING connection";
    let _: i64 = office.database.value(since).await;
    drop(actor);
    office
}

async fn report_of(office: &Office) -> v1::ReportRevisionResponse {
    let ask = v1::ReportRevisionRequest {
        revision: 1,
        ..v1::ReportRevisionRequest::default()
    };
    let mut client = office.client().await;
    client.report_revision(ask).await.unwrap().into_inner()
}

fn finding<'a>(report: &'a v1::ReportRevisionResponse, name: &str) -> &'a v1::ReportFinding {
    let found = report.findings.iter().find(|found| found.name == name);
    found.unwrap()
}

/// Twelve false disconnects in the hour before, none in the hour after.
#[tokio::test]
async fn difference_that_the_counts_carry_is_told() {
    let office = hour_after(12, Duration::MINUTE).await;
    let report = report_of(&office).await;
    let (before, after) = (
        report.before.as_ref().unwrap(),
        report.after.as_ref().unwrap(),
    );
    assert_eq!((before.false_disconnects, after.false_disconnects), (12, 0));
    assert_eq!(before.ended["missed_heartbeats"], 12, "{before:?}");
    let found = finding(&report, "false_disconnects");
    assert_eq!(found.finding, "fewer", "{found:?}");
    assert_eq!((found.events_before, found.events_after), (12, 0));
    assert!(found.chance.unwrap() < 1e-2, "{found:?}");
    office.database.stop().await;
}

/// The same twelve within a quarter of a minute: one outage, for whose absence no revision is to be praised.
#[tokio::test]
async fn outage_that_hit_many_at_once_is_no_difference() {
    let office = hour_after(12, Duration::SECOND).await;
    let report = report_of(&office).await;
    assert_eq!(report.before.as_ref().unwrap().false_disconnects, 12);
    for name in ["false_disconnects", "disconnects"] {
        let found = finding(&report, name);
        assert_eq!(found.finding, "too little data", "{found:?}");
        assert!(found.together >= 6.0, "{found:?}");
    }
    office.database.stop().await;
}

/// An agent that has not come back may be either, so nothing is said that depends on it.
#[tokio::test]
async fn who_is_still_away_counts_neither_as_dead_nor_as_living() {
    let office = hour_after(12, Duration::MINUTE).await;
    let away = "WITH away AS (INSERT INTO silences SELECT now() - n * interval '3 minutes', \
                gen_random_uuid(), agent_id, group_name, 90000000000, interval_ns, timeout_ns, NULL, 'open' \
                FROM silences, generate_series(1, 10) AS n WHERE session_id = \
                '00000000-0000-0000-0000-000000000001' RETURNING 1) SELECT count(*) FROM away";
    let rows: i64 = office.database.value(away).await;
    assert_eq!(rows, 10);
    let report = report_of(&office).await;
    let after = report.after.as_ref().unwrap();
    assert_eq!(
        (after.open, after.deaths, after.false_disconnects),
        (10, 0, 0)
    );
    for name in ["false_disconnects", "deaths"] {
        let found = finding(&report, name);
        assert_eq!(found.finding, "too little data", "{found:?}");
    }
    office.database.stop().await;
}

/// Detection is told of the dead, apart from those who were called offline and lived.
#[tokio::test]
async fn detection_is_told_of_real_deaths_alone() {
    let office = hour_after(2, Duration::minutes(10)).await;
    // The second loss turns out to be a death; both were called offline, after 62 s and 65 s.
    let died = "UPDATE silences SET ended = 'died' WHERE session_id = \
                '00000000-0000-0000-0000-000000000002' RETURNING gap_ns";
    let _: i64 = office.database.value(died).await;
    let verdicts = "WITH said AS (INSERT INTO session_events (at, agent_id, session_id, server_id, kind, \
                    verdict, facts) SELECT began_at + interval '66 seconds', agent_id, session_id, \
                    gen_random_uuid(), 'verdict_changed', 3, jsonb_build_object('grounds', \
                    jsonb_build_object('silence_ns', \
                    CASE ended WHEN 'died' THEN 65000000000 ELSE 62000000000 END)) \
                    FROM silences RETURNING 1) SELECT count(*) FROM said";
    let rows: i64 = office.database.value(verdicts).await;
    assert_eq!(rows, 2);
    let report = report_of(&office).await;
    let before = report.before.as_ref().unwrap();
    assert_eq!((before.false_disconnects, before.deaths), (1, 1));
    assert_eq!((before.offline, before.dead), (2, 1));
    assert_eq!(
        (before.offline_after_p50_ns, before.offline_after_p99_ns),
        (Some(62_000_000_000), Some(65_000_000_000))
    );
    assert_eq!(
        (before.dead_after_p50_ns, before.dead_after_p99_ns),
        (Some(65_000_000_000), Some(65_000_000_000))
    );
    let after = report.after.as_ref().unwrap();
    assert_eq!((after.dead, after.dead_after_p50_ns), (0, None));
    office.database.stop().await;
}

/// Silences are recorded beyond T + W: fewer under a longer T are not fewer outages.
#[tokio::test]
async fn silences_above_different_floors_are_not_compared() {
    let office = hour_after(1, Duration::MINUTE).await;
    let report = report_of(&office).await;
    let names: Vec<_> = report.findings.iter().map(|found| &found.name).collect();
    assert_eq!(
        names,
        [
            "false_disconnects",
            "disconnects",
            "deaths",
            "sessions_opened"
        ]
    );
    office.database.stop().await;
}

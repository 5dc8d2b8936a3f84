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

/// A session of the agent in the hour before `at`, lost `losses` times, each a false disconnect.
async fn hour_before(office: &Office, agent_id: Uuid, at: OffsetDateTime, losses: u128) {
    let run = Run {
        server_id: Uuid::new_v4(),
        run_id: Uuid::new_v4(),
        name: "before".to_owned(),
        version: "0.1.0".to_owned(),
        started_at: at,
    };
    let step = |n: u128| at - Duration::HOUR + Duration::minutes(i64::try_from(n).unwrap());
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
    let batch = Batch {
        opened: (1..=losses).map(opened).collect(),
        closed: (1..=losses).map(closed).collect(),
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
    hour_before(&office, office.house.agent(1).id, at, 12).await;
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
    let finding = |report: &v1::ReportRevisionResponse, name: &str| {
        let found = report.findings.iter().find(|found| found.name == name);
        found.unwrap().finding.clone()
    };
    let first = client.report_revision(ask(1)).await.unwrap().into_inner();
    assert_eq!(finding(&first, "false_disconnects"), "too little data");

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

/// The same an hour after the change, as if an hour had passed: twelve false disconnects before, none after.
#[tokio::test]
async fn difference_that_the_counts_carry_is_told() {
    let office = Office::open().await;
    let _agent = web(&office, 1).await;
    let mut client = office.client().await;
    client
        .set_tuning(set("web", interval(60_000)))
        .await
        .unwrap();
    let hour_ago = "UPDATE tuning_revisions SET created_at = created_at - interval '1 hour' \
                    RETURNING revision";
    let _: i64 = office.database.value(hour_ago).await;
    let at = office
        .store
        .revision(1)
        .await
        .unwrap()
        .unwrap()
        .draft
        .created_at;
    let agent = office.house.agent(1).id;
    hour_before(&office, agent, at, 12).await;
    let since = "INSERT INTO sessions (session_id, agent_id, server_id, run_id, incarnation, connection, \
                 address, opened_at) SELECT gen_random_uuid(), agent_id, server_id, run_id, 2, 1, '', \
                 now() - interval '1 hour' FROM sessions LIMIT 1 RETURNING connection";
    let _: i64 = office.database.value(since).await;
    let ask = v1::ReportRevisionRequest {
        revision: 1,
        ..v1::ReportRevisionRequest::default()
    };
    let report = client.report_revision(ask).await.unwrap().into_inner();
    let (before, after) = (report.before.unwrap(), report.after.unwrap());
    assert_eq!((before.false_disconnects, after.false_disconnects), (12, 0));
    assert_eq!(before.ended["missed_heartbeats"], 12, "{before:?}");
    let found = report
        .findings
        .iter()
        .find(|found| found.name == "false_disconnects");
    let found = found.unwrap();
    assert_eq!(found.finding, "fewer", "{found:?}");
    assert!(found.chance.unwrap() < 1e-6, "{found:?}");
    office.database.stop().await;
}

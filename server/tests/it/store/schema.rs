//! Tables, partitions, migrations.

use std::time::Duration;

use fleetbeat_proto::v1::Verdict;
use fleetbeat_server::store::agents::State;
use fleetbeat_server::store::batch::Batch;
use fleetbeat_server::store::events::Kind;
use fleetbeat_server::store::partitions;
use sqlx::{Connection as _, Executor as _};
use time::macros::datetime;

use super::rows::{NOON, WRITTEN, apply, fence, happened, registered, state};
use crate::database::Database;

#[tokio::test]
async fn every_table_and_column_says_what_it_means() {
    let (database, store, _) = registered().await;
    let silent: Vec<String> = database
        .value(
            "SELECT coalesce(array_agg(c.relname || coalesce('.' || a.attname, '')), '{}') \
             FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 \
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') \
                 AND NOT c.relispartition AND (col_description(c.oid, a.attnum) IS NULL \
                     OR obj_description(c.oid, 'pg_class') IS NULL)",
        )
        .await;
    assert_eq!(silent, Vec::<String>::new());
    store.migrate().await.unwrap();
    database.stop().await;
}

#[tokio::test]
async fn no_index_names_a_column_that_a_heartbeat_changes() {
    let (database, _store) = Database::with_schema().await;
    let indexes: Vec<String> = database
        .value("SELECT array_agg(indexdef) FROM pg_indexes WHERE tablename = 'agent_state'")
        .await;
    assert_eq!(indexes.len(), 1, "{indexes:?}");
    assert!(indexes[0].ends_with("(agent_id)"), "{indexes:?}");
    database.stop().await;
}

#[tokio::test]
async fn partitions_of_a_day_take_its_last_moment_and_the_next_the_first() {
    let (database, store, run) = registered().await;
    let midnight = datetime!(2026-12-01 0:00 UTC);
    let batch = Batch {
        events: vec![
            happened(
                1,
                midnight - Duration::from_micros(1),
                Kind::SessionOpened,
                "before",
            ),
            happened(1, midnight, Kind::SessionOpened, "after"),
        ],
        ..Batch::default()
    };
    assert_eq!(apply(&store, &run, 1, &batch).await, WRITTEN);
    let places: Vec<String> = database
        .value(
            "SELECT array_agg(tableoid::regclass || ' ' || detail ORDER BY at) FROM session_events",
        )
        .await;
    assert_eq!(
        places,
        [
            "session_events_20261130 before",
            "session_events_20261201 after"
        ]
    );
    let identity: i64 = database
        .value("SELECT count(DISTINCT event_id) FROM session_events")
        .await;
    assert_eq!(identity, 2);
    database.stop().await;
}

#[tokio::test]
async fn partitions_are_made_by_several_servers_at_once() {
    let (database, store) = Database::with_schema().await;
    let first = partitions::day(NOON);
    let last = partitions::day(NOON + Duration::from_hours(48));
    let mut servers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = store.clone();
        servers.spawn(async move { store.ensure_partitions(first, last).await });
    }
    for made in servers.join_all().await {
        made.unwrap();
    }
    let made: i64 = database.value("SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE c.relkind = 'r'").await;
    assert_eq!(usize::try_from(made).unwrap(), partitions::TABLES.len() * 3);
    database.stop().await;
}

#[tokio::test]
async fn a_reader_does_not_keep_a_partition_from_being_made() {
    let (database, store) = Database::with_schema().await;
    let day = partitions::day(NOON);
    store.ensure_partitions(day, day).await.unwrap();
    let mut reader = sqlx::PgConnection::connect(database.url()).await.unwrap();
    let read = "BEGIN; SELECT count(*) FROM session_events";
    reader.execute(read).await.unwrap();
    let next = day.next_day().unwrap();
    store.ensure_partitions(next, next).await.unwrap();
    drop(reader);
    database.stop().await;
}

#[tokio::test]
async fn servers_that_start_together_migrate_in_turn() {
    let database = Database::fresh().await;
    let mut servers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let store = database.store();
        servers.spawn(async move { store.migrate().await });
    }
    for migrated in servers.join_all().await {
        migrated.unwrap();
    }
    database.stop().await;
}

#[tokio::test]
async fn live_agents_that_beat_are_updated_in_place() {
    let (database, store, run) = registered().await;
    database
        .sql("ALTER TABLE agent_state SET (autovacuum_enabled = off)")
        .await;
    let beaten = |pass: u64, of: &dyn Fn(u128) -> bool| Batch {
        states: (0..5_000)
            .filter(|n| of(*n))
            .map(|n| State {
                last_seen_at: Some(NOON + Duration::from_secs(pass)),
                ..state(n, Verdict::Online, fence(1, 1))
            })
            .collect(),
        ..Batch::default()
    };
    // As agents arrive, and then slice by slice.
    assert_eq!(apply(&store, &run, 1, &beaten(0, &|_| true)).await, WRITTEN);
    let mut number = 1;
    for pass in 1..=4 {
        for slice in 0..10 {
            number += 1;
            let batch = beaten(pass, &|n| n % 10 == slice);
            assert_eq!(apply(&store, &run, number, &batch).await, WRITTEN);
        }
    }
    // The counters of a backend are told when it is idle or gone.
    store.close().await;
    let mut share = 0;
    crate::database::eventually("Postgres has counted the updates", async || {
        let counted: Vec<i64> = database
            .value("SELECT coalesce(array_agg(n_tup_hot_upd * 100 / n_tup_upd), '{}') FROM pg_stat_user_tables WHERE relname = 'agent_state' AND n_tup_upd >= 20000")
            .await;
        share = counted.first().copied().unwrap_or(0);
        !counted.is_empty()
    })
    .await;
    assert!(share >= 95, "{share} %");
    database.stop().await;
}

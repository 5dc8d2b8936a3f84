//! The recorder: a real registry with played agents on one side, a real Postgres on the other.

use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::{CloseReason, tuning_ack};
use fleetbeat_server::record::{Parts, Recorder, Remembered, Room, State};
use fleetbeat_server::store::events::Scope;
use fleetbeat_server::store::runs::Run;
use fleetbeat_server::store::{self, Store};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::actor::{Actor, fence, hello, tuning};
use crate::database::{Database, eventually};
use crate::house::House;
use crate::pooler::Pooler;
use crate::proxy::Proxy;

mod silences;

const PATIENCE: Duration = Duration::from_secs(20);

/// A house whose recorder writes to a Postgres behind a proxy.
struct Site {
    house: House,
    recorder: Recorder,
    remembered: oneshot::Receiver<Remembered>,
    tracker: TaskTracker,
}

impl Site {
    fn open(url: &str, server: u128, room: Room) -> Self {
        let house = House::open(1);
        let store = Store::open(&store::Options {
            acquire_timeout: Duration::from_secs(1),
            ..store::Options::new(url)
        });
        let parts = Parts {
            registry: house.shared(),
            store: store.unwrap(),
            run: Run {
                server_id: Uuid::from_u128(server),
                run_id: Uuid::new_v4(),
                name: "beat-1".to_owned(),
                version: "0.1.0".to_owned(),
                started_at: house.registry().clock().wall(),
            },
            room,
        };
        let tracker = TaskTracker::new();
        let (recorder, remembered) = Recorder::start(parts, &tracker);
        Self {
            house,
            recorder,
            remembered,
            tracker,
        }
    }

    async fn written(&self) {
        eventually("nothing waits to be written", async || {
            let status = self.recorder.status();
            status.state == State::Writing && status.backlog_batches == 0
        })
        .await;
    }

    async fn close(self) {
        self.recorder.stop(PATIENCE).await;
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// An agent that joins, beats `beats` times and says goodbye.
    async fn life(&self, n: u8, connection: u64, beats: u64) {
        let others = self.house.registry().session_count();
        let mut actor = Actor::join(&self.house, fence(hello(n), 1, connection)).await;
        for seq in 1..=beats {
            actor.ping(seq, seq).await;
            actor.pong().await;
        }
        actor.goodbye(CloseReason::Goodbye).await;
        self.house.sessions_left(others).await;
    }
}

/// What Postgres says of sessions and beats, once everything is written.
async fn counts(database: &Database) -> (i64, i64, i64, i64, i64) {
    let count = |query| database.value::<i64>(query);
    (
        count("SELECT count(*) FROM sessions WHERE close_reason = 1").await,
        count("SELECT count(*) FROM session_events WHERE kind = 'session_opened'").await,
        count("SELECT count(*) FROM session_events WHERE kind = 'session_closed'").await,
        count("SELECT coalesce(sum(beats), 0)::bigint FROM beat_rollups").await,
        count("SELECT coalesce(sum(beats), 0)::bigint FROM group_rollups").await,
    )
}

/// Waits until a query counts so many.
async fn counted(database: &Database, query: &'static str, count: i64) {
    eventually(query, async || database.value::<i64>(query).await == count).await;
}

/// Every session's events in the order of their ids.
async fn in_order(database: &Database) {
    let kinds: Vec<String> = database
        .value(
            "SELECT array_agg(DISTINCT kinds) FROM ( \
                 SELECT string_agg(kind, ' ' ORDER BY event_id) AS kinds FROM session_events \
                 WHERE kind LIKE 'session%' GROUP BY session_id) s",
        )
        .await;
    assert_eq!(kinds, ["session_opened session_closed"]);
}

#[tokio::test]
async fn a_life_is_told_whole_and_once() {
    let (database, _store) = Database::with_schema().await;
    let site = Site::open(database.url(), 1, Room::default());
    site.house.policy(3, (2_000, 3, 1_000));
    let mut actor = Actor::join(&site.house, hello(3)).await;
    actor.ack_welcome().await;
    for seq in 1..=5 {
        actor.ping(seq, seq).await;
    }
    let applied = "SELECT count(*) FROM agent_state WHERE applied_revision = 1";
    counted(&database, applied, 1).await;
    let live: String = database
        .value("SELECT concat_ws(' ', verdict, session_id IS NOT NULL, applied_revision, applied_interval_ns) FROM agent_state")
        .await;
    assert_eq!(live, "1 t 1 2000000000");
    actor.goodbye(CloseReason::Goodbye).await;
    site.house.verdict(3, Verdict::Left).await;
    site.house.sessions_left(0).await;
    site.close().await;
    assert_eq!(counts(&database).await, (1, 1, 1, 5, 5));
    let agent: String = database
        .value("SELECT concat_ws(' ', name, group_name, instance_id) FROM agents")
        .await;
    assert_eq!(agent, format!("agent-3 g3 {}", Uuid::from_bytes([3; 16])));
    let state: String = database
        .value("SELECT concat_ws(' ', verdict, session_id IS NULL, last_seen_at IS NULL) FROM agent_state")
        .await;
    assert_eq!(state, "4 t f");
    let session: String = database
        .value("SELECT concat_ws(' ', close_reason, beats, instance_id) FROM sessions")
        .await;
    assert_eq!(session, format!("1 5 {}", Uuid::from_bytes([3; 16])));
    let kinds: Vec<String> = database
        .value("SELECT array_agg(kind ORDER BY event_id) FROM session_events")
        .await;
    let expected = [
        "session_opened",
        "verdict_changed",
        "tuning_acked",
        "verdict_changed",
        "session_closed",
    ];
    assert_eq!(kinds, expected);
    let group: String = database
        .value("SELECT concat_ws(' ', sum(opened), sum(closed[1]), min(bucket_seconds)) FROM group_rollups")
        .await;
    assert_eq!(group, "1 1 10");
    let stopped: bool = database
        .value("SELECT stopped_at IS NOT NULL FROM servers")
        .await;
    assert!(stopped);
    database.stop().await;
}

#[tokio::test]
async fn a_batch_whose_commit_was_answered_to_nobody_is_not_written_twice() {
    let (database, _store) = Database::with_schema().await;
    let proxy = Proxy::before(database.url());
    let site = Site::open(&proxy.url(), 1, Room::default());
    site.written().await;
    for n in 1..=4 {
        proxy.swallow_answers(1);
        site.life(n, 1, 10).await;
        eventually("an answer was lost", async || proxy.to_swallow() == 0).await;
    }
    site.written().await;
    site.close().await;
    assert_eq!(counts(&database).await, (4, 4, 4, 40, 40));
    in_order(&database).await;
    database.stop().await;
}

#[tokio::test]
async fn while_postgres_is_away_records_wait_and_are_written_in_order_when_it_is_back() {
    let (database, _store) = Database::with_schema().await;
    let proxy = Proxy::before(database.url());
    let site = Site::open(&proxy.url(), 1, Room::default());
    site.life(1, 1, 3).await;
    let ended = "SELECT count(*) FROM sessions WHERE closed_at IS NOT NULL";
    counted(&database, ended, 1).await;
    proxy.set_down(true);
    for connection in 2..=5 {
        site.life(1, connection, 3).await;
    }
    eventually("the recorder says that it waits", async || {
        let status = site.recorder.status();
        status.state == State::Waiting && status.backlog_rows > 0
    })
    .await;
    let waiting = site.recorder.status();
    assert!(
        waiting.backlog_age > Duration::ZERO && !waiting.detail.is_empty(),
        "{waiting:?}"
    );
    assert_eq!(
        database.value::<i64>("SELECT count(*) FROM sessions").await,
        1
    );
    proxy.set_down(false);
    site.written().await;
    site.life(1, 6, 3).await;
    site.close().await;
    assert_eq!(counts(&database).await, (6, 6, 6, 18, 18));
    in_order(&database).await;
    database.stop().await;
}

#[tokio::test]
async fn a_postgres_that_is_killed_and_restarted_loses_and_repeats_nothing() {
    let (database, _store) = Database::with_schema().await;
    let site = Site::open(database.url(), 1, Room::default());
    site.written().await;
    for connection in 1..=12 {
        if connection % 4 == 0 {
            let pid = database.private.as_ref().unwrap().pid();
            if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()) {
                kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
            }
        }
        site.life(2, connection, 2).await;
    }
    site.written().await;
    site.close().await;
    assert_eq!(counts(&database).await, (12, 12, 12, 24, 24));
    in_order(&database).await;
    database.stop().await;
}

#[tokio::test]
async fn a_full_memory_costs_resolution_and_no_beat() {
    let (database, _store) = Database::with_schema().await;
    let proxy = Proxy::before(database.url());
    let site = Site::open(
        &proxy.url(),
        1,
        Room {
            batches: 2,
            rows: 4,
        },
    );
    site.written().await;
    proxy.set_down(true);
    for connection in 1..=8 {
        site.life(1, connection, 4).await;
    }
    eventually("the memory is full", async || site.recorder.status().full).await;
    let rows = site.recorder.status().backlog_rows;
    for connection in 9..=12 {
        site.life(1, connection, 4).await;
    }
    assert_eq!(site.recorder.status().backlog_rows, rows);
    proxy.set_down(false);
    site.written().await;
    eventually("there is room", async || !site.recorder.status().full).await;
    site.close().await;
    assert_eq!(counts(&database).await, (12, 12, 12, 48, 48));
    in_order(&database).await;
    database.stop().await;
}

#[tokio::test]
async fn an_agent_that_flaps_beyond_its_journal_leaves_no_session_open() {
    let (database, _store) = Database::with_schema().await;
    let proxy = Proxy::before(database.url());
    let room = Room {
        batches: 1,
        rows: 1,
    };
    let site = Site::open(&proxy.url(), 1, room);
    site.written().await;
    proxy.set_down(true);
    site.life(2, 1, 1).await;
    eventually("the memory is full", async || site.recorder.status().full).await;
    // An opening, two verdicts and an end each: the journal has room for 64, so that it is full
    // between an opening and its end, or after one.
    for connection in 1..=20 {
        site.life(1, connection, 2).await;
    }
    proxy.set_down(false);
    site.written().await;
    site.close().await;
    let open = "SELECT count(*) FROM sessions WHERE closed_at IS NULL";
    assert_eq!(database.value::<i64>(open).await, 0);
    let counted = "SELECT count(*) FROM session_events WHERE kind = 'history_incomplete'";
    assert_eq!(database.value::<i64>(counted).await, 1);
    let beats = "SELECT sum(beats)::bigint FROM group_rollups";
    assert_eq!(database.value::<i64>(beats).await, 41);
    let told = "SELECT count(*) FROM sessions WHERE close_reason = 1 AND beats = 2";
    assert!(database.value::<i64>(told).await >= 15);
    database.stop().await;
}

#[tokio::test]
async fn a_takeover_inside_one_bucket_keeps_the_beats_of_both_sessions() {
    let (database, _store) = Database::with_schema().await;
    let site = Site::open(database.url(), 1, Room::default());
    let mut older = Actor::join(&site.house, fence(hello(5), 1, 1)).await;
    older.ping(1, 1).await;
    older.pong().await;
    let mut newer = Actor::join(&site.house, fence(hello(5), 1, 2)).await;
    older.bye().await;
    for seq in 1..=3 {
        newer.ping(seq, seq).await;
        newer.pong().await;
    }
    site.house.sessions_left(1).await;
    site.close().await;
    let sessions: Vec<String> = database
        .value(
            "SELECT array_agg(concat_ws(' ', s.connection, s.close_reason, b.beats) \
                 ORDER BY s.connection) \
             FROM sessions s JOIN (SELECT session_id, sum(beats) AS beats FROM beat_rollups \
                 GROUP BY session_id) b USING (session_id)",
        )
        .await;
    assert_eq!(sessions, ["1 5 1", "2 3"]);
    let verdict: i16 = database.value("SELECT verdict FROM agent_state").await;
    assert_eq!(verdict, 1);
    database.stop().await;
}

#[tokio::test]
async fn the_next_run_ends_what_the_last_left_and_remembers_the_fleet() {
    let (database, _store) = Database::with_schema().await;
    let first = Site::open(database.url(), 1, Room::default());
    let mut actor = Actor::join(&first.house, fence(hello(1), 4, 2)).await;
    actor.ack_welcome().await;
    let session = first.house.session(1);
    first.house.until(|| session.acknowledged().is_some()).await;
    actor.ping(1, 1).await;
    actor.pong().await;
    first.life(2, 1, 1).await;
    first.close().await;

    let second = Site::open(database.url(), 1, Room::default());
    second.written().await;
    let remembered = second.remembered.await.unwrap();
    assert_eq!(remembered.sessions_before, 1);
    let verdicts: Vec<Verdict> = remembered
        .agents
        .iter()
        .map(|agent| agent.verdict)
        .collect();
    assert_eq!(verdicts, [Verdict::Unknown, Verdict::Left]);
    assert_eq!(
        remembered.agents[0].fence,
        Fence {
            incarnation: 4,
            connection: 2
        }
    );
    assert_eq!(remembered.agents[0].facts.name, "agent-1");
    assert!(remembered.agents[0].applied.is_some() && remembered.agents[0].last_seen.is_some());
    let lost: i64 = database
        .value("SELECT count(*) FROM sessions WHERE close_reason = 12")
        .await;
    assert_eq!(lost, 1);
    second.recorder.stop(PATIENCE).await;
    database.stop().await;
}

#[tokio::test]
async fn a_refusal_of_tuning_is_kept_with_its_reason() {
    let (database, _store) = Database::with_schema().await;
    let site = Site::open(database.url(), 1, Room::default());
    site.house.policy(6, (2_000, 3, 1_000));
    let mut actor = Actor::join(&site.house, hello(6)).await;
    actor.ack_welcome().await;
    let session = site.house.session(6);
    site.house.until(|| session.acknowledged().is_some()).await;
    let revised = Revised {
        revision: 2,
        tuning: tuning((4_000, 3, 1_000)),
    };
    assert!(site.house.registry().push(&session, revised, ""));
    actor.ack(tuning_ack::Outcome::Refused).await;
    site.house.until(|| session.refused().is_some()).await;
    site.close().await;
    let kept: String = database
        .value("SELECT concat_ws(' ', revision, outcome, reason) FROM tuning_acks")
        .await;
    assert_eq!(kept, "2 refused no");
    let told: i64 = database
        .value("SELECT count(*) FROM session_events WHERE kind = 'tuning_refused' AND revision = 2")
        .await;
    assert_eq!(told, 1);
    database.stop().await;
}

/// Field report E04: a restart of the server does not forget what was refused.
#[tokio::test]
async fn the_next_run_remembers_a_refusal_until_a_newer_revision_is_applied() {
    let (database, store) = Database::with_schema().await;
    let first = Site::open(database.url(), 1, Room::default());
    first.house.policy(6, (2_000, 3, 1_000));
    let mut actor = Actor::join(&first.house, hello(6)).await;
    actor.ack_welcome().await;
    for (revision, outcome) in [
        (2, tuning_ack::Outcome::Refused),
        (3, tuning_ack::Outcome::Applied),
        (4, tuning_ack::Outcome::Refused),
    ] {
        let session = first.house.session(6);
        first.house.until(|| session.waiting_for().is_none()).await;
        let revised = Revised {
            revision,
            tuning: tuning((4_000 + revision, 3, 1_000)),
        };
        assert!(first.house.registry().push(&session, revised, ""));
        actor.ack(outcome).await;
        first.house.until(|| session.waiting_for().is_none()).await;
        first.written().await;
        if revision == 3 {
            eventually("nothing newer was refused", async || {
                let known = store.load_known().await.unwrap();
                known.first().is_some_and(|agent| {
                    let applied = agent.applied.is_some_and(|had| had.revision == 3);
                    applied && agent.refused.is_none()
                })
            })
            .await;
        }
    }
    first.close().await;

    let second = Site::open(database.url(), 1, Room::default());
    second.written().await;
    let remembered = second.remembered.await.unwrap();
    let refused = remembered.agents[0].refused.clone();
    assert_eq!(refused, Some((4, "no".to_owned())));
    second.recorder.stop(PATIENCE).await;
    database.stop().await;
}

#[tokio::test]
async fn a_partition_that_is_missing_is_made_when_a_record_needs_it() {
    let (database, _store) = Database::with_schema().await;
    let site = Site::open(database.url(), 1, Room::default());
    site.written().await;
    database
        .sql(
            "DO $$ DECLARE p regclass; BEGIN \
                 FOR p IN SELECT inhrelid FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
                     WHERE c.relkind = 'r' \
                 LOOP EXECUTE 'DROP TABLE ' || p; END LOOP; END $$",
        )
        .await;
    site.life(1, 1, 2).await;
    site.close().await;
    assert_eq!(counts(&database).await, (1, 1, 1, 2, 2));
    assert_eq!(
        database.value::<i64>("SELECT count(*) FROM rejected").await,
        0
    );
    database.stop().await;
}

#[tokio::test]
async fn a_name_that_postgres_refuses_is_set_aside_and_everything_else_is_recorded() {
    let (database, _store) = Database::with_schema().await;
    database
        .sql("ALTER TABLE agents ADD CONSTRAINT trial CHECK (name <> 'agent-2')")
        .await;
    let site = Site::open(database.url(), 1, Room::default());
    for n in 1..=3 {
        site.life(n, 1, 2).await;
    }
    eventually("a row is set aside", async || {
        site.recorder.status().rejected_rows == 1
    })
    .await;
    site.close().await;
    assert_eq!(counts(&database).await, (3, 3, 3, 6, 6));
    let row: String = database
        .value("SELECT table_name || ' ' || sqlstate FROM rejected")
        .await;
    assert_eq!(row, "agents 23514");
    database.stop().await;
}

#[tokio::test]
async fn everything_works_through_a_pooler_in_transaction_mode() {
    let database = Database::fresh().await;
    let Some(pooler) = Pooler::before(database.url()).await else {
        return database.stop().await;
    };
    let (site, neighbour) = (
        Site::open(&pooler.url(), 1, Room::default()),
        Site::open(&pooler.url(), 2, Room::default()),
    );
    for connection in 1..=5 {
        let lives = (
            site.life(1, connection, 3),
            neighbour.life(2, connection, 3),
        );
        tokio::join!(lives.0, lives.1);
        site.written().await;
    }
    let store = Store::open(&store::Options::new(pooler.url())).unwrap();
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let store = store.clone();
        readers.spawn(async move {
            for _ in 0..10 {
                store.load_known().await.unwrap();
                store.recent_events(&Scope::All, 5).await.unwrap();
            }
        });
    }
    readers.join_all().await;
    neighbour.close().await;
    site.close().await;
    assert_eq!(counts(&database).await, (10, 10, 10, 30, 30));
    in_order(&database).await;
    database.stop().await;
}

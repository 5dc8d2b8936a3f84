//! Rollouts and the lease of who drives them.

use std::time::Duration;

use fleetbeat_server::store::leases::Holder;
use fleetbeat_server::store::rollouts::{Begun, Standing, Write, Written};
use fleetbeat_server::store::{Class, Store, audit, tuning};
use serde_json::json;
use uuid::Uuid;

use super::rows::NOON;
use crate::database::{Database, eventually};
use crate::pooler::Pooler;

fn draft(parent: u64) -> tuning::Draft {
    tuning::Draft {
        parent,
        author: "ann".to_owned(),
        reason: "trial".to_owned(),
        created_at: NOON,
        policies: json!([]),
        changes: vec![],
    }
}

fn entry() -> audit::Entry {
    audit::Entry {
        at: NOON,
        actor: "ann".to_owned(),
        role: "operator".to_owned(),
        address: String::new(),
        action: "SetTuning".to_owned(),
        target: "fleet".to_owned(),
        outcome: "done".to_owned(),
        reason: "trial".to_owned(),
        revision: None,
        before: None,
        after: None,
    }
}

fn begun() -> Begun {
    Begun {
        plan: json!({"looks": 4}),
        candidate: json!([]),
        candidate_hash: "a".repeat(64),
        last_good: 0,
        author: "ann".to_owned(),
        reason: "trial".to_owned(),
        started_at: NOON,
    }
}

fn soaking(revision: u64) -> Standing {
    Standing {
        state: "soaking".to_owned(),
        progress: json!({"phase": 0}),
        members: Some(json!({"rest": []})),
        revision,
        ended_at: None,
        outcome: String::new(),
    }
}

fn over(state: &str) -> Standing {
    Standing {
        state: state.to_owned(),
        members: None,
        ended_at: Some(NOON),
        outcome: "disconnects".to_owned(),
        ..soaking(1)
    }
}

async fn begin(store: &Store, parent: u64) -> Result<Written, fleetbeat_server::store::Error> {
    let write = Write {
        revision: Some((&draft(parent), 0)),
        begun: Some((&begun(), &soaking(parent + 1))),
        audit: Some(&entry()),
        ..Write::default()
    };
    store.write_rollout(write).await
}

#[tokio::test]
async fn rollout_and_its_first_revision_are_one_transaction_and_one_runs_at_a_time() {
    let (database, store) = Database::with_schema().await;
    let done = |revision, begun| Written::Done {
        revision: Some(revision),
        begun: Some(begun),
    };
    assert_eq!(begin(&store, 0).await.unwrap(), done(1, 1));
    assert_eq!(begin(&store, 0).await.unwrap(), Written::Moved(1));
    let second = begin(&store, 1).await.unwrap_err();
    assert_eq!(second.class(), Class::BadRow);
    assert_eq!(store.newest_revision_number().await.unwrap(), 1);
    let running = store.running_rollout().await.unwrap().unwrap();
    assert_eq!((running.rollout_id, running.steps), (1, 0));
    assert_eq!((&running.begun, &running.standing), (&begun(), &soaking(1)));

    let write = Write {
        moved: Some((1, 0, &over("rolled_back"))),
        ..Write::default()
    };
    store.write_rollout(write).await.unwrap();
    assert_eq!(store.running_rollout().await.unwrap(), None);
    assert_eq!(begin(&store, 1).await.unwrap(), done(2, 2));
    let all = store.rollouts(None, 10).await.unwrap();
    let ids: Vec<_> = all
        .iter()
        .map(|one| (one.rollout_id, one.standing.state.as_str()))
        .collect();
    assert_eq!(ids, [(2, "soaking"), (1, "rolled_back")]);
    // Members are kept where a write leaves them out.
    let ended = store.rollout(1).await.unwrap().unwrap();
    assert_eq!(ended.standing.members, soaking(1).members);
    assert_eq!(store.recent_audit(10).await.unwrap().len(), 2);
    database.stop().await;
}

#[tokio::test]
async fn candidate_that_was_rolled_back_stays_on_record_and_one_that_was_aborted_does_not_count() {
    let (database, store) = Database::with_schema().await;
    let hash = begun().candidate_hash;
    begin(&store, 0).await.unwrap();
    assert_eq!(store.failed_rollout(&hash).await.unwrap(), None);
    for (id, state, failed) in [(1, "aborted", None), (2, "rolled_back", Some(2))] {
        let write = Write {
            moved: Some((id, 0, &over(state))),
            ..Write::default()
        };
        store.write_rollout(write).await.unwrap();
        let found = store.failed_rollout(&hash).await.unwrap();
        assert_eq!(found.map(|(id, _)| id), failed, "{state}");
        begin(&store, id).await.unwrap();
    }
    assert_eq!(store.failed_rollout("b").await.unwrap(), None);
    database.stop().await;
}

#[tokio::test]
async fn writer_who_read_an_older_step_changes_nothing_and_nobody_changes_what_is_over() {
    let (database, store) = Database::with_schema().await;
    begin(&store, 0).await.unwrap();
    let paused = Standing {
        state: "paused".to_owned(),
        ..soaking(1)
    };
    let step = |steps| Write {
        moved: Some((1, steps, &paused)),
        revision: None,
        ..Write::default()
    };
    let done = Written::Done {
        revision: None,
        begun: None,
    };
    assert_eq!(store.write_rollout(step(0)).await.unwrap(), done);
    let late = draft(1);
    let overtaken = Write {
        revision: Some((&late, 0)),
        ..step(0)
    };
    let overtaken = store.write_rollout(overtaken).await.unwrap();
    assert_eq!(overtaken, Written::Overtaken);
    assert_eq!(store.newest_revision_number().await.unwrap(), 1);
    assert_eq!(
        store.running_rollout_steps().await.unwrap(),
        Some((1, 1)),
        "one write"
    );
    let end = over("aborted");
    let write = Write {
        moved: Some((1, 1, &end)),
        ..Write::default()
    };
    assert_eq!(store.write_rollout(write).await.unwrap(), done);
    let again = store.write_rollout(step(2)).await.unwrap();
    assert_eq!(again, Written::Overtaken);
    database.stop().await;
}

fn holder(server: u128, run: u128) -> Holder {
    Holder {
        server_id: Uuid::from_u128(server),
        run_id: Uuid::from_u128(run),
    }
}

const LONG: Duration = Duration::from_mins(1);

async fn epoch(store: &Store, holder: Holder, length: Duration) -> Option<u64> {
    let lease = store.hold_lease("rollouts", holder, length).await.unwrap();
    lease.map(|lease| lease.epoch)
}

/// Hard case D3.
#[tokio::test]
async fn lease_has_one_holder_and_a_deposed_leader_writes_nothing() {
    let (database, store) = Database::with_schema().await;
    let first = store.hold_lease("rollouts", holder(1, 1), LONG).await;
    let first = first.unwrap().unwrap();
    assert_eq!(epoch(&store, holder(2, 2), LONG).await, None);
    assert_eq!(epoch(&store, holder(1, 1), LONG).await, Some(1), "renewed");
    begin(&store, 0).await.unwrap();

    // The next run of the same server need not wait, and the run before it is out.
    assert_eq!(epoch(&store, holder(1, 9), LONG).await, Some(2));
    let paused = soaking(1);
    let write = Write {
        lease: Some(&first),
        moved: Some((1, 0, &paused)),
        ..Write::default()
    };
    assert_eq!(store.write_rollout(write).await.unwrap(), Written::Deposed);

    // A leader that fell silent is followed once its time is over.
    assert_eq!(epoch(&store, holder(1, 9), Duration::ZERO).await, Some(2));
    eventually("the lease is free", async || {
        epoch(&store, holder(2, 2), LONG).await == Some(3)
    })
    .await;
    let third = fleetbeat_server::store::leases::Lease {
        name: "rollouts",
        epoch: 3,
    };
    let write = Write {
        lease: Some(&third),
        ..write
    };
    assert!(matches!(
        store.write_rollout(write).await.unwrap(),
        Written::Done { .. }
    ));
    store.release_lease(&third).await.unwrap();
    assert_eq!(epoch(&store, holder(1, 9), LONG).await, Some(4));
    database.stop().await;
}

#[tokio::test]
async fn leases_and_rollouts_work_through_a_pooler_in_transaction_mode() {
    let (database, direct) = Database::with_schema().await;
    let Some(pooler) = Pooler::before(database.url()).await else {
        database.stop().await;
        return;
    };
    let options = fleetbeat_server::store::Options::new(pooler.url());
    let store = Store::open(&options).unwrap();
    for _ in 0..10 {
        assert_eq!(epoch(&store, holder(1, 1), LONG).await, Some(1));
    }
    begin(&store, 0).await.unwrap();
    let both = (
        store.running_rollout().await.unwrap(),
        direct.running_rollout().await.unwrap(),
    );
    assert_eq!(both.0, both.1);
    drop(pooler);
    database.stop().await;
}

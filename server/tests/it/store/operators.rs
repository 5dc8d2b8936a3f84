//! Revisions, audit, tokens.

use fleetbeat_server::store::tuning::{Appended, Draft};
use fleetbeat_server::store::{Class, audit, tokens};

use super::rows::NOON;
use crate::database::Database;

#[tokio::test]
async fn revisions_are_numbered_without_gaps_and_only_over_their_parent() {
    let (database, store) = Database::with_schema().await;
    let draft = |parent: u64| Draft {
        parent,
        author: "ann".to_owned(),
        reason: "trial".to_owned(),
        created_at: NOON,
        policies: serde_json::json!([{ "selector": {}, "parent": parent }]),
        changes: vec!["fleet: T 20 s → 5 s".to_owned()],
    };
    let entry = audit::Entry {
        at: NOON,
        actor: "ann".to_owned(),
        role: "operator".to_owned(),
        address: "127.0.0.1:9".to_owned(),
        action: "SetTuning".to_owned(),
        target: "fleet".to_owned(),
        outcome: "done".to_owned(),
        reason: "trial".to_owned(),
        revision: None,
        before: None,
        after: Some(serde_json::json!({ "misses": 3 })),
    };
    assert_eq!(store.newest_revision().await.unwrap(), None);
    let made = store.append_revision(&draft(0), 0, &entry).await.unwrap();
    assert_eq!(made, Appended::Made(1));
    let moved = store.append_revision(&draft(0), 0, &entry).await.unwrap();
    assert_eq!(moved, Appended::Moved(1));
    let made = store.append_revision(&draft(1), 0, &entry).await.unwrap();
    assert_eq!(made, Appended::Made(2));
    let newest = store.newest_revision().await.unwrap().unwrap();
    assert_eq!((newest.revision, &newest.draft), (2, &draft(1)));
    assert_eq!(store.revision(1).await.unwrap().unwrap().draft, draft(0));
    assert_eq!(store.revision(3).await.unwrap(), None);
    let numbers = |revisions: Vec<fleetbeat_server::store::tuning::Revision>| {
        revisions
            .iter()
            .map(|revision| revision.revision)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(store.revisions(None, 10).await.unwrap()), [2, 1]);
    assert_eq!(numbers(store.revisions(Some(2), 10).await.unwrap()), [1]);
    store
        .append_audit(&audit::Entry {
            outcome: "refused".to_owned(),
            ..entry
        })
        .await
        .unwrap();
    let audited = store.recent_audit(10).await.unwrap();
    let told: Vec<(&str, Option<u64>)> = audited
        .iter()
        .map(|entry| (entry.outcome.as_str(), entry.revision))
        .collect();
    assert_eq!(
        told,
        [("refused", None), ("done", Some(2)), ("done", Some(1))]
    );
    assert_eq!(audited[1].after, Some(serde_json::json!({ "misses": 3 })));
    database.stop().await;
}

#[tokio::test]
async fn tokens_are_named_once_and_revoked_once() {
    let (database, store) = Database::with_schema().await;
    let draft = tokens::Draft {
        name: "ann".to_owned(),
        hash: [7; 32],
        role: "operator".to_owned(),
        created_at: NOON,
        created_by: "first".to_owned(),
        expires_at: None,
    };
    assert!(store.create_token(&draft).await.unwrap());
    let again = tokens::Draft {
        hash: [8; 32],
        ..draft.clone()
    };
    assert!(!store.create_token(&again).await.unwrap());
    let wrong = tokens::Draft {
        name: "bob".to_owned(),
        hash: [9; 32],
        role: "king".to_owned(),
        ..draft
    };
    assert_eq!(
        store.create_token(&wrong).await.unwrap_err().class(),
        Class::BadRow
    );
    assert!(store.revoke_token("ann", NOON).await.unwrap());
    assert!(!store.revoke_token("ann", NOON).await.unwrap());
    let tokens = store.tokens().await.unwrap();
    assert_eq!((tokens.len(), tokens[0].hash.as_slice()), (1, &[7; 32][..]));
    assert_eq!(
        (tokens[0].role.as_str(), tokens[0].revoked_at),
        ("operator", Some(NOON))
    );
    database.stop().await;
}

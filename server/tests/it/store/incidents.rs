//! Incidents.

use std::time::Duration;

use fleetbeat_server::store::batch::Batch;
use fleetbeat_server::store::incidents::Incident;
use uuid::Uuid;

use super::rows::{NOON, SERVER, apply, registered, run};

fn incident(n: u128, run_id: Uuid) -> Incident {
    Incident {
        incident_id: Uuid::from_u128(n),
        server_id: SERVER,
        run_id,
        kind: "mass_silence".to_owned(),
        group: String::new(),
        began: NOON + Duration::from_secs(u64::try_from(n).unwrap()),
        ended: None,
        because: "3 of 500 arrived".to_owned(),
        outcome: String::new(),
    }
}

fn batch(incidents: Vec<Incident>) -> Batch {
    Batch {
        incidents,
        ..Batch::default()
    }
}

/// An incident is one row: its end is written once, by whoever ends it first.
#[tokio::test]
async fn an_incident_is_one_row_and_ends_once() {
    let (_database, store, run_1) = registered().await;
    let (first, second) = (incident(1, run_1.run_id), incident(2, run_1.run_id));
    apply(
        &store,
        &run_1,
        1,
        &batch(vec![first.clone(), second.clone()]),
    )
    .await;
    let over = Incident {
        ended: Some(NOON + Duration::from_mins(1)),
        outcome: "half of what was owed arrives again".to_owned(),
        ..first.clone()
    };
    apply(&store, &run_1, 2, &batch(vec![over.clone()])).await;
    let again = Incident {
        outcome: "otherwise".to_owned(),
        ..over.clone()
    };
    apply(&store, &run_1, 3, &batch(vec![again])).await;
    let recent = store.recent_incidents(10, false).await.unwrap();
    assert_eq!(recent, [second.clone(), over]);
    let open = store.recent_incidents(10, true).await.unwrap();
    assert_eq!(open, [second]);
}

#[tokio::test]
async fn what_a_stopped_server_left_open_ends_with_its_next_start() {
    let (_database, store, run_1) = registered().await;
    apply(&store, &run_1, 1, &batch(vec![incident(1, run_1.run_id)])).await;
    let later = NOON + Duration::from_hours(1);
    store.register(&run(2), later).await.unwrap();
    let recent = store.recent_incidents(10, false).await.unwrap();
    assert_eq!(recent[0].ended, Some(later));
    assert_eq!(recent[0].outcome, "the server was stopped");
}

//! What is refused of a replay.

use fleetbeat_proto::v1;

use crate::actor::Actor;
use crate::office::{Office, interval};
use crate::silences::history;

/// Hard case E4 (2): an agent with a longer T of its own hid silences that its group would have shown.
#[tokio::test]
async fn floor_is_that_of_the_most_patient_member() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let _member = Actor::beating(&office.house, 1).await;
    history(&office, 50, &[40, 50, 70, 90, 300]).await;
    let ask = v1::PlanTuningRequest {
        group: "g1".to_owned(),
        preset: "web".to_owned(),
        ..v1::PlanTuningRequest::default()
    };
    let plan = client.plan_tuning(ask.clone()).await.unwrap().into_inner();
    assert_eq!(plan.replay_today.unwrap().unknown, "");

    let own = v1::SetTuningRequest {
        selector: Some(v1::Selector {
            agent_ids: vec![office.house.agent(1).id.to_string()],
            ..v1::Selector::default()
        }),
        tuning: Some(interval(120_000)),
        reason: "a test".to_owned(),
        ..v1::SetTuningRequest::default()
    };
    client.set_tuning(own).await.unwrap();
    let plan = client.plan_tuning(ask).await.unwrap().into_inner();
    let today = plan.replay_today.unwrap();
    assert!(
        today
            .unknown
            .contains("D is 62s, and silences up to 122s were not recorded"),
        "{today:?}"
    );
    assert_eq!(today.false_disconnects_per_day, None);
    office.database.stop().await;
}

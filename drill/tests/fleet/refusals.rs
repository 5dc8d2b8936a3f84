use std::process::Output;

use crate::fleet::Fleet;

/// What the command ends with when a value is out of bounds.
const REFUSED: Option<i32> = Some(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tuning_out_of_bounds_is_refused_with_its_reason_and_changes_nothing() {
    let fleet = Fleet::start().await;
    let before = fleet.operator.status().await.unwrap().revision;
    let impossible: [(&[&str], &str); 4] = [
        (&["--interval", "0s"], "interval 0ns is too short"),
        (&["--interval", "2h"], "interval 7200s is too long"),
        (
            &["--interval", "2s", "--timeout", "3s"],
            "timeout 3s is longer than interval 2s",
        ),
        (&["--misses", "0"], "misses 0 is too small"),
    ];
    for (values, reason) in impossible {
        let said = tune(&fleet, values).await;
        let told = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), REFUSED, "{values:?}: {told}");
        assert!(told.contains(reason), "{values:?}: {told}");
    }
    assert_eq!(fleet.operator.status().await.unwrap().revision, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_refuses_what_a_careless_client_lets_through() {
    let fleet = Fleet::start().await;
    let zero = fleetbeat_proto::v1::Tuning {
        interval_ns: Some(0),
        misses: Some(3),
        timeout_ns: Some(1_000_000_000),
        pong_every: None,
        adaptive: None,
    };
    let refused = fleet
        .operator
        .retune(None, zero, "a careless client")
        .await
        .unwrap_err();
    let status = refused.downcast::<tonic::Status>().unwrap();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert!(
        status.message().contains("interval"),
        "{}",
        status.message()
    );
}

async fn tune(fleet: &Fleet, values: &[&str]) -> Output {
    let set = [
        &["tune", "set", "--fleet", "--reason", "not possible"],
        values,
    ]
    .concat();
    fleet.stage.cli(&set).await.unwrap()
}

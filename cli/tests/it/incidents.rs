use fleetbeat_proto::v1;
use serde_json::json;

use crate::fleet::{AT, Fleet, State};
use crate::run::fleetbeat;

fn state() -> State {
    let over = v1::Incident {
        incident_id: "0198".to_owned(),
        kind: "mass_silence".to_owned(),
        began_unix_us: AT,
        ended_unix_us: Some(AT + 42_000_000),
        because: "of 500 messages owed to this server in the last 40.0s, 3 arrived".to_owned(),
        outcome: "half of what was owed arrives again".to_owned(),
        server_id: "alpha".to_owned(),
        ..v1::Incident::default()
    };
    let open = v1::Incident {
        incident_id: "0199".to_owned(),
        kind: "group_silence".to_owned(),
        group: "edge".to_owned(),
        began_unix_us: AT,
        because: "edge is silent".to_owned(),
        ..v1::Incident::default()
    };
    State {
        incidents: vec![open, over],
        ..State::default()
    }
}

#[test]
fn incidents_tell_what_happened_and_how_it_ended() {
    let fleet = Fleet::start(state());
    let run = fleetbeat(&fleet, &["incidents"]).must_exit(0);
    let lines: Vec<_> = run.out.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "BEGAN                     LASTED  KIND           GROUP  WHAT HAPPENED",
            "2026-11-30 15:42:35.123Z    open  group_silence  edge   edge is silent",
            "2026-11-30 15:42:35.123Z     42s  mass_silence   -      of 500 messages owed to this server in the last 40.0s, 3 arrived",
            "                                                        half of what was owed arrives again",
        ]
    );
}

#[test]
fn open_incidents_alone_and_none_at_all() {
    let fleet = Fleet::start(state());
    let run = fleetbeat(&fleet, &["incidents", "--open", "-o", "json"]).must_exit(0);
    let incidents = &run.json()["incidents"];
    assert_eq!(incidents.as_array().map(Vec::len), Some(1));
    assert_eq!(
        incidents[0],
        json!({"incident_id": "0199", "kind": "group_silence", "group": "edge",
               "began_at": "2026-11-30T15:42:35.123456Z", "ended_at": null,
               "because": "edge is silent", "outcome": null, "server_id": ""})
    );
    let none = Fleet::start(State {
        history_unavailable: "connection refused".to_owned(),
        ..State::default()
    });
    let run = fleetbeat(&none, &["incidents"]).must_exit(0);
    assert_eq!(run.out, "no incidents\n");
    assert!(run.err.contains("connection refused"), "{}", run.err);
}

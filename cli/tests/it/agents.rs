use std::collections::HashMap;

use fleetbeat_proto::v1;

use crate::fleet::{AT, Fleet, SECOND, State, default_tuning, tuning};
use crate::run::{fleetbeat, keys};

fn agent(number: u32) -> v1::Agent {
    let revised = |revision, tuning| {
        Some(v1::RevisedTuning {
            revision,
            hash: revision,
            tuning: Some(tuning),
        })
    };
    v1::Agent {
        agent_id: format!("0198c3f2-0000-7000-8000-{number:012}"),
        name: format!("web-{number}"),
        group: "edge".to_owned(),
        labels: HashMap::from([("zone".to_owned(), "b".to_owned())]),
        verdict: v1::Verdict::Online.into(),
        because: "last message 1.2s ago".to_owned(),
        verdict_since_unix_us: AT,
        last_seen_unix_us: Some(AT),
        last_seen_age_ns: Some(1_200_000_000),
        session_id: Some("0198c3f2-1111-7000-8000-000000000001".to_owned()),
        fence: Some(v1::Fence {
            incarnation: 4,
            connection: 2,
        }),
        agent_version: "0.1.0".to_owned(),
        address: "10.0.0.7:51234".to_owned(),
        desired: revised(8, tuning(5 * SECOND, 3, SECOND)),
        applied: revised(7, default_tuning()),
        refusal: String::new(),
        rtt_median_ns: Some(1_250_000),
        rtt_p95_ns: Some(3_000_000),
        conditions: vec!["flapping".to_owned()],
        deadline_ns: 62 * SECOND,
        grounds: Some(v1::Grounds {
            trigger: "silent".to_owned(),
            last_message: "ping".to_owned(),
            last_ping_seq: Some(4_211),
            path: "gone".to_owned(),
            ..v1::Grounds::default()
        }),
        condition_details: vec![v1::Condition {
            name: "flapping".to_owned(),
            since_unix_us: AT,
            detail: "lost 4 sessions within 10 min".to_owned(),
        }],
    }
}

fn many(count: u32) -> State {
    State {
        agents: (0..count).map(agent).collect(),
        ..State::default()
    }
}

#[test]
fn agents_list_shows_a_line_per_agent() {
    let fleet = Fleet::start(many(1));
    let run = fleetbeat(&fleet, &["agents", "list"]).must_exit(0);
    assert_eq!(
        run.out,
        "\
NAME   GROUP  VERDICT  SINCE                 SEEN  T/N/W        D    RTT  FLAGS              ID
web-0  edge   online   2026-11-30 15:42:35Z  1.2s  20s/3/2s  1m2s  1.2ms  flapping,drifting  0198c3f2-0000-7000-8000-000000000000
"
    );
}

#[test]
fn agents_list_goes_through_all_pages() {
    let fleet = Fleet::start(many(1_203));
    let list = fleetbeat(&fleet, &["agents", "list", "-o", "json"])
        .must_exit(0)
        .json();
    let names: Vec<_> = list["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        (0..1_203).map(|n| format!("web-{n}")).collect::<Vec<_>>()
    );
    assert_eq!(list["total"], 1_203);
    assert_eq!(fleet.state().lists.len(), 3);
}

#[test]
fn agents_list_stops_at_its_limit_and_says_so() {
    let fleet = Fleet::start(many(1_203));
    let run = fleetbeat(&fleet, &["agents", "list", "--limit", "2"]).must_exit(0);
    assert!(
        run.out
            .ends_with("\n\n2 of 1203 agents shown; raise --limit for more\n"),
        "{run:?}"
    );
    assert_eq!(fleet.state().lists.len(), 1);
}

#[test]
fn agents_list_hands_its_filters_to_the_server() {
    let fleet = Fleet::start(many(0));
    let args = [
        "agents",
        "list",
        "--group",
        "edge",
        "--verdict",
        "online,suspect",
        "--match",
        "web",
    ];
    let run = fleetbeat(&fleet, &args).must_exit(0);
    assert_eq!(run.out, "no agent fits\n");
    let request = fleet.state().lists[0].clone();
    assert_eq!(
        (request.group.as_str(), request.r#match.as_str()),
        ("edge", "web")
    );
    assert_eq!(request.verdicts, [1, 2]);
}

fn shown() -> State {
    let session = |beats, reason: v1::CloseReason, closed| v1::Session {
        session_id: format!("s-{beats}"),
        fence: Some(v1::Fence {
            incarnation: 4,
            connection: 1,
        }),
        address: "10.0.0.7:51234".to_owned(),
        opened_unix_us: AT,
        closed_unix_us: closed,
        close_reason: reason.into(),
        close_detail: String::new(),
        beats,
        cause: if closed.is_some() {
            v1::Cause::Crash.into()
        } else {
            0
        },
    };
    let event = v1::Event {
        event_id: 9,
        at_unix_us: AT,
        kind: "verdict_changed".to_owned(),
        verdict: v1::Verdict::Online.into(),
        ..v1::Event::default()
    };
    let details = v1::GetAgentResponse {
        agent: Some(agent(1)),
        sessions: vec![
            session(10, v1::CloseReason::Unspecified, None),
            session(20, v1::CloseReason::MissedHeartbeats, Some(AT + 90_000_000)),
        ],
        events: vec![event],
        history_unavailable: String::new(),
    };
    State {
        details: Some(details),
        ..State::default()
    }
}

#[test]
fn agents_show_tells_verdict_tuning_sessions_and_events() {
    let fleet = Fleet::start(shown());
    let run = fleetbeat(&fleet, &["agents", "show", "web-1"]).must_exit(0);
    assert_eq!(
        run.out,
        "\
web-1 is online since 2026-11-30 15:42:35Z: last message 1.2s ago
flapping since 2026-11-30 15:42:35Z: lost 4 sessions within 10 min

agent       web-1
id          0198c3f2-0000-7000-8000-000000000001
group       edge
verdict     online
last seen   1.2s ago (2026-11-30 15:42:35Z)
deadline D  1m2s
desired     T 5s, N 3, W 1s, D 16s (revision 8)
applied     T 20s, N 3, W 2s, D 1m2s (revision 7); drifting
rtt         median 1.2ms, p95 3ms
flags       flapping,drifting
session     0198c3f2-1111-7000-8000-000000000001
fence       4.2
address     10.0.0.7:51234
version     0.1.0
labels      zone=b

OPENED                LASTED  BEATS  FENCE  CLOSED BY          CAUSE  DETAIL  ADDRESS
2026-11-30 15:42:35Z       -     10    4.1  (live)             -      -       10.0.0.7:51234
2026-11-30 15:42:35Z   1m30s     20    4.1  missed_heartbeats  crash  -       10.0.0.7:51234

2026-11-30 15:42:35Z  verdict_changed  online
"
    );
}

#[test]
fn agents_show_says_why_the_history_is_missing() {
    let mut state = shown();
    let details = state.details.as_mut().unwrap();
    details.sessions.clear();
    details.history_unavailable = "Postgres cannot be reached".to_owned();
    let fleet = Fleet::start(state);
    let run = fleetbeat(&fleet, &["agents", "show", "web-1"]).must_exit(0);
    let end = "\n\nsessions and events cannot be had: Postgres cannot be reached\n";
    assert!(run.out.ends_with(end), "{run:?}");
}

#[test]
fn agents_show_as_json_has_stable_keys() {
    let fleet = Fleet::start(shown());
    let agent = fleetbeat(&fleet, &["agents", "show", "web-1", "-o", "json"])
        .must_exit(0)
        .json();
    assert_eq!(
        keys(&agent),
        [
            "address",
            "agent_id",
            "agent_version",
            "applied",
            "because",
            "condition_details",
            "conditions",
            "deadline_ns",
            "desired",
            "drifting",
            "events",
            "fence",
            "grounds",
            "group",
            "history_unavailable",
            "labels",
            "last_seen_age_ns",
            "last_seen_at",
            "name",
            "refusal",
            "rtt_median_ns",
            "rtt_p95_ns",
            "session_id",
            "sessions",
            "verdict",
            "verdict_since",
        ]
    );
    assert_eq!(
        keys(&agent["sessions"][0]),
        [
            "address",
            "beats",
            "cause",
            "close_detail",
            "close_reason",
            "closed_at",
            "fence",
            "opened_at",
            "session_id",
        ]
    );
    assert_eq!(agent["sessions"][1]["close_reason"], "missed_heartbeats");
    assert_eq!(agent["sessions"][1]["cause"], "crash");
    assert!(agent["sessions"][0]["cause"].is_null());
    assert_eq!(agent["grounds"]["last_ping_seq"], 4_211);
    assert_eq!(agent["grounds"]["path"], "gone");
    assert_eq!(agent["condition_details"][0]["name"], "flapping");
    assert_eq!(agent["verdict"], "online");
    assert_eq!(agent["drifting"], true);
}

#[test]
fn an_unknown_agent_exits_with_not_found() {
    let fleet = Fleet::start(State::default());
    let run = fleetbeat(&fleet, &["agents", "show", "nobody"]).must_exit(5);
    assert!(
        run.err.starts_with("error: no agent `nobody`\n  next: "),
        "{run:?}"
    );
    assert_eq!(run.out, "");
}

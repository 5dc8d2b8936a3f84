use fleetbeat_proto::v1;
use serde_json::json;

use crate::fleet::{AT, Fleet, SECOND, State, default_tuning};
use crate::run::{fleetbeat, keys};

fn state() -> State {
    let verdicts = |online, suspect| {
        Some(v1::Verdicts {
            online,
            suspect,
            offline: 3,
            left: 5,
            unknown: 0,
        })
    };
    let lane = |lane, deaf| v1::LaneStatus {
        lane,
        sessions: 2_496,
        beats_total: 1_234_567,
        lag_ns: 80_000,
        deaf,
    };
    let status = v1::GetStatusResponse {
        server_id: "alpha".to_owned(),
        version: "0.1.0".to_owned(),
        started_unix_us: AT - 3_720_000_000,
        now_unix_us: AT,
        verdicts: verdicts(4_980, 12),
        sessions: 4_992,
        revision: 8,
        drifting: 3,
        lanes: vec![lane(0, false), lane(1, true)],
        recorder: Some(v1::RecorderStatus {
            state: v1::recorder_status::State::Waiting.into(),
            detail: "connection refused".to_owned(),
            backlog_batches: 12,
            backlog_rows: 3_400,
            backlog_age_ns: 42 * SECOND,
            rejected_rows: 1,
        }),
        judge: Some(v1::JudgeStatus {
            last_pass_age_ns: 40_000_000,
            watched: 5_000,
            grace_left_ns: 12 * SECOND,
            stalls_total: 2,
            ..v1::JudgeStatus::default()
        }),
        groups: vec![v1::GroupStatus {
            group: "edge".to_owned(),
            verdicts: verdicts(80, 2),
            tuning: Some(v1::RevisedTuning {
                revision: 7,
                hash: 1,
                tuning: Some(default_tuning()),
            }),
        }],
        open_files_limit: 1_048_576,
    };
    State {
        status,
        ..State::default()
    }
}

#[test]
fn status_is_one_page() {
    let fleet = Fleet::start(state());
    let run = fleetbeat(&fleet, &["status"]).must_exit(0);
    let expected = format!(
        "\
server    alpha (0.1.0) at {}
uptime    1h2m
agents    4980 online, 12 suspect, 3 offline, 5 left, 0 unknown
sessions  4992 (open files: at most 1048576)
tuning    revision 8, not yet applied by 3 live agents
judge     last pass 40ms ago, 5000 watched, 2 stalls; verdicts held back for 12s more
recorder  waiting (connection refused), 12 batches with 3400 rows wait, the oldest for 42s, 1 row rejected

LANE  SESSIONS  BEATS   LAG  STATE
   0      2496   1.2M  80µs  hears
   1      2496   1.2M  80µs  deaf

GROUP  ONLINE  SUSPECT  OFFLINE  LEFT  UNKNOWN    T  N   W     D  REV
edge       80        2        3     5        0  20s  3  2s  1m2s    7
",
        fleet.url()
    );
    assert_eq!(run.out, expected);
    assert_eq!(run.err, "");
}

/// Hard case A3: what the server holds back, and why, is on the page.
#[test]
fn held_verdicts_and_open_incidents_are_on_the_page() {
    let judge = v1::JudgeStatus {
        held_ns: Some(7 * SECOND),
        incidents: vec![v1::Incident {
            kind: "mass_silence".to_owned(),
            because: "of 5000 messages owed to this server in the last 40.0s, 3 arrived".to_owned(),
            ..v1::Incident::default()
        }],
        ..v1::JudgeStatus::default()
    };
    let status = v1::GetStatusResponse {
        judge: Some(judge),
        ..v1::GetStatusResponse::default()
    };
    let fleet = Fleet::start(State {
        status,
        ..State::default()
    });
    let run = fleetbeat(&fleet, &["status"]).must_exit(0);
    let lines: Vec<_> = run.out.lines().map(str::trim_end).collect();
    assert!(
        lines.contains(
            &"judge     last pass 0s ago, 0 watched, 0 stalls; nearly nobody is heard, verdicts held for 7s"
        ),
        "{}",
        run.out
    );
    assert!(
        lines.contains(
            &"incident  mass_silence: of 5000 messages owed to this server in the last 40.0s, 3 arrived"
        ),
        "{}",
        run.out
    );
}

#[test]
fn status_as_json_has_stable_keys() {
    let fleet = Fleet::start(state());
    let status = fleetbeat(&fleet, &["status", "--output", "json"])
        .must_exit(0)
        .json();
    assert_eq!(
        keys(&status),
        [
            "drifting",
            "groups",
            "judge",
            "lanes",
            "now_at",
            "open_files_limit",
            "recorder",
            "revision",
            "server",
            "server_id",
            "sessions",
            "started_at",
            "uptime_ns",
            "verdicts",
            "version",
        ]
    );
    assert_eq!(status["now_at"], "2026-11-30T15:42:35.123456Z");
    assert_eq!(status["uptime_ns"], 3_720 * SECOND);
    assert_eq!(
        status["lanes"][1],
        json!({"lane": 1, "sessions": 2496, "beats_total": 1_234_567, "lag_ns": 80_000, "deaf": true})
    );
    assert_eq!(
        status["judge"],
        json!({"last_pass_age_ns": 40_000_000, "watched": 5000, "grace_left_ns": 12 * SECOND,
               "stalls_total": 2, "held_ns": null, "incidents": []})
    );
    assert_eq!(
        status["recorder"],
        json!({"state": "waiting", "detail": "connection refused", "backlog_batches": 12,
               "backlog_rows": 3400, "backlog_age_ns": 42 * SECOND, "rejected_rows": 1})
    );
    assert_eq!(
        status["groups"],
        json!([{"group": "edge",
                "verdicts": {"online": 80, "suspect": 2, "offline": 3, "left": 5, "unknown": 0},
                "tuning": {"revision": 7, "interval_ns": 20 * SECOND, "misses": 3,
                           "timeout_ns": 2 * SECOND, "pong_every": 1, "adaptive": false,
                           "deadline_ns": 62 * SECOND, "deadline_at_most_ns": 62 * SECOND}}])
    );
}

//! `fleetbeat tune plan`, with a server and without.

use fleetbeat_proto::v1;
use serde_json::json;

use crate::fleet::{Fleet, SECOND, State, default_tuning, tuning};
use crate::run::{Run, bare, fleetbeat};

fn plan(args: &[&str]) -> Run {
    let mut all = vec!["tune", "plan", "--offline"];
    all.extend(args);
    bare(&all, &[])
}

/// Requirements S7, S9, S10, S11: the worked example of essay 2 §3.2.
#[test]
fn the_worked_example_is_planned_without_a_server() {
    let asked = [
        "--detect",
        "20s",
        "--rtt-p99",
        "400ms",
        "--misses",
        "2",
        "--agents",
        "50000",
    ];
    let text = plan(&asked).must_exit(0);
    assert!(text.out.contains("T 8s, N 2, W 2s"), "{text:?}");
    assert!(text.out.contains("at worst 18s"), "{text:?}");
    let next = "tune set --group GROUP --interval 8s --misses 2 --timeout 2s";
    assert!(text.out.contains(next), "{text:?}");
    let asked = [&asked[..], &["--frame-bytes", "32", "--output", "json"]].concat();
    let shown = plan(&asked).must_exit(0).json();
    assert_eq!(shown["tuning"]["interval_ms"], json!(8_000));
    assert_eq!(shown["tuning"]["misses"], json!(2));
    assert_eq!(shown["tuning"]["timeout_ms"], json!(2_000));
    assert_eq!(shown["deadline_ms"], json!(18_000));
    assert_eq!(
        shown["detection"],
        json!({"worst_ms": 18_000, "mean_ms": 14_000})
    );
    let load = &shown["load"];
    assert_eq!(load["beats_per_second"], json!(6_250.0));
    assert_eq!(load["messages_per_second"], json!(12_500.0));
    assert_eq!(load["bytes_per_second"], json!(400_000.0));
    let expected = load["expected_beats_per_second"].as_f64().unwrap();
    assert!((expected - 6_579.0).abs() < 0.5, "{expected}");
    assert_eq!(load["side_costs"]["rows_per_second"], json!(6_250.0));
    let checks = shown["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["ok"] == true), "{checks:?}");
    assert_eq!(shown["steps"].as_array().unwrap().len(), 3);
}

#[test]
fn a_tuning_that_fails_a_check_ends_with_1_and_says_what_to_do() {
    let asked = [
        "--interval",
        "20s",
        "--misses",
        "3",
        "--timeout",
        "2s",
        "--pause",
        "5s",
    ];
    let text = plan(&asked).must_exit(1);
    assert!(text.out.contains("set it to 4, or T to 50s"), "{text:?}");
    assert!(!text.out.contains("Next:"), "{text:?}");
    let preset = plan(&["--preset", "web", "--idle-timeout", "30s", "-o", "json"]).must_exit(1);
    let failed: Vec<_> = preset.json()["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["ok"] == false)
        .map(|check| check["name"].clone())
        .collect();
    assert_eq!(failed, [json!("idle_timeout")]);
}

#[test]
fn what_cannot_be_planned_is_refused_with_what_could() {
    let text = plan(&["--detect", "2s"]).must_exit(2);
    assert!(text.err.contains("tolerate at least"), "{text:?}");
    let text = plan(&["--detect", "20s", "--misses", "21"]).must_exit(2);
    assert!(text.err.contains("lower it to at most 20"), "{text:?}");
    let text = plan(&["--detect", "20s", "--rtt-p99", "2days"]).must_exit(2);
    assert!(text.err.contains("1 ms to 24 h"), "{text:?}");
    let text = plan(&["--misses", "2"]).must_exit(2);
    assert!(text.err.contains("--detect"), "{text:?}");
    let text = plan(&["--detect", "20s", "--interval", "5s"]).must_exit(2);
    assert!(text.err.contains("--timeout"), "{text:?}");
    let text = plan(&["--detect", "20s", "--keepalive-idle", "60s"]).must_exit(2);
    assert!(text.err.contains("--keepalive-interval"), "{text:?}");
}

fn measured() -> v1::PlanTuningResponse {
    let range = |low, expected, high| {
        Some(v1::Range {
            low,
            expected,
            high,
        })
    };
    let replay = v1::Replay {
        false_disconnects_per_day: range(0.1, 0.5, 2.25),
        silences: 12,
        events: 7,
        agent_days: 350.0,
        detection_p50_ns: range(13e9, 14e9, 15e9),
        detection_p99_ns: range(17e9, 18e9, 18e9),
        deaths: 3,
        beats_per_second: range(6.25, 6.58, 6.94),
        bytes_per_day: range(41e6, 43.2e6, 45.6e6),
        happened: 2,
        open: 1,
        ..v1::Replay::default()
    };
    v1::PlanTuningResponse {
        tuning: Some(tuning(8 * SECOND, 2, 2 * SECOND)),
        facts: vec![v1::PlanFact {
            name: "rtt_p99".to_owned(),
            value: 400e6,
            source: "81000 round trips of the last day, ± 3 %".to_owned(),
        }],
        checks: vec![v1::PlanCheck {
            name: "rtt_margin".to_owned(),
            ok: true,
            grade: "ok".to_owned(),
            reason: "T is 20 times the P99".to_owned(),
        }],
        agents: 50,
        frame_bytes: 38,
        today: Some(default_tuning()),
        replay_today: Some(v1::Replay {
            false_disconnects_per_day: None,
            unknown: "too little data: 0.20 agent-days, 1 are needed".to_owned(),
            deaths: 0,
            ..replay.clone()
        }),
        replay: Some(replay),
        ..v1::PlanTuningResponse::default()
    }
}

/// Requirement S7: what was measured, what happened, and what would have.
#[test]
fn plan_of_a_server_shows_what_it_stands_on_and_what_it_would_have_done() {
    let fleet = Fleet::start(State {
        plan: measured(),
        ..State::default()
    });
    let args = "tune plan --group edge --detect 20s --misses 2 --days 14 --pause 2s";
    let run = fleetbeat(&fleet, &args.split(' ').collect::<Vec<_>>()).must_exit(0);
    for line in [
        "rtt_p99  400ms  81000 round trips of the last day, ± 3 %\n",
        "false disconnects a day  0.50 (0.10 … 2.25)",
        "too little data: 0.20 agent-days, 1 are needed\n",
        "dead found after, p50    14s (13s … 15s)",
        "too little data: no death was recorded\n",
        "MB a day                 43.2 (41.0 … 45.6)",
        "on 12 silences in 7 events and 3 deaths (1 not back yet, who may live) of 350.0 agent-days; 2 \
         false disconnects happened\n",
        "load    6 heartbeats/s of 50 agents",
    ] {
        assert!(run.out.contains(line), "wanted {line}, got {}", run.out);
    }
    let asked = fleet.state().plans[0].clone();
    assert_eq!((asked.group.as_str(), asked.days), ("edge", 14));
    assert_eq!(
        (asked.detect_ns, asked.pause_ns),
        (Some(20 * SECOND), Some(2 * SECOND))
    );
    assert_eq!(
        (asked.tuning.unwrap().misses, asked.agents),
        (Some(2), None)
    );

    let json = [&args.split(' ').collect::<Vec<_>>()[..], &["-o", "json"]].concat();
    let shown = fleetbeat(&fleet, &json).must_exit(0).json();
    assert_eq!(
        shown["replay"]["false_disconnects_per_day"]["high"],
        json!(2.25)
    );
    assert_eq!(
        shown["replay_today"]["false_disconnects_per_day"],
        json!(null)
    );
    assert_eq!(shown["deadline_ms"], json!(18_000));
    assert_eq!(shown["load"]["messages_per_second"], json!(12.5));
}

/// Of a later server: nothing is shown in its place.
#[test]
fn tuning_that_this_program_does_not_know_is_no_plan() {
    let mut plan = measured();
    plan.tuning = Some(tuning(SECOND, 99, SECOND));
    let fleet = Fleet::start(State {
        plan,
        ..State::default()
    });
    let run = fleetbeat(&fleet, &["tune", "plan", "--fleet", "--preset", "web"]).must_exit(1);
    assert!(run.err.contains("misses 99 is too large"), "{run:?}");
    assert_eq!(run.out, "");
}

#[test]
fn plan_says_why_the_past_cannot_be_replayed_and_fails_with_a_check() {
    let mut plan = measured();
    plan.checks[0].ok = false;
    plan.replay = None;
    plan.replay_today = None;
    plan.history_unavailable = "Postgres cannot be reached".to_owned();
    let fleet = Fleet::start(State {
        plan,
        ..State::default()
    });
    let run = fleetbeat(&fleet, &["tune", "plan", "--fleet", "--preset", "web"]).must_exit(1);
    let line = "what happened cannot be replayed: Postgres cannot be reached\n";
    assert!(run.out.contains(line), "{run:?}");
    let nobody = fleetbeat(&fleet, &["tune", "plan", "--preset", "web"]).must_exit(2);
    assert!(nobody.err.contains("--offline"), "{nobody:?}");
}

/// Requirement S32.
#[test]
fn report_shows_what_changed_and_what_cannot_be_said() {
    let side = |false_disconnects, rtt_p99_ns| v1::ReportSide {
        agent_days: 100.0,
        false_disconnects,
        ended: [("missed_heartbeats".to_owned(), u64::from(false_disconnects))].into(),
        rtt_p99_ns,
        open: 4,
        dead: 3,
        dead_after_p99_ns: Some(62_000_000_000),
        ..v1::ReportSide::default()
    };
    let finding = |name: &str, finding: &str, chance| v1::ReportFinding {
        name: name.to_owned(),
        before: Some(0.2),
        after: Some(0.02),
        chance,
        finding: finding.to_owned(),
        events_before: 20,
        events_after: 2,
        together: 1.25,
    };
    let fleet = Fleet::start(State {
        report: v1::ReportRevisionResponse {
            author: "ada".to_owned(),
            reason: "calmer".to_owned(),
            changes: vec!["group-edge: set to T=60s N=3 W=2s".to_owned()],
            agents: 50,
            bounded_by: "no more time has passed since".to_owned(),
            before: Some(side(20, Some(80_000_000))),
            after: Some(side(2, None)),
            findings: vec![
                finding("false_disconnects", "fewer", Some(0.000_2)),
                finding("deaths", "too little data", None),
            ],
            ..v1::ReportRevisionResponse::default()
        },
        ..State::default()
    });
    let run = fleetbeat(&fleet, &["tune", "report", "12", "--window", "2h"]).must_exit(0);
    for line in [
        " by ada: calmer\n  group-edge: set to T=60s N=3 W=2s\n",
        "50 known agents changed; 2h before are compared with as much after (no more time has passed \
         since)",
        "false disconnects   0.200  0.020  20 → 2       1.2  fewer            below 0.001\n",
        "deaths              0.200  0.020  20 → 2       1.2  too little data            -\n",
        "not back yet                    4       4\n",
        "dead found after, p99        1m2s    1m2s\n",
        "rtt p99                      80ms       -\n",
        "ended: missed_heartbeats       20       2\n",
    ] {
        assert!(run.out.contains(line), "wanted {line}, got {}", run.out);
    }
    let json = fleetbeat(&fleet, &["tune", "report", "12", "-o", "json"]).json();
    assert_eq!(json["findings"][0]["finding"], "fewer");
    assert_eq!(
        (&json["revision"], &json["after"]["rtt_p99_ns"]),
        (&json!(12), &json!(null))
    );
    let refused = fleetbeat(&fleet, &["tune", "report", "12", "--window", "31d"]).must_exit(2);
    assert!(refused.err.contains("between 1m and 30d"), "{refused:?}");
}

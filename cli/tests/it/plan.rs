//! `fleetbeat tune plan`, which asks nobody.

use serde_json::json;

use crate::run::{Run, bare};

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

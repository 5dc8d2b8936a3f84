//! Presets, lease mode and adaptive mode as operators set them.

use fleetbeat_proto::v1;
use serde_json::json;

use crate::fleet::{Fleet, SECOND, State};
use crate::run::{Run, bare, fleetbeat};

fn set(fleet: &Fleet, parts: &[&str]) -> Run {
    let mut args = vec!["tune", "set", "-g", "edge", "-r", "why", "--no-wait"];
    args.extend(parts);
    fleetbeat(fleet, &args)
}

/// What the server was asked to set.
fn sent(fleet: &Fleet) -> v1::Tuning {
    fleet.state().sets.last().unwrap().tuning.unwrap()
}

/// Requirements S8, S26.
#[test]
fn presets_are_listed_without_a_server_with_the_error_that_each_prefers() {
    let run = bare(&["tune", "presets"], &[]).must_exit(0);
    let lines: Vec<_> = run.out.lines().collect();
    assert!(lines[0].starts_with("PRESET"), "{run:?}");
    let line = |name: &str| *lines.iter().find(|line| line.starts_with(name)).unwrap();
    let words: Vec<_> = line("device-gateway").split_whitespace().take(8).collect();
    assert_eq!(
        words,
        [
            "device-gateway",
            "1m",
            "3",
            "10s",
            "3m10s",
            "3m",
            "late",
            "verdicts"
        ]
    );
    assert!(line("trading").contains("false verdicts"), "{run:?}");

    let shown = bare(&["tune", "presets", "-o", "json"], &[])
        .must_exit(0)
        .json();
    assert_eq!(shown["presets"].as_array().unwrap().len(), 8);
    let gateway = &shown["presets"][5];
    assert_eq!(gateway["name"], "connection-gateway");
    assert_eq!(gateway["deadline_ns"], json!(18 * SECOND));
    assert_eq!(gateway["essay_deadline_ns"], json!(20 * SECOND));
    assert_eq!(gateway["prefers"], "false_verdict");
    assert_eq!(shown["presets"][6]["essay_deadline_ns"], json!(null));
}

/// Requirement S8: a part said beside a preset holds instead of its own.
#[test]
fn a_preset_is_set_for_a_group_and_its_parts_give_way_to_what_is_said() {
    let fleet = Fleet::start(State::default());
    set(&fleet, &["--preset", "device-gateway"]).must_exit(0);
    assert_eq!(sent(&fleet), cadence(60 * SECOND, 3, 10 * SECOND));
    set(&fleet, &["--preset", "device-gateway", "--misses", "5"]).must_exit(0);
    assert_eq!(sent(&fleet), cadence(60 * SECOND, 5, 10 * SECOND));
    let run = set(&fleet, &["--preset", "devices"]).must_exit(2);
    assert!(
        run.err.contains("mobile-messaging, web, device-gateway"),
        "{run:?}"
    );
}

fn cadence(interval_ns: u64, misses: u32, timeout_ns: u64) -> v1::Tuning {
    v1::Tuning {
        interval_ns: Some(interval_ns),
        misses: Some(misses),
        timeout_ns: Some(timeout_ns),
        ..v1::Tuning::default()
    }
}

/// Hard cases A10, A11.
#[test]
fn modes_are_set_shown_and_refused_together() {
    let fleet = Fleet::start(State::default());
    let run = set(&fleet, &["--adaptive", "on"]).must_exit(0);
    assert!(
        run.out.contains("D 1m2s → 1m2s…2m4s, adaptive off → on"),
        "{run:?}"
    );
    let adaptive = v1::Tuning {
        adaptive: Some(true),
        ..v1::Tuning::default()
    };
    assert_eq!(sent(&fleet), adaptive);
    let shown = fleetbeat(&fleet, &["tune", "show"]).must_exit(0);
    assert!(shown.out.contains("1m2s…2m4s           1  on"), "{shown:?}");

    let run = set(&fleet, &["--pong-every", "5", "--adaptive", "on"]).must_exit(2);
    assert!(
        run.err
            .contains("set pong_every to 1 instead of 5, or adaptive off"),
        "{run:?}"
    );
    let run = set(&fleet, &["--pong-every", "5", "--adaptive", "off"]).must_exit(0);
    assert!(
        run.out.contains("pong every 1 → 5, adaptive on → off"),
        "{run:?}"
    );
    let shown = fleetbeat(&fleet, &["tune", "show"]).must_exit(0);
    assert!(shown.out.contains("1m2s           5  off"), "{shown:?}");
    let run = set(&fleet, &["--pong-every", "11"]).must_exit(2);
    assert!(run.err.contains("pong_every 11 is too large"), "{run:?}");
}

use fleetbeat_proto::v1;
use serde_json::json;

use crate::fleet::{Fleet, State};
use crate::run::{fleetbeat, keys};

const SET: [&str; 8] = [
    "tune",
    "set",
    "--group",
    "edge",
    "--interval",
    "10s",
    "--reason",
    "find them sooner",
];

/// A push of revision 8 to three agents, told in the given counts of applied, refused and waiting.
fn push(counts: &[(u64, u64, u64)], done: bool) -> State {
    let refusal = v1::Refusal {
        agent_id: "0198".to_owned(),
        agent_name: "web-3".to_owned(),
        reason: "interval is below the floor".to_owned(),
    };
    let at = |(applied, refused, waiting): (u64, u64, u64)| v1::RevisionProgress {
        revision: 8,
        targets: 3,
        applied,
        refused,
        waiting,
        ack_p50_ns: (applied > 0).then_some(12_000_000),
        ack_p99_ns: (applied > 0).then_some(80_000_000),
        refusals: if refused > 0 {
            vec![refusal.clone()]
        } else {
            vec![]
        },
        ..v1::RevisionProgress::default()
    };
    let mut progress: Vec<_> = counts.iter().copied().map(at).collect();
    if let Some(last) = progress.last_mut() {
        last.done = done;
    }
    State {
        targets: 3,
        progress,
        ..State::default()
    }
}

#[test]
fn without_a_terminal_each_change_is_a_line_on_standard_error() {
    let fleet = Fleet::start(push(&[(0, 0, 3), (2, 0, 1), (2, 0, 1), (3, 0, 0)], true));
    let run = fleetbeat(&fleet, &SET).must_exit(0);
    assert_eq!(
        run.out,
        "group-edge: another value\nin force: T 20s → 10s, N 3, W 2s, D 1m2s → 32s\n\
         revision 8 made, it goes to 3 live agents\n\
         revision 8: 3 of 3 applied, 0 refused, 0 lost, 0 superseded, 0 waiting; \
         ack p50 12ms, p99 80ms\n"
    );
    assert_eq!(
        run.err,
        "revision 8: 0 of 3 applied, 0 refused, 0 lost, 0 superseded, 3 waiting\n\
         revision 8: 2 of 3 applied, 0 refused, 0 lost, 0 superseded, 1 waiting\n\
         revision 8: 3 of 3 applied, 0 refused, 0 lost, 0 superseded, 0 waiting\n"
    );
}

#[test]
fn a_refusal_is_listed_and_fails_the_command() {
    let fleet = Fleet::start(push(&[(2, 1, 0)], true));
    let run = fleetbeat(&fleet, &SET).must_exit(1);
    assert!(
        run.out.ends_with(
            "\n\nREFUSED BY  ID    REASON\nweb-3       0198  interval is below the floor\n"
        ),
        "{run:?}"
    );
    assert!(run.err.contains("next: refused: "), "{run:?}");
}

#[test]
fn an_agent_that_has_not_answered_in_time_fails_the_command() {
    let fleet = Fleet::start(push(&[(2, 0, 1)], true));
    let run = fleetbeat(&fleet, &["tune", "watch", "8"]).must_exit(1);
    assert!(
        run.err
            .contains("next: waiting: count on with `fleetbeat tune watch 8`"),
        "{run:?}"
    );
}

#[test]
fn watch_ends_well_when_all_applied() {
    let fleet = Fleet::start(push(&[(3, 0, 0)], true));
    let progress = fleetbeat(&fleet, &["tune", "watch", "8", "-o", "json"])
        .must_exit(0)
        .json();
    assert_eq!(
        progress,
        json!({"revision": 8, "targets": 3, "applied": 3, "refused": 0, "lost": 0,
               "superseded": 0, "waiting": 0, "overdue": 0, "ack_p50_ns": 12_000_000, "ack_p99_ns": 80_000_000,
               "refusals": [], "done": true})
    );
}

#[test]
fn json_is_the_final_object_only() {
    let fleet = Fleet::start(push(&[(0, 0, 3), (2, 1, 0)], true));
    let args = [&SET[..], &["--output", "json"]].concat();
    let outcome = fleetbeat(&fleet, &args).must_exit(1).json();
    assert_eq!(
        keys(&outcome),
        [
            "after",
            "beats_per_second_after",
            "beats_per_second_before",
            "before",
            "changes",
            "dry_run",
            "exceeded",
            "progress",
            "revision",
            "staged_to",
            "targets"
        ]
    );
    assert_eq!(outcome["revision"], 8);
    assert_eq!(outcome["progress"]["refusals"][0]["agent_name"], "web-3");
    assert_eq!(outcome["changes"], json!(["group-edge: another value"]));
    assert_eq!(outcome["after"]["interval_ns"], 10_000_000_000_u64);
}

#[test]
fn a_count_that_breaks_off_names_the_revision_that_stands() {
    let fleet = Fleet::start(push(&[(1, 0, 2)], false));
    let args = [&SET[..], &["--output", "json"]].concat();
    let run = fleetbeat(&fleet, &args).must_exit(3);
    assert_eq!(run.json()["revision"], 8);
    assert_eq!(run.json()["progress"], json!(null));
    assert!(
        run.err.contains("count on with `fleetbeat tune watch 8`"),
        "{run:?}"
    );
}

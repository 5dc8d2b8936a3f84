use fleetbeat_proto::v1;
use serde_json::json;

use crate::fleet::{AT, Fleet, SECOND, State, default_tuning, tuning};
use crate::run::{fleetbeat, keys};

fn edge(interval_s: u64) -> State {
    let mut state = State::default();
    let mut policies = state.policies[&7].clone();
    policies.insert(
        Some("edge".to_owned()),
        tuning(interval_s * SECOND, 3, SECOND),
    );
    state.policies.insert(8, policies);
    state
}

#[test]
fn tune_show_lists_the_policies() {
    let fleet = Fleet::start(edge(5));
    let run = fleetbeat(&fleet, &["tune", "show"]).must_exit(0);
    assert_eq!(
        run.out,
        "\
revision 8

POLICY     T  N   W     D  MODE
(fleet)  20s  3  2s  1m2s  fixed
edge      5s  3  1s   16s  fixed
"
    );
}

#[test]
fn tune_show_names_the_default_where_the_fleet_has_no_policy() {
    let mut state = State::default();
    state.policies.get_mut(&7).unwrap().clear();
    let fleet = Fleet::start(state);
    let run = fleetbeat(&fleet, &["tune", "show"]).must_exit(0);
    assert!(
        run.out.contains("(default)  20s  3  2s  1m2s  fixed\n"),
        "{run:?}"
    );
}

#[test]
fn tune_show_tells_what_a_group_gets_and_why() {
    let fleet = Fleet::start(edge(5));
    let run = fleetbeat(&fleet, &["tune", "show", "--group", "edge"]).must_exit(0);
    let end = "in force: T 5s, N 3, W 1s, D 16s (revision 8)\nbecause:  the policy says so\n";
    assert!(run.out.ends_with(end), "{run:?}");
    let shown = fleetbeat(&fleet, &["tune", "show", "-g", "edge", "-o", "json"]).json();
    assert_eq!(
        shown["effective"],
        json!({"revision": 8, "interval_ns": 5 * SECOND, "misses": 3, "timeout_ns": SECOND,
               "pong_every": 1, "adaptive": false, "deadline_ns": 16 * SECOND,
               "deadline_at_most_ns": 16 * SECOND})
    );
    assert_eq!(
        keys(&shown),
        [
            "defaults",
            "effective",
            "effective_because",
            "policies",
            "revision"
        ]
    );
    assert_eq!(shown["policies"][0]["group"], json!(null));
    assert_eq!(shown["policies"][1]["group"], "edge");
}

#[test]
fn unsaid_parts_are_filled_and_the_revision_is_pinned() {
    let fleet = Fleet::start(edge(5));
    let args = [
        "tune",
        "set",
        "-g",
        "edge",
        "--interval",
        "10s",
        "--reason",
        "why",
        "--no-wait",
    ];
    let run = fleetbeat(&fleet, &args).must_exit(0);
    assert_eq!(
        run.out,
        "edge: T 5s → 10s, N 3, W 1s, D 16s → 31s\nrevision 9 made, it goes to 0 live agents\n"
    );
    let request = fleet.state().sets[0].clone();
    assert_eq!(request.tuning, Some(tuning(10 * SECOND, 3, SECOND)));
    assert_eq!(request.expected_revision, Some(8));
    assert_eq!(request.reason, "why");
}

#[test]
fn the_fleet_is_named_to_be_changed() {
    let fleet = Fleet::start(edge(5));
    let args = [
        "tune",
        "set",
        "--fleet",
        "--misses",
        "4",
        "--reason",
        "why",
        "--no-wait",
    ];
    fleetbeat(&fleet, &args).must_exit(0);
    let request = fleet.state().sets[0].clone();
    assert_eq!(request.selector, Some(v1::Selector::default()));
    assert_eq!(
        request.tuning,
        Some(v1::Tuning {
            misses: Some(4),
            ..default_tuning()
        })
    );
}

#[test]
fn a_value_that_does_not_fit_the_one_in_force_is_refused_before_it_is_sent() {
    let fleet = Fleet::start(edge(5));
    let args = [
        "tune",
        "set",
        "-g",
        "edge",
        "--interval",
        "500ms",
        "--reason",
        "why",
    ];
    let run = fleetbeat(&fleet, &args).must_exit(2);
    assert!(
        run.err.contains("timeout 1s is longer than interval 500ms"),
        "{run:?}"
    );
    assert_eq!(fleet.state().calls, ["get_tuning"]);
}

#[test]
fn a_dry_run_shows_the_change_and_makes_none() {
    let fleet = Fleet::start(State {
        targets: 12,
        ..edge(5)
    });
    let args = [
        "tune",
        "set",
        "-g",
        "edge",
        "-i",
        "10s",
        "-r",
        "why",
        "--dry-run",
    ];
    let run = fleetbeat(&fleet, &args).must_exit(0);
    assert_eq!(
        run.out,
        "edge: T 5s → 10s, N 3, W 1s, D 16s → 31s\n\
         dry run: nothing is changed, it would go to 12 live agents\n"
    );
    assert_eq!(fleet.state().calls, ["get_tuning", "set_tuning"]);
    assert_eq!(fleet.state().policies.len(), 2);
}

#[test]
fn what_is_already_in_force_makes_no_revision() {
    let fleet = Fleet::start(edge(5));
    let run = fleetbeat(
        &fleet,
        &["tune", "set", "-g", "edge", "-i", "5s", "-r", "why"],
    );
    let run = run.must_exit(0);
    assert!(
        run.out
            .ends_with("no revision made: that is already in force\n"),
        "{run:?}"
    );
}

#[test]
fn a_faster_operator_is_no_obstacle_when_no_revision_was_demanded() {
    let fleet = Fleet::start(State {
        rivals: 2,
        ..edge(5)
    });
    let args = [
        "tune",
        "set",
        "-g",
        "edge",
        "-i",
        "10s",
        "-r",
        "why",
        "--no-wait",
    ];
    fleetbeat(&fleet, &args).must_exit(0);
    let expected: Vec<_> = fleet
        .state()
        .sets
        .iter()
        .map(|set| set.expected_revision)
        .collect();
    assert_eq!(expected, [Some(8), Some(9), Some(10)]);
}

#[test]
fn a_demanded_revision_that_moved_on_is_a_conflict() {
    let fleet = Fleet::start(edge(5));
    let args = [
        "tune",
        "set",
        "-g",
        "edge",
        "-i",
        "10s",
        "-r",
        "why",
        "--expect-revision",
        "7",
    ];
    let run = fleetbeat(&fleet, &args).must_exit(6);
    assert!(
        run.err
            .starts_with("error: the newest revision is 8\n  next: "),
        "{run:?}"
    );
    assert_eq!(fleet.state().sets.len(), 1);
}

#[test]
fn unset_gives_the_group_back_to_the_fleet() {
    let fleet = Fleet::start(edge(5));
    let args = [
        "tune",
        "unset",
        "-g",
        "edge",
        "--reason",
        "over",
        "--no-wait",
    ];
    let run = fleetbeat(&fleet, &args).must_exit(0);
    assert!(
        run.out
            .starts_with("edge: T 5s → 20s, N 3, W 1s → 2s, D 16s → 1m2s\n"),
        "{run:?}"
    );
    assert!(fleet.state().sets[0].remove);
}

#[test]
fn rollback_makes_a_newer_revision_and_shows_what_moves() {
    let fleet = Fleet::start(edge(5));
    let args = ["tune", "rollback", "7", "--reason", "too fast", "--no-wait"];
    let run = fleetbeat(&fleet, &args).must_exit(0);
    assert_eq!(
        run.out,
        "edge: T 5s → 20s, N 3, W 1s → 2s, D 16s → 1m2s\n\
         revision 9 made, it goes to 0 live agents\n"
    );
    let policies = fleet.state().policies.clone();
    assert_eq!(policies[&9], policies[&7]);
}

#[test]
fn rollback_to_an_unknown_revision_is_not_found() {
    let fleet = Fleet::start(edge(5));
    let run = fleetbeat(&fleet, &["tune", "rollback", "3", "--reason", "x"]).must_exit(5);
    assert!(run.err.contains("no revision 3"), "{run:?}");
}

#[test]
fn history_lists_revisions_with_their_changes() {
    let revision = v1::Revision {
        revision: 8,
        created_unix_us: AT,
        author: "ada".to_owned(),
        reason: "find dead gateways sooner".to_owned(),
        changes: vec!["edge: T 20s to 5s".to_owned(), "core: removed".to_owned()],
        parent: 7,
        applied_now: 118,
    };
    let fleet = Fleet::start(State {
        revisions: vec![revision],
        ..State::default()
    });
    let run = fleetbeat(&fleet, &["tune", "history"]).must_exit(0);
    assert_eq!(
        run.out,
        "\
REV  MADE                  BY   LIVE  REASON                     CHANGES
  8  2026-11-30 15:42:35Z  ada   118  find dead gateways sooner  edge: T 20s to 5s
                                                                 core: removed
"
    );
    let shown = fleetbeat(&fleet, &["tune", "history", "-o", "json"]).json();
    assert_eq!(
        shown["revisions"][0],
        json!({"revision": 8, "parent": 7, "created_at": "2026-11-30T15:42:35.123456Z",
               "author": "ada", "reason": "find dead gateways sooner",
               "changes": ["edge: T 20s to 5s", "core: removed"], "applied_now": 118})
    );
}

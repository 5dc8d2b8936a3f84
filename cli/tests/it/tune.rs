use fleetbeat_proto::v1;
use serde_json::json;

use crate::fleet::{AT, Fleet, SECOND, State, tuning};
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

POLICY      FOR           T  N   W     D  PONG EVERY  ADAPTIVE  UNTIL
(built-in)  everybody   20s  3  2s  1m2s           1  off       -
fleet       everybody   20s  3  2s  1m2s           1  off       -
group-edge  group edge   5s  3  1s   16s           1  off       -
"
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
            "revision",
            "sources",
            "staged"
        ]
    );
    assert_eq!(shown["policies"][0]["group"], json!(null));
    assert_eq!(shown["policies"][1]["group"], "edge");
}

#[test]
fn only_what_is_said_is_sent_and_the_server_tells_what_moves() {
    let fleet = Fleet::start(edge(5));
    let args = "tune set -g edge --interval 10s --reason why --no-wait";
    let run = fleetbeat(&fleet, &args.split(' ').collect::<Vec<_>>()).must_exit(0);
    assert_eq!(
        run.out,
        "group-edge: another value\nin force: T 5s → 10s, N 3, W 1s, D 16s → 31s\n\
         revision 9 made, it goes to 0 live agents\n"
    );
    let request = fleet.state().sets[0].clone();
    let said = v1::Tuning {
        interval_ns: Some(10 * SECOND),
        ..v1::Tuning::default()
    };
    assert_eq!(request.tuning, Some(said));
    assert_eq!((request.expected_revision, request.force), (None, false));
    assert_eq!(request.reason, "why");
}

#[test]
fn the_fleet_is_named_to_be_changed() {
    let fleet = Fleet::start(edge(5));
    let args = "tune set --fleet --misses 4 --reason why --no-wait";
    fleetbeat(&fleet, &args.split(' ').collect::<Vec<_>>()).must_exit(0);
    let request = fleet.state().sets[0].clone();
    assert_eq!(request.selector, Some(v1::Selector::default()));
    assert_eq!(request.policy, "");
    let nobody = "tune set --misses 4 --reason why";
    let run = fleetbeat(&fleet, &nobody.split(' ').collect::<Vec<_>>()).must_exit(2);
    assert!(run.err.contains("--fleet"), "{run:?}");
}

#[test]
fn named_policy_has_labels_and_agents_and_an_end() {
    let agent = v1::Agent {
        agent_id: "0198a0b0-0000-7000-8000-000000000001".to_owned(),
        name: "web-1".to_owned(),
        ..v1::Agent::default()
    };
    let fleet = Fleet::start(State {
        details: Some(v1::GetAgentResponse {
            agent: Some(agent.clone()),
            ..v1::GetAgentResponse::default()
        }),
        ..edge(5)
    });
    let args = "tune set --policy hunt -g edge --label zone=b1,b2 --agent web-1 --interval 2s --for 2h \
                --force --reason why --no-wait";
    fleetbeat(&fleet, &args.split_whitespace().collect::<Vec<_>>()).must_exit(0);
    let request = fleet.state().sets[0].clone();
    let values = v1::LabelValues {
        values: vec!["b1".to_owned(), "b2".to_owned()],
    };
    assert_eq!(
        request.selector,
        Some(v1::Selector {
            group: Some("edge".to_owned()),
            agent_ids: vec![agent.agent_id],
            labels: [("zone".to_owned(), values)].into(),
        })
    );
    assert_eq!((request.policy.as_str(), request.force), ("hunt", true));
    assert_eq!(request.expires_in_ns, Some(7_200 * SECOND));
    let again = "tune set --policy hunt --interval 3s --reason why --no-wait";
    fleetbeat(&fleet, &again.split(' ').collect::<Vec<_>>()).must_exit(0);
    let request = fleet.state().sets[1].clone();
    assert_eq!((request.selector, request.expires_in_ns), (None, None));
}

#[test]
fn labels_and_agents_need_a_name_for_their_policy() {
    let fleet = Fleet::start(edge(5));
    for args in [
        "tune set --label zone=b1 --interval 2s --reason why",
        "tune set --agent web-1 --interval 2s --reason why",
    ] {
        let run = fleetbeat(&fleet, &args.split(' ').collect::<Vec<_>>()).must_exit(2);
        assert!(run.err.contains("--policy <NAME>"), "{run:?}");
    }
    assert_eq!(fleet.state().sets, []);
}

#[test]
fn exported_file_applies_back_without_a_change_and_pins_its_revision() {
    let fleet = Fleet::start(edge(5));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policies.toml");
    let file = path.to_str().unwrap();
    let exported = fleetbeat(&fleet, &["tune", "export"]).must_exit(0).out;
    std::fs::write(&path, &exported).unwrap();
    let same = fleetbeat(&fleet, &["tune", "diff", "-f", file]).must_exit(0);
    assert_eq!(same.out, "no revision made: that is already in force\n");
    let apply = ["tune", "apply", "-f", file, "-r", "why", "--no-wait"];
    fleetbeat(&fleet, &apply).must_exit(0);
    assert_eq!(fleet.state().applied[1].expected_revision, Some(8));

    std::fs::write(&path, exported.replace("\"5s\"", "\"6s\"")).unwrap();
    let differs = fleetbeat(&fleet, &["tune", "diff", "-f", file]).must_exit(1);
    assert!(
        differs.out.starts_with("group-edge: another value\n"),
        "{differs:?}"
    );
    let made = fleetbeat(&fleet, &apply).must_exit(0);
    assert!(
        made.out
            .ends_with("revision 9 made, it goes to 0 live agents\n"),
        "{made:?}"
    );
    // The file still says 8.
    let moved = fleetbeat(&fleet, &apply).must_exit(6);
    assert!(moved.err.contains("the newest revision is 9"), "{moved:?}");
    let exported = fleetbeat(&fleet, &["tune", "export", "--no-revision"]).must_exit(0);
    assert!(!exported.out.contains("revision ="), "{exported:?}");
}

#[test]
fn file_that_cannot_be_read_says_where_and_nothing_is_sent() {
    let fleet = Fleet::start(edge(5));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policies.toml");
    let file = path.to_str().unwrap();
    let apply = ["tune", "apply", "-f", file, "-r", "why"];
    let absent = fleetbeat(&fleet, &apply).must_exit(2);
    assert!(absent.err.contains("tune export"), "{absent:?}");
    std::fs::write(&path, "[[policy]]\nname = \"a\"\ninterwal = \"5s\"\n").unwrap();
    let wrong = fleetbeat(&fleet, &apply).must_exit(2);
    assert!(wrong.err.contains("line 3"), "{wrong:?}");
    std::fs::write(&path, "# nothing\n").unwrap();
    let empty = fleetbeat(&fleet, &apply).must_exit(2);
    assert!(empty.err.contains("--allow-empty"), "{empty:?}");
    assert_eq!(fleet.state().calls, [""; 0]);
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
        "group-edge: another value\nin force: T 5s → 10s, N 3, W 1s, D 16s → 31s\n\
         dry run: nothing is changed, it would go to 12 live agents\n"
    );
    assert_eq!(fleet.state().calls, ["set_tuning"]);
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
            .contains("in force: T 5s → 20s, N 3, W 1s → 2s, D 16s → 1m2s\n"),
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
        "group-edge: another value\n\
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
        drifting_now: 2,
    };
    let fleet = Fleet::start(State {
        revisions: vec![revision],
        ..State::default()
    });
    let run = fleetbeat(&fleet, &["tune", "history"]).must_exit(0);
    assert_eq!(
        run.out,
        "\
REV  MADE                  BY   LIVE  DRIFT  REASON                     CHANGES
  8  2026-11-30 15:42:35Z  ada   118      2  find dead gateways sooner  edge: T 20s to 5s
                                                                        core: removed
"
    );
    let shown = fleetbeat(&fleet, &["tune", "history", "-o", "json"]).json();
    assert_eq!(
        shown["revisions"][0],
        json!({"revision": 8, "parent": 7, "created_at": "2026-11-30T15:42:35.123456Z",
               "author": "ada", "reason": "find dead gateways sooner",
               "changes": ["edge: T 20s to 5s", "core: removed"], "applied_now": 118,
               "drifting_now": 2})
    );
}

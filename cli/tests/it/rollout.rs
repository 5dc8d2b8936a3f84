use fleetbeat_proto::v1;
use fleetbeat_proto::v1::rollout_phase::Size;
use serde_json::json;
use tonic::Status;

use crate::fleet::{AT, Fleet, State};
use crate::run::fleetbeat;

fn phase(percent: u32) -> v1::RolloutPhase {
    v1::RolloutPhase {
        size: Some(Size::Percent(percent)),
        soak_ns: Some(600_000_000_000),
    }
}

fn finding(guard: &str, answer: &str, sentence: &str) -> v1::RolloutFinding {
    v1::RolloutFinding {
        guard: guard.to_owned(),
        answer: answer.to_owned(),
        sentence: sentence.to_owned(),
    }
}

/// In its second phase, with one guard that is content and one that knows too little.
fn soaking() -> v1::Rollout {
    let side = |disconnects| v1::RolloutSide {
        members: 8,
        member_hours: 1.25,
        disconnects,
        reconnects: 0,
        rtt_p99_ns: Some(21_000_000),
    };
    v1::Rollout {
        rollout: 3,
        state: v1::RolloutState::Soaking.into(),
        author: "ann".to_owned(),
        reason: "find dead ones sooner".to_owned(),
        started_unix_us: AT,
        updated_unix_us: AT,
        phases: vec![phase(5), phase(25), phase(100)],
        phase: 1,
        soaked_ns: 150_000_000_000,
        looks_taken: 1,
        looks: 4,
        on_little: v1::OnLittle::Advance.into(),
        last_good: 7,
        revision: 9,
        changes: vec!["group-edge: T=20s N=3 W=2s → T=5s N=3 W=2s".to_owned()],
        cohort: Some(v1::RolloutCohort {
            waiting: 1,
            applied: 11,
            refused: 0,
            left: 0,
            rest: 30,
        }),
        candidate: Some(side(3)),
        compared: Some(side(0)),
        compared_with: "of the rest over the same time".to_owned(),
        findings: vec![
            finding("disconnects", "fine", "disconnects no worse"),
            finding(
                "rtt",
                "too_little",
                "little evidence of round trips (p99), it takes 900 members on each side",
            ),
        ],
        ..v1::Rollout::default()
    }
}

fn over(state: v1::RolloutState, outcome: &str) -> v1::Rollout {
    v1::Rollout {
        state: state.into(),
        outcome: outcome.to_owned(),
        ended_unix_us: Some(AT),
        ..soaking()
    }
}

fn fleet(rollouts: Vec<v1::Rollout>) -> Fleet {
    Fleet::start(State {
        rollouts,
        ..State::default()
    })
}

#[test]
fn the_page_shows_phases_members_and_each_guard_against_the_rest() {
    let fleet = fleet(vec![soaking()]);
    let run = fleetbeat(&fleet, &["tune", "rollout", "show"]).must_exit(0);
    let lines: Vec<_> = run.out.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "rollout 3: phase 2 of 3, soaking",
            "by:       ann at 2026-11-30 15:42:35Z, find dead ones sooner",
            "changes:  group-edge: T=20s N=3 W=2s → T=5s N=3 W=2s",
            "revision: 9, over the last good one 7",
            "",
            "PHASE  MEMBERS  SOAK                                  LOOKS",
            "    1  5%       [####################]  10m of 10m    4 of 4",
            "    2  25%      [#####...............]  2m30s of 10m  1 of 4",
            "    3  100%     [....................]  0s of 10m     0 of 4",
            "",
            "cohort:   12 members: 11 applied, 1 waiting",
            "rest:     30 members on the last good revision, by the push of this phase",
            "",
            "GUARD                    CANDIDATE               COMPARED  LAST LOOK",
            "disconnects   3 in 1.25 h (2.40/h)   0 in 1.25 h (0.00/h)  disconnects no worse",
            "reconnects    0 in 1.25 h (0.00/h)   0 in 1.25 h (0.00/h)  not yet",
            "rtt          p99 21ms of 8 members  p99 21ms of 8 members  little evidence of round trips (p99), it takes 900 members on each side",
            "refusals                   0 of 12                      -  not yet",
            "unacked                    1 of 12                      -  not yet",
            "compared with those of the rest over the same time",
        ]
    );
}

#[test]
fn the_page_for_programs_has_every_number() {
    let fleet = fleet(vec![soaking()]);
    let run = fleetbeat(&fleet, &["tune", "rollout", "show", "3", "-o", "json"]).must_exit(0);
    let shown = run.json();
    assert_eq!(shown["state"], "soaking");
    assert_eq!(
        (&shown["phase"], &shown["looks_taken"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        shown["phases"][1],
        json!({"percent": 25, "count": null, "soak_ns": 600_000_000_000_u64})
    );
    assert_eq!(
        shown["candidate"],
        json!({"members": 8, "member_hours": 1.25, "disconnects": 3, "reconnects": 0, "rtt_p99_ns": 21_000_000})
    );
    assert_eq!(shown["findings"][1]["answer"], "too_little");
    assert_eq!(
        (&shown["ended_at"], &shown["outcome"]),
        (&json!(null), &json!(null))
    );
    let absent = fleetbeat(&fleet, &["tune", "rollout", "show", "9"]).must_exit(5);
    assert!(absent.err.contains("rollout list"), "{}", absent.err);
}

#[test]
fn the_list_tells_how_each_ended() {
    let failed = over(v1::RolloutState::RolledBack, "rolled back: refusals 50.0 %");
    let fleet = fleet(vec![
        soaking(),
        v1::Rollout {
            rollout: 2,
            ..failed
        },
    ]);
    let run = fleetbeat(&fleet, &["tune", "rollout", "list"]).must_exit(0);
    let lines: Vec<_> = run.out.lines().map(str::trim_end).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[2].contains("rolled back") && lines[2].ends_with("rolled back: refusals 50.0 %"));
    let none = fleetbeat(&self::fleet(vec![]), &["tune", "rollout", "list"]).must_exit(0);
    assert_eq!(none.out, "no rollouts\n");
}

#[test]
fn a_watch_ends_with_0_only_when_the_rollout_completed() {
    let done = over(v1::RolloutState::Completed, "completed");
    let back = over(v1::RolloutState::RolledBack, "rolled back: disconnects");
    for (end, exit, said) in [
        (done, 0, "completed"),
        (back, 1, "rolled back"),
        (soaking(), 1, "watch it again"),
    ] {
        let fleet = fleet(vec![soaking(), end]);
        let run = fleetbeat(&fleet, &["tune", "rollout", "watch"]).must_exit(exit);
        assert!(
            run.err
                .contains("rollout 3: phase 2 of 3, soaking, look 1 of 4"),
            "{}",
            run.err
        );
        assert!(run.err.contains(said), "{}", run.err);
    }
}

#[test]
fn orders_go_with_their_reason_to_the_rollout_that_is_named_or_runs() {
    let fleet = fleet(vec![soaking()]);
    for (order, id) in [("pause", None), ("resume", Some("3")), ("abort", Some("3"))] {
        let args = ["tune", "rollout", order, "--reason", "lunch"];
        fleetbeat(&fleet, &[&args[..], id.as_slice()].concat()).must_exit(0);
    }
    fleetbeat(&fleet, &["tune", "rollout", "abort"]).must_exit(2);
    let state = fleet.state();
    assert_eq!(
        state.calls,
        ["pause_rollout", "resume_rollout", "abort_rollout"]
    );
    let told = |rollout| v1::OrderRolloutRequest {
        rollout,
        reason: "lunch".to_owned(),
    };
    assert_eq!(state.orders, [told(0), told(3), told(3)]);
}

fn set(more: &[&str]) -> Vec<String> {
    let args = [
        "tune",
        "set",
        "--group",
        "edge",
        "--misses",
        "4",
        "--reason",
        "x",
        "--no-wait",
    ];
    args.iter()
        .chain(more)
        .map(|arg| (*arg).to_owned())
        .collect()
}

#[test]
fn a_change_in_phases_says_its_sizes_soak_looks_and_guards() {
    let fleet = fleet(vec![]);
    let args = set(&[
        "--phases",
        "3,25%:30m,100%",
        "--soak",
        "5m",
        "--looks",
        "2",
        "--on-little",
        "pause",
        "--guard",
        "disconnects=2",
        "--guard",
        "ack=10s",
        "--supersede",
        "--again",
    ]);
    let run = fleetbeat(&fleet, &args).must_exit(0);
    assert!(
        run.err.contains("fleetbeat tune rollout watch 1"),
        "{}",
        run.err
    );
    assert!(run.out.contains("rollout 1 begins"), "{}", run.out);
    let request = fleet.state().sets[0].clone();
    assert!(request.supersede && request.again);
    let staging = request.staging.unwrap();
    let sizes: Vec<_> = staging
        .phases
        .iter()
        .map(|phase| (phase.size, phase.soak_ns))
        .collect();
    let half_an_hour = Some(1_800_000_000_000);
    assert_eq!(
        sizes,
        [
            (Some(Size::Count(3)), None),
            (Some(Size::Percent(25)), half_an_hour),
            (Some(Size::Percent(100)), None)
        ]
    );
    assert_eq!(
        (staging.soak_ns, staging.looks),
        (Some(300_000_000_000), Some(2))
    );
    assert_eq!(staging.on_little(), v1::OnLittle::Pause);
    let guards = staging.guards.unwrap();
    assert_eq!(guards.disconnects.unwrap().limit, Some(2.0));
    assert_eq!(
        (guards.ack_within_ns, guards.refused),
        (Some(10_000_000_000), None)
    );
    for wrong in [
        &["--soak", "5m"][..],
        &["--phases", "all"],
        &["--phases", "100%", "--looks", "0"],
    ] {
        fleetbeat(&fleet, &set(wrong)).must_exit(2);
    }
}

#[test]
fn a_change_for_everybody_at_once_asks_for_no_rollout() {
    let fleet = fleet(vec![]);
    fleetbeat(&fleet, &set(&[])).must_exit(0);
    let request = fleet.state().sets[0].clone();
    assert_eq!(
        (request.staging, request.supersede, request.again),
        (None, false, false)
    );
}

#[test]
fn a_rollout_in_the_way_is_a_conflict_that_says_where_to_look() {
    let fleet = Fleet::start(State {
        failure: Some(Status::failed_precondition(
            "rollout 3 is on its way (phase 1 of 2)",
        )),
        ..State::default()
    });
    let run = fleetbeat(&fleet, &set(&[])).must_exit(6);
    assert!(run.err.contains("rollout 3 is on its way"), "{}", run.err);
    assert!(
        run.err.contains("fleetbeat tune rollout show"),
        "{}",
        run.err
    );
}

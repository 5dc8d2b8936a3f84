//! The worked examples of both essays come out of the planner as they stand in the text. The ids are those
//! of its tests: V detection, M margins, B middleboxes, L load, K keepalive, R rounding.

use std::time::Duration;

use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::plan::{
    Backstop, Facts, Grade, Load, PlanError, checks, derive, detection,
};
use proptest::prelude::*;

use crate::given::tuning;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// How the check of this name comes out.
fn grade(tuning: Tuning, facts: &Facts, name: &str) -> Grade {
    let checks = checks(&tuning, facts);
    let check = checks.iter().find(|check| check.name == name);
    check.unwrap_or_else(|| panic!("no check {name}")).grade
}

fn reason(tuning: Tuning, facts: &Facts, name: &str) -> String {
    let checks = checks(&tuning, facts);
    let check = checks.into_iter().find(|check| check.name == name);
    check.unwrap_or_else(|| panic!("no check {name}")).reason
}

fn worked_example() -> Facts {
    Facts {
        detect: Some(secs(20)),
        rtt_p95: Some(millis(80)),
        rtt_p99: Some(millis(400)),
        ..Facts::default()
    }
}

/// V05, V06: essay 2 §3.2.
#[test]
fn the_worked_example_comes_out_as_it_stands() {
    let (derived, steps) = derive(secs(20), 2, &worked_example(), false).expect("it fits");
    assert_eq!(derived, tuning(8, 2, 2));
    assert_eq!(derived.deadline(), secs(18));
    let texts: Vec<_> = steps.iter().map(|step| step.text.as_str()).collect();
    assert!(texts[0].contains("3 * 400ms = 1.2s"), "{texts:?}");
    assert!(texts[1].contains("/ 2 = 9.000s"), "{texts:?}");
    assert!(texts[2].contains("= 18s at worst"), "{texts:?}");
    assert!(
        checks(&derived, &worked_example())
            .iter()
            .all(|check| check.grade != Grade::Failed)
    );
}

/// V07: a short round trip leaves the floor of a second.
#[test]
fn a_timeout_is_at_least_a_second_unless_finer_is_asked_for() {
    let facts = Facts {
        rtt_p95: Some(millis(80)),
        ..Facts::default()
    };
    let timeout = |misses, fine| {
        let derived = derive(secs(20), misses, &facts, fine).expect("it fits");
        derived.0.timeout()
    };
    assert_eq!(timeout(2, false), secs(1));
    assert_eq!(
        timeout(2, true),
        millis(600),
        "3 * 80 ms and room for a retransmission"
    );
    assert_eq!(timeout(1, true), secs(1), "one miss needs the whole second");
}

/// V03, V04, V06: N·T + W within what is tolerated.
#[test]
fn detection_is_compared_with_what_is_tolerated() {
    let facts = |detect| Facts {
        detect: Some(secs(detect)),
        ..Facts::default()
    };
    for (given, tolerated) in [
        (tuning(10, 2, 5), 30),
        (tuning(5, 3, 3), 30),
        (tuning(8, 2, 2), 20),
    ] {
        assert_eq!(grade(given, &facts(tolerated), "detection"), Grade::Good);
    }
    assert_eq!(
        grade(tuning(10, 2, 5), &facts(24), "detection"),
        Grade::Failed
    );
}

/// V09, V10: equal at worst, and half of T apart on average.
#[test]
fn the_mean_detection_is_half_of_t_less_than_the_worst() {
    assert_eq!(detection(&tuning(5, 3, 3)), (secs(18), millis(15_500)));
    assert_eq!(detection(&tuning(8, 2, 2)), (secs(18), secs(14)));
}

/// V11: 5 s where 20 s would do costs four times as much.
#[test]
fn heartbeats_that_nobody_needs_are_called_a_waste() {
    let facts = Facts {
        detect: Some(secs(60)),
        ..Facts::default()
    };
    assert_eq!(grade(tuning(5, 3, 1), &facts, "waste"), Grade::Warning);
    let told = reason(tuning(5, 3, 1), &facts, "waste");
    assert!(told.contains("3.9 times"), "{told}");
    assert_eq!(grade(tuning(19, 3, 2), &facts, "waste"), Grade::Good);
}

/// V12: half an hour of zombies fails for the middleboxes alone.
#[test]
fn a_t_of_minutes_fails() {
    assert_eq!(
        grade(tuning(300, 6, 2), &Facts::default(), "idle_timeout"),
        Grade::Failed
    );
}

/// M01, M02, M03: T covers ten round trips, and exactly ten is too little to be calm about.
#[test]
fn the_interval_covers_ten_round_trips() {
    let facts = |p99| Facts {
        rtt_p99: Some(millis(p99)),
        ..Facts::default()
    };
    assert_eq!(
        grade(tuning(20, 3, 2), &facts(200), "rtt_margin"),
        Grade::Good
    );
    let told = reason(tuning(20, 3, 2), &facts(200), "rtt_margin");
    assert!(told.contains("100.0 times"), "{told}");
    let told = reason(tuning(8, 2, 2), &facts(400), "rtt_margin");
    assert!(told.contains("20.0 times"), "{told}");
    assert_eq!(
        grade(tuning(20, 3, 2), &facts(2_000), "rtt_margin"),
        Grade::Warning
    );
    assert_eq!(
        grade(tuning(20, 3, 2), &facts(2_001), "rtt_margin"),
        Grade::Failed
    );
}

/// M04, M05: a pause of a tenth of T is just covered; a longer one needs N = 4 or a longer T.
#[test]
fn a_known_pause_is_covered_by_n_or_t() {
    let facts = |pause| Facts {
        pause: Some(secs(pause)),
        ..Facts::default()
    };
    assert_eq!(grade(tuning(20, 3, 2), &facts(1), "pause"), Grade::Good);
    assert_eq!(grade(tuning(20, 3, 2), &facts(2), "pause"), Grade::Warning);
    assert_eq!(grade(tuning(20, 3, 2), &facts(5), "pause"), Grade::Failed);
    let told = reason(tuning(20, 3, 2), &facts(5), "pause");
    assert!(told.contains("set it to 4, or T to 50s"), "{told}");
    assert_eq!(grade(tuning(20, 4, 2), &facts(5), "pause"), Grade::Good);
    assert_eq!(grade(tuning(50, 3, 2), &facts(5), "pause"), Grade::Warning);
}

/// B01, B02, B03, B04, B05, B07.
#[test]
fn t_is_compared_with_the_smallest_idle_time_out() {
    let declared = Facts {
        idle_timeouts: vec![secs(900), secs(300)],
        ..Facts::default()
    };
    assert_eq!(
        grade(tuning(30, 3, 2), &declared, "idle_timeout"),
        Grade::Good
    );
    assert_eq!(
        grade(tuning(60, 3, 2), &declared, "idle_timeout"),
        Grade::Good
    );
    assert_eq!(
        grade(tuning(100, 3, 2), &declared, "idle_timeout"),
        Grade::Warning
    );
    let told = reason(tuning(100, 3, 2), &declared, "idle_timeout");
    assert!(told.contains("60s is good"), "{told}");
    assert_eq!(
        grade(tuning(101, 3, 2), &declared, "idle_timeout"),
        Grade::Failed
    );
    let unknown = Facts::default();
    assert_eq!(
        grade(tuning(8, 2, 2), &unknown, "idle_timeout"),
        Grade::Good
    );
    assert_eq!(
        grade(tuning(290, 3, 2), &unknown, "idle_timeout"),
        Grade::Failed
    );
    let told = reason(tuning(290, 3, 2), &unknown, "idle_timeout");
    assert!(told.contains("ask for every middlebox"), "{told}");
    let (logs, _) = derive(secs(1_800), 3, &unknown, false).expect("it fits");
    assert_eq!(grade(logs, &unknown, "idle_timeout"), Grade::Failed);
}

/// The server is the quieter side of a lease.
#[test]
fn a_lease_is_compared_by_what_the_server_sends() {
    let lease = Tuning::new(secs(20), 3, secs(2), 10).expect("within the bounds");
    assert_eq!(
        grade(lease, &Facts::default(), "idle_timeout"),
        Grade::Failed
    );
}

/// R01: odd and broken seconds are as good as round ones.
#[test]
fn no_value_fails_for_its_roundness() {
    for interval in [millis(7_000), millis(13_000), millis(8_500)] {
        let given = Tuning::new(interval, 3, secs(2), 1).expect("within the bounds");
        let checks = checks(&given, &Facts::default());
        assert!(
            checks.iter().all(|check| check.grade != Grade::Failed),
            "{checks:?}"
        );
    }
}

/// V04, V09, V10, L02, L04, L05, L06.
#[test]
fn the_load_is_that_of_the_examples() {
    let close = |is: f64, should: f64| assert!((is - should).abs() < 0.5, "{is} is not {should}");
    let load = Load::of(&tuning(8, 2, 2), 50_000, 32);
    close(load.beats_per_second, 6_250.0);
    close(load.expected_beats_per_second, 6_579.0);
    close(load.messages_per_second, 12_500.0);
    close(load.bytes_per_second, 400_000.0);
    let beats = |interval, agents| Load::of(&tuning(interval, 3, 2), agents, 32).beats_per_second;
    close(beats(5, 30_000), 6_000.0);
    close(beats(8, 30_000), 3_750.0);
    close(beats(20, 100_000), 5_000.0);
    close(beats(5, 30_000) / beats(10, 30_000), 2.0);
    let lease = Tuning::new(secs(8), 2, secs(2), 4).expect("within the bounds");
    close(Load::of(&lease, 50_000, 32).messages_per_second, 7_812.5);
}

/// K01, K02, K03, K04: the sum, not the product; later than D, and never in normal running.
#[test]
fn keepalive_is_a_backstop_behind_the_heartbeats() {
    let facts = |idle, interval, probes| Facts {
        keepalive: Some(Backstop {
            idle: secs(idle),
            interval: secs(interval),
            probes,
        }),
        ..Facts::default()
    };
    let (usual, slow) = (tuning(20, 3, 2), tuning(180, 3, 2));
    assert_eq!(grade(usual, &facts(120, 30, 3), "keepalive"), Grade::Good);
    let told = reason(usual, &facts(120, 30, 3), "keepalive");
    assert!(told.contains("= 210s"), "{told}");
    let told = reason(usual, &facts(7_200, 75, 9), "keepalive");
    assert!(told.contains("= 7875s"), "{told}");
    assert_eq!(grade(usual, &facts(60, 75, 9), "keepalive"), Grade::Warning);
    let told = reason(usual, &facts(60, 75, 9), "keepalive");
    assert!(told.contains("= 735s"), "{told}");
    assert_eq!(grade(slow, &facts(120, 30, 3), "keepalive"), Grade::Failed);
    assert_eq!(grade(usual, &facts(30, 5, 3), "keepalive"), Grade::Failed);
}

#[test]
fn what_cannot_be_had_says_what_could() {
    let refusal = derive(secs(2), 3, &Facts::default(), false).expect_err("too soon");
    let PlanError::TooSoon { least, .. } = refusal else {
        panic!("{refusal}");
    };
    assert!(
        derive(least, 3, &Facts::default(), false).is_ok(),
        "{least:?}"
    );
    let absurd = Facts {
        rtt_p99: Some(Duration::ZERO),
        ..Facts::default()
    };
    let refusal = derive(secs(20), 3, &absurd, false).expect_err("no round trip takes no time");
    assert!(refusal.to_string().contains("1 ms to 24 h"), "{refusal}");
    assert!(derive(secs(20), 0, &Facts::default(), false).is_err());
    assert!(derive(secs(20), 21, &Facts::default(), false).is_err());
}

proptest! {
    /// What is derived keeps what was tolerated, and leaves room for the round trip.
    #[test]
    fn a_derived_tuning_finds_the_dead_in_time(
        detect in 1_u64..7_200,
        misses in 1_u32..=20,
        p99 in 1_u64..5_000,
        fine: bool,
    ) {
        let facts = Facts {
            detect: Some(secs(detect)),
            rtt_p99: Some(millis(p99)),
            ..Facts::default()
        };
        match derive(secs(detect), misses, &facts, fine) {
            Ok((derived, _)) => {
                prop_assert!(derived.deadline() <= secs(detect));
                prop_assert!(derived.timeout() >= millis(3 * p99));
                prop_assert_eq!(derived.misses(), misses);
            }
            Err(PlanError::TooSoon { least, .. }) => prop_assert!(least > secs(detect)),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

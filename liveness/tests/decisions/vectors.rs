//! The numbers of both essays as tables, one row per vector and column: those that no other test of this
//! crate goes through. Units are seconds unless a name says otherwise.

use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::plan::{Facts, Grade, Load, checks, derive, detection};
use fleetbeat_liveness::preset::Preset;

use crate::given::{millis, secs, tuning};

/// V01, V02, V11, V12 and the table of essay 1 §4.1, whose D is N·T: the product's own lies W above it.
#[test]
fn deadline_without_w_is_the_one_of_the_first_essay() {
    for (id, interval, misses, essay) in [
        ("V01", 20, 3, 60),
        ("V02", 20, 3, 60),
        ("V11, wide", 20, 3, 60),
        ("V11, tight", 5, 3, 15),
        ("V12", 300, 6, 1_800),
    ] {
        let given = tuning(interval, misses, 2);
        assert_eq!(given.deadline(), secs(essay) + given.timeout(), "{id}");
        assert_eq!(secs(essay) / misses, given.interval(), "{id}");
    }
    for name in [
        "mobile-messaging",
        "web",
        "device-gateway",
        "trading",
        "internal-probe",
    ] {
        let preset = Preset::named(name).expect(name);
        let (given, essay) = (preset.tuning(), preset.essay_deadline().expect(name));
        assert_eq!(given.interval() * given.misses(), essay, "{name}");
    }
}

/// V03, V04, V06, V09, V10: N·T + W at worst, half of T less on average, against the budget of the text.
#[test]
fn worst_and_mean_detection_are_those_of_the_second_essay() {
    for (id, (interval, misses, timeout), worst, mean_ms, budget) in [
        ("V03", (10, 2, 5), 25, 20_000, 30),
        ("V04", (5, 3, 3), 18, 15_500, 30),
        ("V06", (8, 2, 2), 18, 14_000, 20),
        ("V09", (5, 3, 3), 18, 15_500, 20),
        ("V10", (8, 2, 2), 18, 14_000, 20),
    ] {
        let given = tuning(interval, misses, timeout);
        assert_eq!(detection(&given), (secs(worst), millis(mean_ms)), "{id}");
        assert!(given.deadline() <= secs(budget), "{id}");
    }
}

/// V05, V07 and the rules of essay 2 §3.2: three round trips, a second at least, up to whole seconds.
#[test]
fn timeout_is_three_round_trips_rounded_up() {
    for (p95, p99, timeout) in [
        (Some(80), None, 1),
        (Some(80), Some(400), 2),
        (None, Some(333), 1),
        (None, Some(334), 2),
        (None, Some(1_000), 3),
        (None, Some(1_001), 4),
    ] {
        let facts = Facts {
            rtt_p95: p95.map(millis),
            rtt_p99: p99.map(millis),
            ..Facts::default()
        };
        let (derived, _) = derive(secs(60), 2, &facts, false).expect("it fits");
        assert_eq!(derived.timeout(), secs(timeout), "P95 {p95:?}, P99 {p99:?}");
    }
}

/// V05 and the rule of essay 2 §3.2 in the reading that gives its 8: `floor((D − W) / (1.1·N))`.
#[test]
fn interval_is_what_is_left_with_a_tenth_of_margin_rounded_down() {
    for (detect, misses, p99_ms, interval, timeout) in [
        (20, 2, 400, 8, 2),
        (60, 3, 100, 17, 1),
        (62, 3, 400, 18, 2),
        (30, 2, 100, 13, 1),
        (1_800, 3, 100, 545, 1),
    ] {
        let facts = Facts {
            rtt_p99: Some(millis(p99_ms)),
            ..Facts::default()
        };
        let (derived, _) = derive(secs(detect), misses, &facts, false).expect("it fits");
        assert_eq!(derived, tuning(interval, misses, timeout), "D {detect}");
    }
}

/// V08: both ends wait for the same 18 s; there is no sweep whose period would come on top.
#[test]
fn both_ends_of_the_gateway_wait_equally_long() {
    let expected = tuning(8, 2, 2).expectation();
    assert_eq!(expected.offline_after, secs(18));
    assert_eq!(expected.server_dead_after, secs(18));
    assert_eq!(expected.reverse_gap, secs(8));
    assert_eq!(expected.suspect_after, secs(10));
}

/// V14: what essay 1 §3.2 calls usual is where the built-in tuning lies.
#[test]
fn the_built_in_tuning_is_a_usual_one() {
    let built_in = Tuning::default();
    assert!((secs(20)..=secs(30)).contains(&built_in.interval()));
    assert!((2..=3).contains(&built_in.misses()));
}

/// V13, L01, L02, L03, L04, L05: what a fleet costs, and each log line, metric or span per beat once more.
#[test]
fn load_of_each_example_is_told() {
    let close = |id: &str, is: f64, should: f64| {
        assert!(
            (is / should - 1.0).abs() < 1e-3,
            "{id}: {is} is not {should}"
        );
    };
    for (id, agents, servers, interval, nominal, expected) in [
        ("V13", 20_000, 1, 3, 6_667.0, 7_018.0),
        ("V13, calmer", 20_000, 1, 20, 1_000.0, 1_053.0),
        ("L01, L02, L03", 200_000, 4, 8, 6_250.0, 6_579.0),
        ("L04", 100_000, 1, 20, 5_000.0, 5_263.0),
        ("L05", 200_000, 1, 8, 25_000.0, 26_316.0),
    ] {
        let load = Load::of(&tuning(interval, 2, 2), agents / servers, 32);
        close(id, load.beats_per_second, nominal);
        close(id, load.expected_beats_per_second, expected);
        close(id, load.messages_per_second, 2.0 * nominal);
        close(id, load.bytes_per_second / 32.0, load.messages_per_second);
    }
}

/// B01, B03, B06: a third of what the path forgets is the most, a fifth is calm; undeclared is the shortest
/// of the usual ones.
#[test]
fn interval_is_graded_by_each_usual_idle_time_out() {
    let grade = |interval, idle: Option<u64>| {
        let facts = Facts {
            idle_timeouts: idle.map(secs).into_iter().collect(),
            ..Facts::default()
        };
        let checks = checks(&tuning(interval, 3, 2), &facts);
        let check = checks.iter().find(|check| check.name == "idle_timeout");
        check.expect("it is always checked").grade
    };
    for (idle, calm, most) in [(300, 60, 100), (900, 180, 300), (3_600, 720, 1_200)] {
        for (interval, graded) in [
            (calm, Grade::Good),
            (calm + 1, Grade::Warning),
            (most, Grade::Warning),
            (most + 1, Grade::Failed),
        ] {
            assert_eq!(grade(interval, Some(idle)), graded, "{interval} of {idle}");
        }
    }
    for interval in [60, 61, 100, 101] {
        assert_eq!(grade(interval, None), grade(interval, Some(300)));
    }
}

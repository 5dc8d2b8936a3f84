use std::time::Duration;

use fleetbeat_liveness::tuning::{SILENCE_MOST, TuningError};
use fleetbeat_liveness::{Expectation, Tuning};
use proptest::prelude::*;

use crate::given::{adaptive, any_tuning, millis, secs, tuning};

fn refusal(interval: Duration, misses: u32, timeout: Duration, pong_every: u32) -> TuningError {
    Tuning::new(interval, misses, timeout, pong_every).expect_err("out of bounds")
}

/// A12: the timeout leaves room for one retransmission, and for more when nothing else does.
#[test]
fn every_broken_bound_is_named_with_what_to_do() {
    let cases = [
        (
            refusal(millis(199), 3, secs(2), 1),
            "interval 199ms is too short, raise it to at least 200ms",
        ),
        (
            refusal(secs(3601), 3, secs(2), 1),
            "interval 3601s is too long, lower it to at most 3600s",
        ),
        (
            refusal(Duration::ZERO, 3, secs(2), 1),
            "interval 0ns is too short",
        ),
        (
            refusal(secs(20), 0, secs(2), 1),
            "misses 0 is too small, raise it to at least 1",
        ),
        (
            refusal(secs(20), 21, secs(2), 1),
            "misses 21 is too large, lower it to at most 20",
        ),
        (
            refusal(secs(20), 3, millis(299), 1),
            "timeout 299ms is too short for one retransmission",
        ),
        (
            refusal(secs(20), 1, millis(999), 1),
            "timeout 999ms is too short when misses is 1",
        ),
        (
            refusal(secs(20), 3, secs(21), 1),
            "timeout 21s is longer than interval 20s",
        ),
        (
            refusal(secs(20), 3, secs(2), 0),
            "pong_every 0 is too small, raise it to at least 1",
        ),
        (
            refusal(secs(20), 3, secs(2), 11),
            "pong_every 11 is too large, lower it to at most 10",
        ),
        (
            refusal(secs(361), 3, secs(2), 10),
            "pong_every times interval is 3610s",
        ),
    ];
    for (error, message) in cases {
        assert!(
            error.to_string().starts_with(message),
            "{error} does not begin with {message}"
        );
    }
}

#[test]
fn an_error_carries_the_value_given_and_the_bound() {
    let (given, least) = (millis(199), millis(200));
    assert_eq!(
        refusal(given, 3, secs(2), 1),
        TuningError::IntervalTooShort { given, least }
    );
    let (given, most) = (secs(21), secs(20));
    assert_eq!(
        refusal(most, 3, given, 1),
        TuningError::TimeoutTooLong { given, most }
    );
}

#[test]
fn the_bounds_themselves_are_allowed() {
    for (interval, misses, timeout, pong_every) in [
        (millis(300), 2, millis(300), 1),
        (secs(3600), 20, secs(3600), 1),
        (secs(1), 1, secs(1), 1),
        (secs(360), 20, secs(360), 10),
    ] {
        assert!(Tuning::new(interval, misses, timeout, pong_every).is_ok());
    }
}

/// A10: the deadlines of both directions.
#[test]
fn a_tuning_compiles_to_what_each_side_expects() {
    let lease = Tuning::new(secs(20), 3, secs(2), 10).expect("within the bounds");
    let expected = Expectation {
        interval: secs(20),
        suspect_after: secs(22),
        offline_after: secs(62),
        offline_at_most: secs(62),
        answer_within: secs(2),
        beatless_after: secs(62),
        reverse_gap: secs(200),
        server_dead_after: secs(602),
        server_dead_at_most: secs(602),
        kernel_gives_up_after: secs(64),
        look_back: secs(40),
    };
    assert_eq!(lease.expectation(), expected);
    assert_eq!(Tuning::default().deadline(), secs(62));
    assert_eq!(Tuning::default().expectation().server_dead_after, secs(62));
}

/// A9, S16: a busy agent may put its PING off to 2·T, and is not beatless before that.
#[test]
fn a_busy_agent_owes_a_ping_every_two_intervals() {
    assert_eq!(tuning(60, 1, 5).expectation().beatless_after, secs(125));
    assert_eq!(tuning(20, 3, 2).expectation().beatless_after, secs(62));
}

/// A11: adaptive mode stretches what is tolerated up to twice the deadline, and no other component.
#[test]
fn adaptive_mode_changes_only_how_long_patience_may_last() {
    let (fixed, adaptive) = (tuning(20, 3, 2), adaptive(20, 3, 2));
    let expected = Expectation {
        offline_at_most: secs(124),
        server_dead_at_most: secs(124),
        kernel_gives_up_after: secs(126),
        ..fixed.expectation()
    };
    assert_eq!(adaptive.expectation(), expected);
    assert_ne!(adaptive, fixed);
    assert_eq!(adaptive.with_adaptive(false), Ok(fixed));
}

/// A10, A11: it needs the round trip of each heartbeat, and silence stays within a day.
#[test]
fn adaptive_mode_is_refused_where_it_cannot_work() {
    let lease = Tuning::new(secs(20), 3, secs(2), 5).expect("within the bounds");
    let refusal = lease.with_adaptive(true).expect_err("a lease").to_string();
    assert!(refusal.contains("set pong_every to 1"), "{refusal}");
    assert_eq!(lease.with_adaptive(false), Ok(lease));
    let patient = tuning(3_600, 12, 2).with_adaptive(true);
    let refusal = patient.expect_err("over a day").to_string();
    assert!(refusal.contains("lower interval or misses"), "{refusal}");
    assert!(tuning(3_600, 11, 2).with_adaptive(true).is_ok());
}

#[test]
fn one_miss_leaves_no_time_for_suspicion() {
    let expectation = tuning(60, 1, 5).expectation();
    assert_eq!(expectation.suspect_after, expectation.offline_after);
}

/// C1: neither of the two is the more tolerant one.
#[test]
fn the_maximum_takes_each_component_from_whoever_tolerates_more() {
    let both = tuning(60, 1, 5)
        .expectation()
        .component_max(tuning(20, 5, 2).expectation());
    assert_eq!(
        (both.suspect_after, both.offline_after),
        (secs(65), secs(102))
    );
}

#[test]
fn a_tuning_prints_as_operators_write_it() {
    assert_eq!(Tuning::default().to_string(), "T=20s N=3 W=2s");
    let lease = Tuning::new(millis(500), 20, millis(300), 10).expect("within the bounds");
    assert_eq!(lease.to_string(), "T=500ms N=20 W=300ms pong_every=10");
    assert_eq!(adaptive(20, 3, 2).to_string(), "T=20s N=3 W=2s adaptive");
}

/// Values made with Python's hashlib from the description in types.proto.
#[test]
fn the_hash_is_the_one_of_the_contract() {
    assert_eq!(Tuning::default().hash(), 0x7095_ab0c_d6b4_1424);
    let lease = Tuning::new(millis(500), 20, millis(300), 10).expect("within the bounds");
    assert_eq!(lease.hash(), 0x00b3_0214_d330_bee3);
    assert_eq!(adaptive(20, 3, 2).hash(), 0x69ee_b3da_4be1_572b);
}

/// The contract's bounds, once more, without overflow and without order.
fn allowed(interval: u64, misses: u32, timeout: u64, pong_every: u32) -> bool {
    let (t, n) = (u128::from(interval), u128::from(misses));
    let (w, k) = (u128::from(timeout), u128::from(pong_every));
    let ms = 1_000_000;
    let hour = 3_600_000 * ms;
    (200 * ms..=hour).contains(&t)
        && (1..=20).contains(&n)
        && (300 * ms..=t).contains(&w)
        && (n > 1 || w >= 1_000 * ms)
        && (1..=10).contains(&k)
        && k * t <= hour
        && n * t + w <= 24 * hour
        && n * k * t + w <= 24 * hour
}

fn any_nanos() -> impl Strategy<Value = u64> {
    let near = prop::sample::select(vec![
        200_000_000,
        300_000_000,
        1_000_000_000,
        360_000_000_000,
        3_600_000_000_000,
        u64::MAX - 1,
    ]);
    prop_oneof![
        any::<u64>(),
        0..5_000_000_000_000_u64,
        (near, 0..3_u64).prop_map(|(n, d)| n - 1 + d)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn exactly_the_tunings_of_the_contract_are_accepted(
        interval in any_nanos(),
        misses in prop_oneof![0..23_u32, any::<u32>()],
        timeout in any_nanos(),
        pong_every in prop_oneof![0..13_u32, any::<u32>()],
    ) {
        let made = Tuning::new(
            Duration::from_nanos(interval), misses, Duration::from_nanos(timeout), pong_every,
        );
        prop_assert_eq!(made.is_ok(), allowed(interval, misses, timeout, pong_every));
    }

    /// C1: whoever runs either of the two is tolerated, in every component and by no more than needed.
    #[test]
    fn the_maximum_tolerates_exactly_either(one in any_tuning(), other in any_tuning()) {
        let components = |it: Expectation| [
            it.suspect_after,
            it.offline_after,
            it.offline_at_most,
            it.answer_within,
            it.beatless_after,
            it.reverse_gap,
            it.server_dead_after,
            it.server_dead_at_most,
            it.kernel_gives_up_after,
        ];
        let (one, other) = (one.expectation(), other.expectation());
        let both = components(one.component_max(other));
        for (both, (one, other)) in both.iter().zip(components(one).iter().zip(components(other))) {
            prop_assert_eq!(*both, (*one).max(other));
        }
    }

    #[test]
    fn suspicion_never_comes_after_the_deadline(tuning in any_tuning()) {
        let expectation = tuning.expectation();
        prop_assert!(expectation.suspect_after <= expectation.offline_after);
        prop_assert!(expectation.offline_after <= expectation.offline_at_most);
        prop_assert!(expectation.offline_at_most < expectation.kernel_gives_up_after);
        prop_assert!(expectation.server_dead_at_most <= SILENCE_MOST);
        prop_assert!(expectation.offline_after <= expectation.server_dead_after);
    }
}

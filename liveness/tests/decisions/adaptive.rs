use std::time::Duration;

use fleetbeat_liveness::adaptive::{Pace, SERVER_LAG_MOST, server_dead_after};
use fleetbeat_liveness::tuning::INTERVAL_LEAST;
use fleetbeat_liveness::verdict::{Next, next};
use fleetbeat_liveness::{Limits, Tuning};
use proptest::prelude::*;

use crate::given::{adaptive, any_tuning, at, millis, secs, tuning};

const NO_LAG: Duration = Duration::ZERO;

/// D = 60 s, as the vectors have it.
fn sixty() -> Tuning {
    adaptive(19, 3, 3)
}

fn limits(tuning: Tuning, p95: u64) -> Limits {
    Limits::of_agent(&tuning.expectation(), Some(secs(p95)))
}

/// A pace after this many equal round trips.
fn calm(tuning: &Tuning, trips: usize) -> Pace {
    let mut pace = Pace::new(tuning);
    for _ in 0..trips {
        pace.answered(Some(millis(50)), NO_LAG, tuning);
    }
    pace
}

/// A pace whose window has M = 50 ms and this P: nearest rank, so the 19th of 20.
fn with_p95(p95: Duration, tuning: &Tuning) -> Pace {
    let mut pace = calm(tuning, 18);
    pace.answered(Some(p95), NO_LAG, tuning);
    pace.answered(Some(p95), NO_LAG, tuning);
    pace
}

/// Vectors A01, A02, A03 with the bound of the design.
#[test]
fn the_first_lapse_follows_four_p95_between_one_and_two_deadlines() {
    for (p95, first) in [(10, 60), (15, 60), (20, 80), (40, 120)] {
        assert_eq!(limits(sixty(), p95).check_after, secs(first), "P = {p95} s");
    }
}

/// Hard case A11: `min(J + max(W, 4·P), 2·D)`.
#[test]
fn the_second_lapse_waits_for_an_answer_and_ends_at_two_deadlines() {
    for (p95, second) in [(0, 63), (1, 64), (10, 100), (14, 116), (20, 120), (40, 120)] {
        assert_eq!(
            limits(sixty(), p95).offline_after,
            secs(second),
            "P = {p95} s"
        );
    }
    assert_eq!(
        Limits::of_agent(&sixty().expectation(), None).offline_after,
        secs(63)
    );
}

/// Vectors A06, A07: one lapse asks, the second convicts.
#[test]
fn one_lapse_asks_and_two_convict() {
    let limits = limits(sixty(), 10);
    let judge = |now| next(at(now), at(0), &limits, None);
    assert_eq!(judge(21), Next::Wait { until: at(22) });
    assert_eq!(judge(59), Next::Suspect { next: at(60) });
    assert_eq!(judge(60), Next::Check { next: at(100) });
    assert_eq!(judge(99), Next::Check { next: at(100) });
    assert_eq!(judge(100), Next::Convict);
}

/// Hard case A2: a grace outlasts the second lapse, the question is asked all the same.
#[test]
fn a_grace_delays_the_second_lapse_only() {
    let limits = limits(sixty(), 10);
    let judge = |now| next(at(now), at(0), &limits, Some(at(130)));
    assert_eq!(judge(60), Next::Check { next: at(130) });
    assert_eq!(judge(129), Next::Check { next: at(130) });
    assert_eq!(judge(130), Next::Convict);
}

#[test]
fn a_fixed_tuning_lapses_once_whatever_the_round_trips() {
    for p95 in [0, 10, 40] {
        let limits = limits(tuning(19, 3, 3), p95);
        assert_eq!(
            (limits.check_after, limits.offline_after),
            (secs(60), secs(60))
        );
        assert_eq!(next(at(60), at(0), &limits, None), Next::Convict);
    }
}

/// Vectors A04, A05: strictly greater than 3·M, and the threshold stays.
#[test]
fn growing_round_trips_halve_the_interval_and_lower_no_deadline() {
    let tuning = adaptive(20, 3, 2);
    assert_eq!(with_p95(millis(151), &tuning).interval(), secs(10));
    assert_eq!(with_p95(millis(150), &tuning).interval(), secs(20));
    let p95 = with_p95(millis(151), &tuning).p95();
    let halved = Limits::of_agent(&tuning.expectation(), p95);
    assert_eq!(halved.check_after, tuning.deadline());
}

#[test]
fn fewer_than_twenty_round_trips_halve_nothing() {
    let tuning = adaptive(20, 3, 2);
    let mut pace = calm(&tuning, 17);
    pace.answered(Some(secs(1)), NO_LAG, &tuning);
    assert_eq!(pace.answered(Some(secs(1)), NO_LAG, &tuning), secs(20));
    assert_eq!(pace.answered(Some(secs(1)), NO_LAG, &tuning), secs(10));
}

#[test]
fn a_fixed_tuning_never_halves() {
    let tuning = tuning(20, 3, 2);
    assert_eq!(with_p95(secs(1), &tuning).interval(), secs(20));
}

/// A11: never below 200 ms, 2·W and 10·P99.
#[test]
fn the_halved_interval_keeps_its_margins() {
    for (t, n, w, p95, halved) in [
        (400, 3, 300, 200, 400),
        (4_000, 3, 1_500, 200, 3_000),
        (20_000, 3, 2_000, 1_500, 15_000),
        (20_000, 3, 2_000, 3_000, 20_000),
        (20_000, 3, 2_000, 900, 10_000),
    ] {
        let tuning = Tuning::new(millis(t), n, millis(w), 1)
            .and_then(|tuning| tuning.with_adaptive(true))
            .expect("within the bounds");
        let interval = with_p95(millis(p95), &tuning).interval();
        assert_eq!(interval, millis(halved), "T = {t} ms, P = {p95} ms");
    }
}

/// A11: a slow server makes everybody's round trips grow; nobody answers that with more load.
#[test]
fn a_lagging_server_is_relieved_at_once_and_its_answers_are_no_samples() {
    let tuning = adaptive(20, 3, 2);
    let lagging = SERVER_LAG_MOST + Duration::from_nanos(1);
    let mut pace = calm(&tuning, 20);
    for _ in 0..20 {
        assert_eq!(pace.answered(Some(secs(1)), lagging, &tuning), secs(20));
    }
    assert_eq!(pace.p95(), Some(millis(50)));

    let mut halved = with_p95(secs(1), &tuning);
    assert_eq!(halved.interval(), secs(10));
    assert_eq!(halved.answered(Some(secs(1)), lagging, &tuning), secs(20));
    assert_eq!(
        halved.answered(Some(secs(1)), SERVER_LAG_MOST, &tuning),
        secs(10)
    );
}

/// Essay 1 §5.3: back to T exponentially and slowly, once the window shows calm.
#[test]
fn the_interval_returns_by_a_tenth_with_each_calm_answer() {
    let tuning = adaptive(20, 3, 2);
    let mut pace = with_p95(millis(500), &tuning);
    let mut held = 0;
    while pace.answered(Some(millis(50)), NO_LAG, &tuning) == secs(10) {
        held += 1;
    }
    assert_eq!(
        held, 18,
        "until one of the two slow round trips has left the window"
    );
    let mut grown = vec![pace.interval()];
    while pace.interval() < secs(20) {
        grown.push(pace.answered(Some(millis(50)), NO_LAG, &tuning));
    }
    assert_eq!(grown.first(), Some(&secs(11)));
    assert_eq!(grown.len(), 8);
    assert!(grown.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_retune_starts_from_its_own_interval_and_keeps_the_round_trips() {
    let mut pace = with_p95(millis(500), &adaptive(20, 3, 2));
    let retuned = adaptive(8, 3, 2);
    pace.retuned(&retuned);
    assert_eq!(pace.interval(), secs(8));
    assert_eq!(pace.answered(Some(millis(50)), NO_LAG, &retuned), secs(5));
}

/// Vector A08: round trips go from 50 ms to several seconds (lift, metro, garage); the path then says
/// nothing for a while. Fixed thresholds convict, adaptive ones do not.
#[test]
fn an_agent_in_a_lift_is_not_convicted() {
    let (fixed, adaptive) = (tuning(3, 3, 1), adaptive(3, 3, 1));
    let mut pace = calm(&adaptive, 12);
    for _ in 0..8 {
        pace.answered(Some(secs(4)), NO_LAG, &adaptive);
    }
    let silence = at(14);
    let judge = |tuning: Tuning| {
        let limits = Limits::of_agent(&tuning.expectation(), pace.p95());
        next(silence, at(0), &limits, None)
    };
    assert_eq!(judge(fixed), Next::Convict);
    assert_eq!(judge(adaptive), Next::Suspect { next: at(16) });
    assert_eq!(
        server_dead_after(&fixed.expectation(), pace.p95()),
        secs(10)
    );
    assert_eq!(
        server_dead_after(&adaptive.expectation(), pace.p95()),
        secs(20)
    );
}

fn any_trip() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..100_000_000_u64).prop_map(Duration::from_nanos),
        (0..100_000_000_000_u64).prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_nanos),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A11, A13: never before D, never after 2·D, and a longer P never shortens patience.
    #[test]
    fn patience_lies_between_one_and_two_deadlines_and_grows_with_the_round_trips(
        tuning in any_tuning(),
        one in prop::option::of(any_trip()),
        more in any_trip(),
    ) {
        let expectation = tuning.expectation();
        let limits = Limits::of_agent(&expectation, one);
        prop_assert!(tuning.deadline() <= limits.check_after);
        prop_assert!(limits.check_after <= limits.offline_after);
        prop_assert!(limits.offline_after <= tuning.deadline_at_most());
        let slower = Limits::of_agent(&expectation, Some(one.unwrap_or_default().saturating_add(more)));
        prop_assert!(limits.check_after <= slower.check_after);
        prop_assert!(limits.offline_after <= slower.offline_after);
        let server = server_dead_after(&expectation, one);
        prop_assert!(expectation.server_dead_after <= server);
        prop_assert!(server <= expectation.server_dead_at_most);
    }

    /// C1: while it is not known which of two tunings runs, nobody is convicted that either tolerates.
    #[test]
    fn both_candidates_of_a_retune_are_tolerated(
        one in any_tuning(),
        other in any_tuning(),
        p95 in prop::option::of(any_trip()),
    ) {
        let (one, other) = (one.expectation(), other.expectation());
        let both = Limits::of_agent(&one.component_max(other), p95);
        for candidate in [one, other] {
            let alone = Limits::of_agent(&candidate, p95);
            prop_assert!(both.suspect_after >= alone.suspect_after);
            prop_assert!(both.check_after >= alone.check_after);
            prop_assert!(both.offline_after >= alone.offline_after);
        }
    }

    /// A11: whatever the round trips, no agent beats more often than the margins allow, none less often
    /// than T, and none more often than T while the server lags.
    #[test]
    fn the_pace_stays_within_its_margins_and_a_lagging_server_never_gets_more_load(
        tuning in any_tuning(),
        answers in prop::collection::vec((prop::option::of(any_trip()), 0..300_u64), 1..80),
    ) {
        let mut pace = Pace::new(&tuning);
        for (trip, lag) in answers {
            let lag = millis(lag);
            let interval = pace.answered(trip, lag, &tuning);
            prop_assert_eq!(interval, pace.interval());
            prop_assert!(interval <= tuning.interval());
            prop_assert!(interval >= tuning.interval() / 2);
            if interval < tuning.interval() {
                prop_assert!(tuning.adaptive());
                prop_assert!(interval >= INTERVAL_LEAST);
                prop_assert!(interval >= tuning.timeout() * 2);
            }
            if lag > SERVER_LAG_MOST {
                prop_assert_eq!(interval, tuning.interval());
            }
        }
    }

    /// A11: answers of a lagging server leave no trace: once it is well, agents beat as if it had been
    /// silent instead.
    #[test]
    fn what_a_lagging_server_answered_is_forgotten(
        calm in prop::collection::vec(any_trip(), 20..40),
        lagging in prop::collection::vec(any_trip(), 1..40),
    ) {
        let tuning = adaptive(20, 3, 2);
        let mut pace = Pace::new(&tuning);
        for trip in calm {
            pace.answered(Some(trip), NO_LAG, &tuning);
        }
        let before = pace.p95();
        for trip in lagging {
            pace.answered(Some(trip), SERVER_LAG_MOST * 2, &tuning);
        }
        prop_assert_eq!(pace.p95(), before);
    }
}

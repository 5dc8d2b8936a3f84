//! What-if against plain draws.

use std::time::Duration;

use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::whatif::{Estimate, Facts, Range, Replay, Silence, conviction, replay};
use proptest::prelude::*;
use rand::RngExt;

use crate::given::{adaptive, any_tuning, dice, millis, secs, tuning};

fn silence(ended_at: u64, gap: u64, lateness: Option<u64>) -> Silence {
    Silence {
        ended_at: secs(ended_at),
        gap: secs(gap),
        interval: secs(20),
        lateness: lateness.map(secs),
    }
}

fn facts(silences: &[Silence]) -> Facts<'_> {
    Facts {
        silences,
        deaths: 0,
        agent_days: 700.0,
        floor: secs(22),
        members: 100,
        frame_bytes: 38,
    }
}

fn known(replay: &Replay) -> Range {
    let Estimate::Known(range) = replay.false_disconnects_per_day else {
        panic!("expected a range, got {replay:?}")
    };
    range
}

/// What a person would do: draw the outage and the phase, look whether it reaches the deadline.
fn drawn(silence: &Silence, tuning: &Tuning) -> f64 {
    let mut rng = dice(7);
    let least = silence
        .lateness
        .unwrap_or(silence.gap.saturating_sub(silence.interval));
    let (least, most) = (
        least.min(silence.gap).as_secs_f64(),
        silence.gap.as_secs_f64(),
    );
    let reached = (0..4_000).filter(|_| {
        let outage = least + (most - least) * rng.random::<f64>();
        let phase = tuning.interval().as_secs_f64() * rng.random::<f64>();
        outage + phase >= tuning.deadline_at_most().as_secs_f64()
    });
    let reached = u32::try_from(reached.count()).expect("small");
    f64::from(reached) / 4_000.0
}

proptest! {
    #[test]
    fn chance_of_a_conviction_is_that_of_drawing_outage_and_phase(
        gap_ms in 300_u64..600_000,
        late in prop::option::of(0.0..1.2_f64),
        interval_ms in 200_u64..120_000,
        tuning in any_tuning(),
    ) {
        let gap = millis(gap_ms);
        let silence = Silence {
            ended_at: Duration::ZERO,
            gap,
            interval: millis(interval_ms),
            lateness: late.map(|share| gap.mul_f64(share)),
        };
        let (told, drawn) = (conviction(&silence, &tuning), drawn(&silence, &tuning));
        // Four deviations of 4,000 draws.
        prop_assert!((told - drawn).abs() < 0.032, "{told} against {drawn}");
    }

    /// A more patient tuning of the same T convicts no more.
    #[test]
    fn patience_never_costs_a_disconnect(gap in 1_u64..600, misses in 1_u32..19) {
        let silence = silence(0, gap, None);
        let patient = conviction(&silence, &tuning(20, misses + 1, 2));
        prop_assert!(patient <= conviction(&silence, &tuning(20, misses, 2)) + 1e-12);
    }
}

/// Hard case E4 (1): a gap of 25 s at T = 20 s may be an outage of 5 s.
#[test]
fn silence_is_an_outage_and_a_phase() {
    let (short, late) = (silence(0, 25, None), silence(0, 25, Some(25)));
    // D = 17 s, T = 5 s: outages of 12 s and more can reach it, of 17 s and more do.
    let candidate = tuning(5, 3, 2);
    assert!((conviction(&short, &candidate) - 0.525).abs() < 1e-9);
    assert!((conviction(&late, &candidate) - 1.0).abs() < 1e-9);
}

/// Hard case E4 (2): what was not recorded is not said.
#[test]
fn below_what_was_recorded_nothing_is_said() {
    let silences = [silence(0, 30, None)];
    let below = replay(&facts(&silences), &tuning(5, 3, 2));
    assert_eq!(
        below.false_disconnects_per_day,
        Estimate::BelowRecorded {
            deadline: secs(17),
            floor: secs(22)
        }
    );
    // D = 32 s is above the floor, and outages of 17 s could reach it: not all of them were recorded.
    let partly = replay(&facts(&silences), &tuning(15, 2, 2)).false_disconnects_per_day;
    assert!(matches!(partly, Estimate::AtLeast(_)), "{partly:?}");
    let above = replay(&facts(&silences), &tuning(20, 3, 2)).false_disconnects_per_day;
    assert!(matches!(above, Estimate::Known(_)), "{above:?}");
}

#[test]
fn short_watch_is_too_little() {
    let short = Facts {
        agent_days: 0.5,
        ..facts(&[])
    };
    let told = replay(&short, &tuning(20, 3, 2)).false_disconnects_per_day;
    assert_eq!(
        told,
        Estimate::TooLittle {
            has: 0.5,
            needs: 1.0
        }
    );
}

/// Without an event the upper bound is 3.69 (Garwood 1936) over the watched time.
#[test]
fn no_silence_is_no_proof() {
    let range = known(&replay(&facts(&[]), &tuning(20, 3, 2)));
    assert!(range.low.abs() < 1e-12 && range.expected.abs() < 1e-12);
    assert!((range.high - 3.689 / 7.0).abs() < 1e-3, "{range:?}");
}

/// Ten lone disconnects in 7 days of 100 agents: Garwood's 4.795 to 18.39.
#[test]
fn lone_silences_have_the_exact_interval_of_a_poisson_count() {
    let silences: Vec<_> = (0..10).map(|n| silence(n * 3_600, 500, None)).collect();
    let told = replay(&facts(&silences), &tuning(20, 3, 2));
    let range = known(&told);
    assert_eq!((told.silences, told.events), (10, 10));
    for (got, expected) in [
        (range.low, 4.795),
        (range.expected, 10.0),
        (range.high, 18.39),
    ] {
        assert!((got * 7.0 - expected).abs() < 5e-3, "{range:?}");
    }
}

/// One outage that silenced a hundred agents is one event, not a hundred.
#[test]
fn silences_that_end_together_are_one_event() {
    let together: Vec<_> = (0..100).map(|n| silence(n % 30, 500, None)).collect();
    let apart: Vec<_> = (0..100).map(|n| silence(n * 3_600, 500, None)).collect();
    let (one, many) = (
        replay(&facts(&together), &tuning(20, 3, 2)),
        replay(&facts(&apart), &tuning(20, 3, 2)),
    );
    assert_eq!((one.events, many.events), (1, 100));
    let (one, many) = (known(&one), known(&many));
    assert!((one.expected - many.expected).abs() < 1e-9);
    assert!(
        one.high > 4.0 * many.high && one.low < many.low / 10.0,
        "{one:?} {many:?}"
    );
}

/// A range that is told as 95 % holds the truth about so often.
#[test]
fn ranges_hold_the_truth_as_often_as_they_say() {
    let mut rng = dice(3);
    let candidate = tuning(20, 3, 2);
    let truth = 12.0_f64;
    let mut held = 0;
    for _ in 0..400 {
        // Ends of a Poisson process over 7 days, each a sure conviction.
        let (mut at, mut silences) = (0.0, Vec::new());
        loop {
            at -= (1.0 - rng.random::<f64>()).ln() * 7.0 * 86_400.0 / truth;
            if at > 7.0 * 86_400.0 {
                break;
            }
            let ended_at = Duration::from_secs_f64(at);
            silences.push(Silence {
                ended_at,
                ..silence(0, 500, None)
            });
        }
        let range = known(&replay(&facts(&silences), &candidate));
        held += u32::from(range.low * 7.0 <= truth && truth <= range.high * 7.0);
    }
    assert!(held >= 372, "{held} of 400");
}

#[test]
fn detection_is_the_deadline_less_the_phase_and_needs_a_death() {
    let none = replay(&facts(&[]), &tuning(20, 3, 2));
    assert_eq!((none.detection, none.deaths), (None, 0));
    let deaths = |tuning: &Tuning, deaths| {
        replay(
            &Facts {
                deaths,
                ..facts(&[])
            },
            tuning,
        )
        .detection
        .expect("deaths")
    };
    let few = deaths(&tuning(20, 3, 2), 4);
    let many = deaths(&tuning(20, 3, 2), 4_000);
    for told in [few, many] {
        assert!((told.p50.expected - 52.0).abs() < 1e-9, "{told:?}");
        assert!((told.p99.expected - 61.8).abs() < 1e-9, "{told:?}");
        assert!(told.p99.high <= 62.0 && told.p50.low >= 42.0, "{told:?}");
    }
    assert!(few.p50.high - few.p50.low > 10.0 * (many.p50.high - many.p50.low));
    let patient = deaths(&adaptive(20, 3, 2), 4_000);
    assert!((patient.p99.high - 124.0).abs() < 0.2, "{patient:?}");
}

#[test]
fn load_goes_from_every_t_to_nine_tenths_of_it() {
    let told = replay(&facts(&[]), &tuning(20, 3, 2));
    let beats = told.beats_per_second;
    assert!((beats.low - 5.0).abs() < 1e-9 && (beats.high - 5.0 / 0.9).abs() < 1e-9);
    assert!((told.bytes_per_day.low - 5.0 * 2.0 * 38.0 * 86_400.0).abs() < 1e-3);
}

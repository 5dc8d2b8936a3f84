use std::time::Duration;

use fleetbeat_liveness::verdict::{Next, next};
use fleetbeat_liveness::{Limits, Moment, Tuning};
use proptest::prelude::*;

use crate::given::{any_tuning, at, tuning};

/// Without round trips.
fn limits(tuning: Tuning) -> Limits {
    Limits::of_agent(&tuning.expectation(), None)
}

const NANO: Duration = Duration::from_nanos(1);

/// A5: what also happens to an agent whose session ended; the deadline counts from its last message.
#[test]
fn silence_becomes_suspicion_and_then_conviction() {
    let limits = limits(Tuning::default());
    let judge = |now| next(now, at(100), &limits, None);
    assert_eq!(judge(at(100)), Next::Wait { until: at(122) });
    assert_eq!(judge(at(122).before(NANO)), Next::Wait { until: at(122) });
    assert_eq!(judge(at(122)), Next::Suspect { next: at(162) });
    assert_eq!(judge(at(162).before(NANO)), Next::Suspect { next: at(162) });
    assert_eq!(judge(at(162)), Next::Convict);
}

/// A12: with one miss there is no suspect.
#[test]
fn one_miss_convicts_without_suspicion() {
    let limits = limits(tuning(60, 1, 5));
    assert_eq!(
        next(at(64), at(0), &limits, None),
        Next::Wait { until: at(65) }
    );
    assert_eq!(next(at(65), at(0), &limits, None), Next::Convict);
}

/// A2: inside the grace nobody is convicted, and suspicion is told all the same.
#[test]
fn a_grace_delays_conviction_only() {
    let limits = limits(Tuning::default());
    let judge = |now, grace| next(now, at(0), &limits, Some(grace));
    assert_eq!(judge(at(21), at(90)), Next::Wait { until: at(22) });
    assert_eq!(judge(at(22), at(90)), Next::Suspect { next: at(90) });
    assert_eq!(judge(at(89), at(90)), Next::Suspect { next: at(90) });
    assert_eq!(judge(at(90), at(90)), Next::Convict);
    assert_eq!(judge(at(62), at(30)), Next::Convict);
}

#[test]
fn a_message_heard_after_the_clock_was_read_is_fresh() {
    let limits = limits(Tuning::default());
    assert_eq!(
        next(at(5), at(6), &limits, None),
        Next::Wait { until: at(28) }
    );
}

proptest! {
    #[test]
    fn whoever_looks_again_when_told_convicts_neither_early_nor_late(
        tuning in any_tuning(),
        heard in 0..u64::MAX / 4,
        grace in prop::option::of(0..u64::MAX / 2),
        p95 in prop::option::of((0..u64::MAX / 8).prop_map(Duration::from_nanos)),
    ) {
        let limits = Limits::of_agent(&tuning.expectation(), p95);
        let heard = Moment::from_nanos(heard);
        let grace = grace.map(Moment::from_nanos);
        let convict_at = (heard + limits.offline_after).max(grace.unwrap_or_default());
        let mut now = heard;
        for _ in 0..4 {
            match next(now, heard, &limits, grace) {
                Next::Wait { until } => {
                    prop_assert!(now < until && until <= convict_at);
                    now = until;
                }
                Next::Suspect { next } => {
                    prop_assert!(now.since(heard) >= tuning.interval() + tuning.timeout());
                    prop_assert!(now < next);
                    now = next;
                }
                Next::Check { next } => {
                    prop_assert!(now.since(heard) >= limits.check_after);
                    prop_assert!(limits.check_after >= tuning.deadline());
                    prop_assert!(now < next);
                    now = next;
                }
                Next::Convict => break,
            }
        }
        prop_assert_eq!(next(now, heard, &limits, grace), Next::Convict);
        prop_assert_eq!(now, convict_at);
    }
}

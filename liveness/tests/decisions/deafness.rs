use std::time::Duration;

use fleetbeat_liveness::deafness::Deafness;
use proptest::prelude::*;

use crate::given::{at, at_millis, millis, secs};

#[test]
fn up_to_a_second_of_lateness_is_no_stall() {
    let mut deafness = Deafness::new();
    assert_eq!(deafness.observe(at(11), at(10)), None);
    assert_eq!(deafness.observe(at(9), at(10)), None);
    assert_eq!((deafness.stalls(), deafness.grace_until()), (0, None));
}

/// A2: 20 s of stall are followed by 20 s of grace, an hour by one minute.
#[test]
fn a_stall_is_followed_by_a_grace_of_its_length_up_to_a_minute() {
    let mut deafness = Deafness::new();
    assert_eq!(deafness.observe(at(30), at(10)), Some(secs(20)));
    assert_eq!(deafness.grace_until(), Some(at(50)));
    assert_eq!(deafness.observe(at(3700), at(100)), Some(secs(3600)));
    assert_eq!(deafness.grace_until(), Some(at(3760)));
    assert_eq!((deafness.stalls(), deafness.stalled()), (2, secs(3620)));
}

#[test]
fn a_short_stall_does_not_cut_the_grace_of_a_long_one() {
    let mut deafness = Deafness::new();
    deafness.observe(at(30), at(10));
    deafness.observe(at(33), at(31));
    assert_eq!(deafness.grace_until(), Some(at(50)));
}

/// A2: only those who were live when it began.
#[test]
fn a_session_that_opened_after_a_stall_began_gets_no_grace_for_it() {
    let mut deafness = Deafness::new();
    deafness.observe(at(30), at(10));
    deafness.observe(at(33), at(31));
    assert_eq!(deafness.grace_for(at(10)), Some(at(50)));
    assert_eq!(deafness.grace_for(at(31)), Some(at(35)));
    assert_eq!(deafness.grace_for(at(32)), None);
}

/// A2: a hold of verdicts that ends is deafness as well, also when a stall lies inside it.
#[test]
fn a_hold_that_spans_a_stall_has_the_grace_of_its_whole_length_and_is_counted_once() {
    let mut deafness = Deafness::new();
    deafness.observe(at(12), at(10));
    assert_eq!(deafness.deaf(at(5), at(30)), Some(secs(25)));
    assert_eq!(
        (deafness.stalled(), deafness.grace_until()),
        (secs(25), Some(at(55)))
    );
    let minute = deafness.last_minute(at(40));
    assert_eq!(
        (minute.stalls, minute.stalled, minute.held),
        (2, secs(25), secs(35))
    );
}

/// A2: over 10 % of the last minute is an alert that verdicts are late.
#[test]
fn stalls_and_graces_of_over_a_tenth_of_the_last_minute_are_alarming() {
    let mut deafness = Deafness::new();
    deafness.observe(at(103), at(100));
    assert!(!deafness.last_minute(at(106)).alarming());
    deafness.observe(at_millis(110_001), at_millis(109_000));
    let minute = deafness.last_minute(at(115));
    assert_eq!(
        (minute.stalls, minute.stalled, minute.held),
        (2, millis(4_001), millis(8_002))
    );
    assert!(minute.alarming());
    assert_eq!(
        deafness.last_minute(at(172)),
        deafness.last_minute(at(1000))
    );
    assert!(!deafness.last_minute(at(172)).alarming());
}

/// Whether a moment lies in one of the spans, asked for every tenth of a second.
fn sampled(spans: &[(u64, u64)], now: u64) -> Duration {
    let covered = |tick: &u64| spans.iter().any(|(from, to)| from <= tick && tick < to);
    millis(100)
        * u32::try_from((now.saturating_sub(600)..now).filter(covered).count()).expect("600")
}

proptest! {
    /// Spans in tenths of a second.
    #[test]
    fn figures_of_the_last_minute_count_no_time_twice(
        stalls in prop::collection::vec((1..100_u64, 11..300_u64, 0..50_u64), 0..12),
        after in 0..900_u64,
    ) {
        let tenths = |tenths: u64| at_millis(tenths * 100);
        let mut deafness = Deafness::new();
        let (mut now, mut spans, mut graces) = (0, Vec::new(), Vec::new());
        for (pause, length, overlap) in stalls {
            let ended = now + pause + length;
            let began = (ended - length).saturating_sub(overlap);
            now = ended;
            deafness.deaf(tenths(began), tenths(ended));
            spans.push((began, ended));
            graces.push((began, ended + (ended - began).min(600)));
        }
        let now = now + after;
        let minute = deafness.last_minute(tenths(now));
        prop_assert_eq!(minute.stalled, sampled(&spans, now));
        prop_assert_eq!(minute.held, sampled(&graces, now));
    }
}

use std::time::Duration;

use fleetbeat_liveness::rtt::{SAMPLES, Window};
use proptest::prelude::*;

use crate::given::millis;

#[test]
fn an_empty_window_knows_nothing() {
    let window = Window::new();
    assert_eq!(
        (window.median(), window.p95(), window.last()),
        (None, None, None)
    );
    assert!(window.is_empty());
}

#[test]
fn of_twenty_samples_p95_is_the_nineteenth() {
    let mut window = Window::new();
    (1..=20).for_each(|sample| window.push(millis(sample)));
    assert_eq!(window.p95(), Some(millis(19)));
    assert_eq!(window.median(), Some(millis(10)));
}

/// The smallest sample that at least `percent` of all do not exceed.
fn exact(samples: &[u64], percent: usize) -> Option<Duration> {
    let enough = |limit: &&u64| {
        samples.iter().filter(|sample| *sample <= *limit).count() * 100 >= samples.len() * percent
    };
    samples
        .iter()
        .filter(enough)
        .min()
        .copied()
        .map(Duration::from_nanos)
}

proptest! {
    #[test]
    fn percentiles_are_those_of_the_last_samples(
        samples in prop::collection::vec(any::<u64>(), 1..70),
    ) {
        let mut window = Window::new();
        for (index, sample) in samples.iter().enumerate() {
            window.push(Duration::from_nanos(*sample));
            let kept = &samples[(index + 1).saturating_sub(SAMPLES)..=index];
            prop_assert_eq!(window.len(), kept.len());
            prop_assert_eq!(window.last(), Some(Duration::from_nanos(*sample)));
            let newest: Vec<Duration> = window.newest(3).collect();
            let last = kept.iter().rev().take(3).copied().map(Duration::from_nanos);
            prop_assert_eq!(newest, last.collect::<Vec<_>>());
            prop_assert_eq!(window.median(), exact(kept, 50));
            prop_assert_eq!(window.p95(), exact(kept, 95));
        }
    }
}

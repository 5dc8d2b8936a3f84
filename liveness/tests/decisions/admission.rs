use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleetbeat_liveness::admission::{Admission, Entry};
use proptest::prelude::*;

use crate::given::{at, at_millis, dice, millis};

/// All of `agents` knock at once and then whenever they were told; returns admissions by second.
fn storm(agents: u64, per_s: u64) -> BTreeMap<u64, u64> {
    let (mut admission, mut rng) = (Admission::new(per_s), dice(7));
    let mut knocks: BTreeSet<(u64, u64)> = (0..agents).map(|n| (0, n)).collect();
    let mut admitted = BTreeMap::new();
    while let Some((micros, agent)) = knocks.pop_first() {
        let now = at(0) + Duration::from_micros(micros);
        match admission.ask(now) {
            Entry::Admitted => *admitted.entry(micros / 1_000_000).or_default() += 1,
            Entry::Later(earliest, latest) => {
                let nanos = |by: Duration| u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
                let wait = rand::RngExt::random_range(&mut rng, nanos(earliest)..=nanos(latest));
                knocks.insert((micros + wait, agent));
            }
        }
    }
    admitted
}

/// S27, D12: 20,000 that return at once come in at the rate, none is sent away for ever, and hardly a second
/// is wasted.
#[test]
fn a_storm_is_taken_in_at_the_rate() {
    let admitted = storm(20_000, 1_000);
    assert_eq!(admitted.values().sum::<u64>(), 20_000);
    let most = admitted.values().max().copied().unwrap_or_default();
    assert!(
        most <= 2_000,
        "a second's worth at once, then the rate: {most}"
    );
    let last = admitted.keys().last().copied().unwrap_or_default();
    assert!((19..30).contains(&last), "all are back after {last} s");
}

#[test]
fn a_quiet_server_takes_a_seconds_worth_at_once() {
    let mut admission = Admission::new(100);
    let now = at(0);
    let at_once = (0..200).filter(|_| admission.ask(now) == Entry::Admitted);
    assert_eq!(at_once.count(), 100);
    let Entry::Later(earliest, latest) = admission.ask(now) else {
        panic!("the bucket is empty")
    };
    assert_eq!((earliest, latest), (millis(1_010), millis(2_010)));
    assert_eq!(admission.ask(at(1)), Entry::Admitted);
}

proptest! {
    /// Whatever knocks, in no time are more let in than its rate and one second's worth.
    #[test]
    fn no_schedule_lets_in_more_than_the_rate(
        per_s in 1_u64..2_000,
        gaps in proptest::collection::vec(0_u64..50, 1..400),
    ) {
        let mut admission = Admission::new(per_s);
        let (mut now, mut admitted) = (60_000, Vec::new());
        for gap in gaps {
            now += gap;
            match admission.ask(at_millis(now)) {
                Entry::Admitted => admitted.push(now),
                Entry::Later(earliest, latest) => {
                    prop_assert!(earliest < latest);
                    prop_assert!(latest <= Duration::from_mins(11));
                }
            }
        }
        for (index, first) in admitted.iter().enumerate() {
            for (count, last) in (1_u64..).zip(&admitted[index..]) {
                let most = per_s + (last - first) * per_s / 1_000 + 1;
                prop_assert!(count <= most, "{count} in {} ms at {per_s}/s", last - first);
            }
        }
    }
}

use fleetbeat_liveness::histogram::{BUCKETS, bounds, bucket, quantile, value};
use proptest::prelude::*;

const MICROSECOND: u64 = 1_000;
const HUNDRED_SECONDS: u64 = 100_000_000_000;

#[test]
fn buckets_tile_all_values_without_gap() {
    let mut next = 0;
    for index in 0..BUCKETS {
        let (low, high) = bounds(index);
        assert_eq!(low, next, "bucket {index}");
        assert_eq!((bucket(low), bucket(high)), (index, index));
        next = high.wrapping_add(1);
    }
    assert_eq!(next, 0, "the last bucket ends at the largest value");
}

#[test]
fn an_index_beyond_the_last_bucket_means_the_last() {
    assert_eq!(bounds(BUCKETS), bounds(BUCKETS - 1));
    assert_eq!(value(usize::MAX), value(BUCKETS - 1));
}

#[test]
fn nothing_counted_has_no_quantile() {
    assert_eq!(quantile(&[], 0.5), None);
    assert_eq!(quantile(&[0; BUCKETS], 0.5), None);
    assert_eq!(quantile(&[1], f64::NAN), None);
}

#[test]
fn huge_counts_do_not_overflow() {
    let mut counts = vec![0; BUCKETS];
    counts[bucket(MICROSECOND)] = u64::MAX;
    counts[bucket(HUNDRED_SECONDS)] = u64::MAX;
    assert_eq!(quantile(&counts, 0.25), Some(value(bucket(MICROSECOND))));
    assert_eq!(
        quantile(&counts, 0.75),
        Some(value(bucket(HUNDRED_SECONDS)))
    );
}

/// Values of every order of magnitude from 1 µs to 100 s.
fn any_delay() -> impl Strategy<Value = u64> {
    let octave = 0..27_u32;
    (octave, any::<u64>()).prop_map(|(octave, within)| {
        let low = MICROSECOND << octave;
        (low + within % low).min(HUNDRED_SECONDS)
    })
}

fn off_by_at_most_5_percent(stated: u64, exact: u64) -> bool {
    u128::from(stated.abs_diff(exact)) * 100 <= u128::from(exact) * 5
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_value_lies_in_its_bucket(ns in any::<u64>(), shift in 0..64_u32) {
        let ns = ns >> shift;
        let (low, high) = bounds(bucket(ns));
        prop_assert!(low <= ns && ns <= high);
    }

    #[test]
    fn quantiles_are_within_5_percent_of_the_exact_ones(
        mut delays in prop::collection::vec(any_delay(), 1..200),
        percent in 0..=100_usize,
    ) {
        let mut counts = vec![0; BUCKETS];
        for ns in &delays {
            counts[bucket(*ns)] += 1;
        }
        delays.sort_unstable();
        let rank = (delays.len() * percent).div_ceil(100).max(1);
        #[expect(clippy::cast_precision_loss, reason = "percent is at most 100")]
        let stated = quantile(&counts, percent as f64 / 100.0).expect("something was counted");
        // q·total may round up to the next rank.
        let near = [delays[rank - 1], delays[rank.min(delays.len() - 1)]];
        prop_assert!(near.iter().any(|exact| off_by_at_most_5_percent(stated, *exact)));
    }
}

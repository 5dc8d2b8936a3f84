//! Log-linear buckets for round trips and delays.
//!
//! Every octave (power of two) is cut into 16 equal buckets, so a bucket is at most 1/16 of its lower
//! bound wide and its middle is at most 3.2 % away from any value in it. 28 octaves reach from 512 ns to
//! 137 s; one bucket lies below them and one above. Counts of many histograms merge by addition, which
//! percentiles never do.

use std::num::NonZeroU64;

/// Buckets per octave, as a power of two.
const CUT_BITS: u32 = 4;
const CUTS: usize = 1 << CUT_BITS;
/// The lowest octave begins at 2^9 ns, the highest ends at 2^37 ns.
const LOWEST: u32 = 9;
const HIGHEST: u32 = 37;
const OCTAVES: usize = (HIGHEST - LOWEST) as usize;

/// How many buckets there are: 450.
pub const BUCKETS: usize = OCTAVES * CUTS + 2;

/// Index of the bucket of a value in nanoseconds, below [`BUCKETS`].
#[must_use]
pub fn bucket(ns: u64) -> usize {
    let Some(octave) = NonZeroU64::new(ns)
        .map(NonZeroU64::ilog2)
        .filter(|o| *o >= LOWEST)
    else {
        return 0;
    };
    if octave >= HIGHEST {
        return BUCKETS - 1;
    }
    // The leading bit counts as CUTS: one octave further is exactly CUTS buckets further.
    let cut = usize::try_from(ns >> (octave - CUT_BITS)).unwrap_or(usize::MAX) - CUTS;
    1 + (octave - LOWEST) as usize * CUTS + cut
}

/// Lowest and highest value in nanoseconds that fall into a bucket, both included. An index of
/// [`BUCKETS`] or more means the last bucket.
#[must_use]
pub fn bounds(bucket: usize) -> (u64, u64) {
    let Some(index) = bucket.checked_sub(1) else {
        return (0, (1 << LOWEST) - 1);
    };
    if index >= OCTAVES * CUTS {
        return (1 << HIGHEST, u64::MAX);
    }
    let shift = LOWEST - CUT_BITS + u32::try_from(index / CUTS).unwrap_or(u32::MAX);
    let low = ((index % CUTS + CUTS) as u64) << shift;
    (low, low + (1 << shift) - 1)
}

/// What stands for every value of a bucket, in nanoseconds: its middle; the lower bound of the last.
#[must_use]
pub fn value(bucket: usize) -> u64 {
    let (low, high) = bounds(bucket);
    if high == u64::MAX {
        low
    } else {
        low + (high - low) / 2
    }
}

/// The `q`-quantile (nearest rank, `q` from 0 to 1) in nanoseconds, as the value of its bucket. `counts`
/// may be shorter than [`BUCKETS`]. `None` when it counts nothing or `q` is not a number.
#[must_use]
pub fn quantile(counts: &[u64], q: f64) -> Option<u64> {
    let total: u128 = counts.iter().copied().map(u128::from).sum();
    if total == 0 || q.is_nan() {
        return None;
    }
    let rank = rank(total, q.clamp(0.0, 1.0));
    let mut below = 0;
    for (bucket, count) in counts.iter().enumerate() {
        below += u128::from(*count);
        if below >= rank {
            return Some(value(bucket));
        }
    }
    None
}

/// 1 … total.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank off by 2^-53 of the total moves no percentile that is looked at; q is 0 to 1"
)]
fn rank(total: u128, q: f64) -> u128 {
    ((total as f64 * q).ceil() as u128).clamp(1, total)
}

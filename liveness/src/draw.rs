//! Uniform draws of durations.

use std::time::Duration;

use rand::{Rng, RngExt};

use crate::moment::nanos;

/// Uniform over [least, most], to the nanosecond. `least` when the bounds are reversed.
pub(crate) fn between(least: Duration, most: Duration, rng: &mut impl Rng) -> Duration {
    let (least, most) = (nanos(least), nanos(most));
    Duration::from_nanos(rng.random_range(least..=most.max(least)))
}

/// Uniform over [0, end), to the nanosecond; zero when `end` is zero.
pub(crate) fn below(end: Duration, rng: &mut impl Rng) -> Duration {
    Duration::from_nanos(rng.random_range(0..nanos(end).max(1)))
}

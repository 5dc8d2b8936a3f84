//! What the tests start from.

use std::time::Duration;

use fleetbeat_liveness::tuning::{
    INTERVAL_MOST, MISSES_MOST, PONG_EVERY_MOST, REVERSE_GAP_MOST, TIMEOUT_LEAST,
    TIMEOUT_LEAST_FOR_ONE_MISS,
};
use fleetbeat_liveness::{Moment, Tuning};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// That many seconds after the clock's origin.
pub(crate) fn at(seconds: u64) -> Moment {
    Moment::ZERO + secs(seconds)
}

pub(crate) fn at_millis(milliseconds: u64) -> Moment {
    Moment::ZERO + millis(milliseconds)
}

pub(crate) fn dice(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// T and W in seconds, `pong_every` 1.
pub(crate) fn tuning(interval: u64, misses: u32, timeout: u64) -> Tuning {
    Tuning::new(secs(interval), misses, secs(timeout), 1).expect("a tuning within the bounds")
}

/// The same in adaptive mode.
pub(crate) fn adaptive(interval: u64, misses: u32, timeout: u64) -> Tuning {
    let tuning = tuning(interval, misses, timeout).with_adaptive(true);
    tuning.expect("a tuning that may be adaptive")
}

/// Any tuning within the bounds, adaptive or not.
pub(crate) fn any_tuning() -> impl Strategy<Value = Tuning> {
    (any_fixed_tuning(), any::<bool>())
        .prop_map(|(tuning, adaptive)| tuning.with_adaptive(adaptive).unwrap_or(tuning))
}

/// Any tuning within the bounds, not adaptive.
fn any_fixed_tuning() -> impl Strategy<Value = Tuning> {
    (1..=MISSES_MOST, 1..=PONG_EVERY_MOST)
        .prop_flat_map(|(misses, pong_every)| {
            let least = if misses == 1 {
                TIMEOUT_LEAST_FOR_ONE_MISS
            } else {
                TIMEOUT_LEAST
            };
            let most = INTERVAL_MOST.min(REVERSE_GAP_MOST / pong_every);
            let interval = between(least, most);
            (Just(misses), Just(pong_every), Just(least), interval)
        })
        .prop_flat_map(|(misses, pong_every, least, interval)| {
            between(least, interval).prop_map(move |timeout| {
                Tuning::new(interval, misses, timeout, pong_every).expect("drawn within the bounds")
            })
        })
}

/// Durations of every order of magnitude between the two.
fn between(least: Duration, most: Duration) -> impl Strategy<Value = Duration> {
    let (least, most) = (least.as_secs_f64(), most.as_secs_f64());
    (0.0..=1.0_f64).prop_map(move |share| {
        let drawn = least * (most / least).powf(share);
        Duration::from_secs_f64(drawn.clamp(least, most))
    })
}

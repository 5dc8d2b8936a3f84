//! Exact quantiles of what was timed. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a set of times is spread, in milliseconds; all but `count` are null where nothing was timed.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub count: u64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
}

/// Nearest-rank quantiles of times in nanoseconds, in any order.
#[must_use]
pub fn spread(mut times: Vec<u64>) -> Spread {
    times.sort_unstable();
    // The smallest value that at least so many percent do not exceed.
    let rank = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100);
        times.get(rank.checked_sub(1)?).copied().map(ms)
    };
    Spread {
        count: u64::try_from(times.len()).unwrap_or(u64::MAX),
        p50_ms: rank(50),
        p99_ms: rank(99),
        max_ms: rank(100),
    }
}

/// Milliseconds, to the microsecond.
#[expect(
    clippy::cast_precision_loss,
    reason = "a benchmark's times are far below 2^52 microseconds"
)]
pub(super) fn ms(ns: u64) -> f64 {
    (ns / 1_000) as f64 / 1_000.0
}

/// How many times the one is the other; none where either is not known or nothing.
pub(super) fn ratio(during: Option<f64>, before: Option<f64>) -> Option<f64> {
    let before = before.filter(|before| *before > 0.0)?;
    Some(during? / before)
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.p50_ms, self.p99_ms, self.max_ms) {
            (Some(p50), Some(p99), Some(max)) => {
                write!(f, "p50 {p50:.1} ms, p99 {p99:.1} ms, max {max:.1} ms")
            }
            (p50, p99, _) => {
                let shown = |ms: Option<f64>| ms.map_or("?".to_owned(), |ms| format!("{ms:.1} ms"));
                write!(f, "p50 {}, p99 {}", shown(p50), shown(p99))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let of = |count: u64| spread((1..=count).rev().map(|n| n * 1_000_000).collect());
        for (count, p50, p99, max) in [
            (1, 1.0, 1.0, 1.0),
            (2, 1.0, 2.0, 2.0),
            (100, 50.0, 99.0, 100.0),
            (1_000, 500.0, 990.0, 1_000.0),
        ] {
            let spread = of(count);
            assert_eq!(
                (spread.p50_ms, spread.p99_ms, spread.max_ms),
                (Some(p50), Some(p99), Some(max)),
                "{count}"
            );
        }
    }

    #[test]
    fn nothing_timed_has_no_quantiles() {
        assert_eq!(spread(vec![]), Spread::default());
    }

    #[test]
    fn ratio_needs_both_and_something_to_divide_by() {
        assert_eq!(ratio(Some(6.0), Some(2.0)), Some(3.0));
        assert_eq!(ratio(Some(6.0), Some(0.0)), None);
        assert_eq!(ratio(None, Some(2.0)), None);
    }
}

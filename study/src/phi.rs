//! The φ accrual detector, for comparison only: N. Hayashibara, X. Défago, R. Yared and T. Katayama,
//! "The φ accrual failure detector", SRDS 2004.
//!
//! φ(t) = −log₁₀ of the probability that the next message comes later than t after the last, under a
//! normal distribution with the mean and the deviation of the last 1,000 gaps. It knows gaps and nothing
//! else: not what interval was promised, nor that it was changed.

use std::collections::VecDeque;
use std::time::Duration;

/// Gaps kept, as in the paper's trials.
const GAPS: usize = 1_000;

/// One agent's detector.
#[derive(Debug)]
pub(crate) struct Phi {
    /// How many deviations behind the mean the threshold lies.
    deviations: f64,
    /// Seconds.
    gaps: VecDeque<f64>,
    sum: f64,
    squares: f64,
}

/// φ = 8 and φ = 12: the points at which 10⁻⁸ and 10⁻¹² of a normal distribution are left.
pub(crate) const EIGHT: f64 = 5.612_001_244;
pub(crate) const TWELVE: f64 = 7.034_483_825;

impl Phi {
    /// Before anything was seen: gaps of `interval`, give or take a quarter, as implementations begin.
    pub(crate) fn new(deviations: f64, interval: Duration) -> Self {
        let mut phi = Self {
            deviations,
            gaps: VecDeque::with_capacity(GAPS),
            sum: 0.0,
            squares: 0.0,
        };
        phi.keep(interval.mul_f64(0.75));
        phi.keep(interval.mul_f64(1.25));
        phi
    }

    pub(crate) fn keep(&mut self, gap: Duration) {
        if self.gaps.len() == GAPS
            && let Some(oldest) = self.gaps.pop_front()
        {
            self.sum -= oldest;
            self.squares -= oldest * oldest;
        }
        let gap = gap.as_secs_f64();
        self.gaps.push_back(gap);
        self.sum += gap;
        self.squares += gap * gap;
    }

    /// The silence at which φ reaches the threshold.
    pub(crate) fn patience(&self) -> Duration {
        let kept = f64::from(u32::try_from(self.gaps.len()).unwrap_or(u32::MAX));
        let mean = self.sum / kept;
        let deviation = (self.squares / kept - mean * mean).max(0.0).sqrt();
        Duration::from_secs_f64(mean + self.deviations * deviation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of a normal distribution beyond so many deviations, by the continued fraction of Laplace.
    fn beyond(deviations: f64) -> f64 {
        let fraction = (1..200)
            .rev()
            .fold(deviations, |tail, k| deviations + f64::from(k) / tail);
        (-deviations * deviations / 2.0).exp() / (std::f64::consts::TAU.sqrt() * fraction)
    }

    #[test]
    fn the_thresholds_are_where_the_paper_puts_them() {
        assert!((-beyond(EIGHT).log10() - 8.0).abs() < 1e-6);
        assert!((-beyond(TWELVE).log10() - 12.0).abs() < 1e-6);
    }

    #[test]
    fn patience_follows_the_gaps_of_the_window_and_forgets_what_is_older() {
        let mut phi = Phi::new(EIGHT, Duration::from_secs(20));
        for _ in 0..GAPS {
            phi.keep(Duration::from_secs(5));
        }
        assert!(
            (phi.patience().as_secs_f64() - 5.0).abs() < 0.01,
            "{:?}",
            phi.patience()
        );
        phi.keep(Duration::from_secs(9));
        assert!(
            phi.patience() > Duration::from_millis(5_500),
            "{:?}",
            phi.patience()
        );
    }
}

//! Exact tails of the binomial and the Poisson distribution.

/// P(X ≥ k) of `n` tries that each succeed with `p`.
pub(crate) fn binomial_at_least(k: u32, n: u32, p: f64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    let from = usize::try_from(k).unwrap_or(usize::MAX);
    binomial(n, p).skip(from).sum::<f64>().min(1.0)
}

/// The least k with P(X ≥ k) ≤ `alpha`; n + 1 when even n successes are likelier.
pub(crate) fn binomial_critical(n: u32, p: f64, alpha: f64) -> u32 {
    let chances: Vec<f64> = binomial(n, p).collect();
    let mut tail = 0.0;
    let mut critical = n.saturating_add(1);
    for chance in chances.iter().rev() {
        tail += chance;
        if tail > alpha {
            break;
        }
        critical -= 1;
    }
    critical
}

/// P(X ≤ k) around `mean`.
pub(crate) fn poisson_at_most(k: u32, mean: f64) -> f64 {
    if mean <= 0.0 {
        return 1.0;
    }
    let mut log = -mean;
    let mut sum = log.exp();
    for i in 1..=k {
        log += (mean / f64::from(i)).ln();
        sum += log.exp();
    }
    sum.min(1.0)
}

/// P(X ≥ k) around `mean`.
pub(crate) fn poisson_at_least(k: u32, mean: f64) -> f64 {
    k.checked_sub(1)
        .map_or(1.0, |below| 1.0 - poisson_at_most(below, mean))
}

/// P(X = 0), P(X = 1) … P(X = n), through logarithms because the first may be below every float.
fn binomial(n: u32, p: f64) -> impl Iterator<Item = f64> {
    let p = p.clamp(1e-12, 1.0 - 1e-12);
    let odds = (p / (1.0 - p)).ln();
    let mut log = f64::from(n) * (1.0 - p).ln();
    (0..=n).map(move |k| {
        let chance = log.exp();
        log += odds + (f64::from(n - k) / f64::from(k + 1)).ln();
        chance
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9
    }

    #[test]
    fn tails_are_those_of_the_textbook() {
        assert!(close(binomial_at_least(5, 5, 0.5), 1.0 / 32.0));
        assert!(close(binomial_at_least(4, 5, 0.5), 6.0 / 32.0));
        assert!(close(poisson_at_most(1, 2.0), 3.0 * (-2.0_f64).exp()));
        assert!(close(poisson_at_least(1, 2.0), 1.0 - (-2.0_f64).exp()));
        assert_eq!(binomial_critical(5, 0.5, 1.0 / 32.0), 5);
        assert_eq!(binomial_critical(5, 0.5, 0.03), 6);
    }

    #[test]
    fn large_counts_neither_underflow_nor_leave_the_unit() {
        let half = binomial_at_least(100_000, 200_000, 0.5);
        assert!((0.49..0.51).contains(&half), "{half}");
        let half = poisson_at_most(100_000, 100_000.0);
        assert!((0.49..0.51).contains(&half), "{half}");
    }
}

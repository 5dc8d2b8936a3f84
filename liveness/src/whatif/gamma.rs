//! The gamma distribution with scale 1.

const ITERATIONS: u32 = 10_000;
const CLOSE: f64 = 1e-12;

/// x with P(X ≤ x) = `p`, for `p` within (0, 1) and a `shape` above 0.
pub(super) fn quantile(p: f64, shape: f64) -> f64 {
    let mut high = shape.max(1.0);
    while at_most(high, shape) < p {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if at_most(middle, shape) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The regularized lower incomplete gamma function P(`shape`, `x`): its series below the mean, else one less
/// the continued fraction of its complement (Abramowitz and Stegun 6.5.29 and 6.5.31).
fn at_most(x: f64, shape: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (shape * x.ln() - x - ln_gamma(shape)).exp();
    if x < shape + 1.0 {
        front * series(x, shape)
    } else {
        1.0 - front * fraction(x, shape)
    }
}

fn series(x: f64, shape: f64) -> f64 {
    let mut term = 1.0 / shape;
    let mut sum = term;
    for n in 1..=ITERATIONS {
        term *= x / (shape + f64::from(n));
        sum += term;
        if term < sum * CLOSE {
            break;
        }
    }
    sum
}

/// By Lentz's method: the value grows by the ratio of two continued numerators and denominators.
fn fraction(x: f64, shape: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut partial = x + 1.0 - shape;
    let mut numerator = 1e300;
    let mut denominator = 1.0 / partial;
    let mut value = denominator;
    for n in 1..=ITERATIONS {
        let step = -f64::from(n) * (f64::from(n) - shape);
        partial += 2.0;
        denominator = 1.0 / away_from_zero(step * denominator + partial);
        numerator = away_from_zero(partial + step / numerator);
        value *= denominator * numerator;
        if (denominator * numerator - 1.0).abs() < CLOSE {
            break;
        }
    }
    value
}

/// ln Γ by Stirling's series, after as many steps up as make it exact.
fn ln_gamma(shape: f64) -> f64 {
    let (mut x, mut steps) = (shape, 0.0);
    while x < 10.0 {
        steps += x.ln();
        x += 1.0;
    }
    let tail = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1_260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + (2.0 * std::f64::consts::PI).ln() / 2.0 + tail - steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-3 * b.abs().max(1e-9)
    }

    /// Half of the chi-squared quantiles of twice the shape, as tables have them.
    #[test]
    fn quantiles_are_those_of_the_textbook() {
        for (p, shape, chi_squared) in [
            (0.95, 5.0, 18.307),
            (0.05, 5.0, 3.940),
            (0.975, 1.0, 7.378),
            (0.025, 10.0, 9.591),
            (0.975, 11.0, 36.781),
            (0.95, 0.5, 3.841),
            (0.975, 50.0, 129.561),
        ] {
            let got = 2.0 * quantile(p, shape);
            assert!(close(got, chi_squared), "p {p} shape {shape}: {got}");
        }
    }

    #[test]
    fn large_shapes_are_nearly_normal() {
        let n = 1e6_f64;
        assert!(close(quantile(0.975, n), n + 1.96 * n.sqrt()));
    }
}

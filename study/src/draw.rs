//! Random times of stated distributions.

use std::time::Duration;

use rand::{Rng, RngExt as _};

/// A log-normal time: half are longer than the median; 16 % are longer than `median·e^sigma`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogNormal {
    median_ms: f64,
    sigma: f64,
}

impl LogNormal {
    pub(crate) const fn new(median_ms: f64, sigma: f64) -> Self {
        Self { median_ms, sigma }
    }

    pub(crate) fn median(self) -> Duration {
        Duration::from_secs_f64(self.median_ms / 1e3)
    }

    pub(crate) fn draw(self, rng: &mut impl Rng) -> Duration {
        let normal = normal(rng);
        Duration::from_secs_f64(self.median_ms / 1e3 * (self.sigma * normal).exp())
    }
}

/// Time to the next of events that come this far apart on average.
pub(crate) fn exponential(mean: Duration, rng: &mut impl Rng) -> Duration {
    let share: f64 = rng.random();
    mean.mul_f64(-(1.0 - share).ln())
}

/// Box and Muller's transform of two uniform draws.
fn normal(rng: &mut impl Rng) -> f64 {
    let (radius, angle): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

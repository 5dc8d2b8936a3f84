//! Everything random, from one seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use fleetbeat_proto::nanos;

/// Draws; the same seed gives the same draws.
#[derive(Debug)]
pub(crate) struct Dice(StdRng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// A generator of its own for one machine of the product.
    pub(crate) fn split(&mut self) -> StdRng {
        StdRng::seed_from_u64(self.0.random())
    }

    pub(crate) fn bytes(&mut self) -> [u8; 16] {
        self.0.random()
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.0.random::<f64>() < probability
    }

    /// Uniform over [0, end); 0 when `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end.max(1))
    }

    /// Uniform over [least, most].
    pub(crate) fn number(&mut self, least: u32, most: u32) -> u32 {
        self.0.random_range(least..=most)
    }

    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        Duration::from_nanos(self.0.random_range(nanos(least)..=nanos(most.max(least))))
    }

    /// Uniform over the logarithm: as many around 0.2 s as around 20 s.
    pub(crate) fn log_between(&mut self, least: Duration, most: Duration) -> Duration {
        let (low, high) = (least.as_secs_f64().ln(), most.as_secs_f64().ln());
        Duration::from_secs_f64((low + (high - low) * self.0.random::<f64>()).exp())
    }

    /// Time to the next of events that come at random, `mean` apart.
    pub(crate) fn apart(&mut self, mean: Duration) -> Duration {
        let u: f64 = self.0.random::<f64>().max(1e-9);
        mean.mul_f64(-u.ln())
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

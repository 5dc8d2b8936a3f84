//! When one connection beats, in three ways.

use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_liveness::beat::Beats;
use rand::RngExt as _;
use rand::rngs::StdRng;

/// The beats of one connection that was welcomed at zero.
#[derive(Debug)]
pub(crate) enum Rhythm {
    /// Every T from the same moment on.
    InStep { interval: Duration, at: Moment },
    /// Essay 2: the first uniform in [0, T), later gaps T ± 10 %.
    BothWays {
        interval: Duration,
        at: Option<Moment>,
    },
    /// The product's code.
    Product(Beats),
}

impl Rhythm {
    pub(crate) fn in_step(interval: Duration) -> Self {
        Self::InStep {
            interval,
            at: Moment::ZERO,
        }
    }

    pub(crate) fn both_ways(interval: Duration) -> Self {
        Self::BothWays { interval, at: None }
    }

    pub(crate) fn product(interval: Duration) -> Self {
        let mut beats = Beats::new(interval);
        beats.welcomed(Moment::ZERO);
        Self::Product(beats)
    }

    /// The next beat.
    pub(crate) fn next(&mut self, rng: &mut StdRng) -> Moment {
        match self {
            Self::InStep { interval, at } => {
                *at = *at + *interval;
                *at
            }
            Self::BothWays { interval, at } => {
                let share = rng.random::<f64>();
                let next = match *at {
                    None => Moment::ZERO + interval.mul_f64(share),
                    Some(at) => at + interval.mul_f64(0.9 + 0.2 * share),
                };
                *at = Some(next);
                next
            }
            Self::Product(beats) => {
                let due = beats.due();
                beats.ping_sent(due, rng);
                due
            }
        }
    }
}

//! The server's side of one session: what it heard, and what it makes of silence.

use std::time::Duration;

use fleetbeat_liveness::retune::{Answer, Outcome, Retune};
use fleetbeat_liveness::rtt::Window;
use fleetbeat_liveness::verdict::{Next, next};
use fleetbeat_liveness::{Limits, Moment, Revised, Tuning};

use crate::phi::Phi;

/// Number of the only push of a trial.
const PUSH: u64 = 2;

/// How silence is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Judging {
    /// By what the tuning promises: the product's code, adaptive or not.
    Promise,
    /// By φ, so many deviations behind the mean.
    Phi(f64),
}

#[derive(Debug)]
pub(crate) struct Watch {
    heard: Moment,
    trips: Window,
    expected: Retune,
    phi: Option<Phi>,
}

impl Watch {
    pub(crate) fn new(tuning: Tuning, judging: Judging, now: Moment) -> Self {
        let phi = match judging {
            Judging::Promise => None,
            Judging::Phi(deviations) => Some(Phi::new(deviations, tuning.interval())),
        };
        Self {
            heard: now,
            trips: Window::new(),
            expected: Retune::new(revised(1, tuning)),
            phi,
        }
    }

    /// A message of the agent arrived.
    pub(crate) fn heard(&mut self, now: Moment) {
        if let Some(phi) = &mut self.phi {
            phi.keep(now.since(self.heard));
        }
        self.heard = now;
    }

    /// It carried this round trip.
    pub(crate) fn measured(&mut self, trip: Option<Duration>) {
        if let Some(trip) = trip {
            self.trips.push(trip);
        }
    }

    pub(crate) fn pushed(&mut self, tuning: Tuning) {
        self.expected.push(revised(PUSH, tuning));
    }

    pub(crate) fn acknowledged(&mut self, tuning: Tuning) {
        let applied = revised(PUSH, tuning);
        self.expected.answer(Answer {
            revision: PUSH,
            hash: applied.hash(),
            outcome: Outcome::Applied,
            in_force: Some(applied),
        });
    }

    pub(crate) fn judge(&self, now: Moment) -> Next {
        let Some(phi) = &self.phi else {
            let limits = Limits::of_agent(&self.expected.expectation(), self.trips.p95());
            return next(now, self.heard, &limits, None);
        };
        let until = self.heard + phi.patience();
        if now < until {
            Next::Wait { until }
        } else {
            Next::Convict
        }
    }
}

const fn revised(revision: u64, tuning: Tuning) -> Revised {
    Revised { revision, tuning }
}

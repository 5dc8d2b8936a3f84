//! Limits of the whole fleet that no policy may exceed.

use std::time::Duration;

use crate::tuning::Tuning;

/// Mean gap between two heartbeats as a share of T: gaps are drawn from [0.9·T, T].
const MEAN_GAP: f64 = 0.95;

/// What the operator of the whole fleet allows. The default allows everything that a tuning may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Floor of T.
    pub interval_least: Duration,
    /// Ceiling of D; in adaptive mode of 2·D, which is how long silence may then be tolerated.
    pub deadline_most: Duration,
    /// Ceiling of the fleet's expected heartbeats per second.
    pub beats_per_second_most: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            interval_least: crate::tuning::INTERVAL_LEAST,
            deadline_most: crate::tuning::SILENCE_MOST,
            beats_per_second_most: f64::INFINITY,
        }
    }
}

/// How many members would have a tuning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub tuning: Tuning,
    pub members: u32,
}

impl Load {
    /// Expected heartbeats per second: `members / (0.95·T)`.
    #[must_use]
    pub fn beats_per_second(&self) -> f64 {
        f64::from(self.members) / (MEAN_GAP * self.tuning.interval().as_secs_f64())
    }
}

/// A limit that a change would exceed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Breach {
    #[error("interval {given:?} is below the fleet's floor of {least:?}")]
    IntervalBelowFloor { given: Duration, least: Duration },
    #[error("silence would be tolerated for {given:?}, above the fleet's ceiling of {most:?}")]
    DeadlineAboveCeiling { given: Duration, most: Duration },
    #[error(
        "{members} members would send {given:.1} heartbeats per second, above the fleet's ceiling of \
         {most:.1}: intervals of {factor:.2} times theirs would fit"
    )]
    BeatsAboveCeiling {
        members: u64,
        given: f64,
        most: f64,
        /// What all intervals times this would fit.
        factor: f64,
    },
}

impl Bounds {
    /// Every limit that the fleet would exceed: those of single tunings in the order given, then that of
    /// the fleet. A tuning without members is held to its own limits all the same.
    #[must_use]
    pub fn breaches(&self, fleet: &[Load]) -> Vec<Breach> {
        let single = fleet.iter().flat_map(|load| self.single(load.tuning));
        single.chain(self.together(fleet)).collect()
    }

    fn single(&self, tuning: Tuning) -> impl Iterator<Item = Breach> {
        let (given, least) = (tuning.interval(), self.interval_least);
        let interval = (given < least).then_some(Breach::IntervalBelowFloor { given, least });
        let (given, most) = (tuning.deadline_at_most(), self.deadline_most);
        let deadline = (given > most).then_some(Breach::DeadlineAboveCeiling { given, most });
        interval.into_iter().chain(deadline)
    }

    fn together(&self, fleet: &[Load]) -> Option<Breach> {
        let given: f64 = fleet.iter().map(Load::beats_per_second).sum();
        let most = self.beats_per_second_most;
        (given > most).then(|| Breach::BeatsAboveCeiling {
            members: fleet.iter().map(|load| u64::from(load.members)).sum(),
            given,
            most,
            factor: given / most,
        })
    }
}

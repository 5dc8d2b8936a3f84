//! What a rollout is asked to do, and what it refuses to be asked.

use std::time::Duration;

use super::guard::Guards;
use super::phase::{Phase, Size};
use crate::tuning::Tuning;

pub const PHASES_MOST: usize = 20;
pub const LOOKS_MOST: u32 = 20;
pub const SOAK_MOST: Duration = Duration::from_hours(24 * 7);

/// What a soak time lasts when nobody says.
pub const SOAK_USUAL: Duration = Duration::from_mins(10);

/// The shortest soak time in which the longest silence that a candidate tolerates would show: 2·D + W,
/// with D = 2·(N·T + W) in adaptive mode. Zero without tunings.
#[must_use]
pub fn soak_least(candidate: impl IntoIterator<Item = Tuning>) -> Duration {
    let least = |tuning: Tuning| tuning.deadline_at_most() * 2 + tuning.timeout();
    candidate.into_iter().map(least).max().unwrap_or_default()
}

/// What happens after the last look at a phase that saw too little to judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLittle {
    Advance,
    Pause,
}

/// One candidate over phases. Fixed when the rollout is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Decides the order in which members are reached.
    pub seed: u64,
    /// The revision whose policies are tried.
    pub candidate: u64,
    /// The revision whose policies everybody else keeps, and returns to.
    pub last_good: u64,
    /// The last one reaches everybody.
    pub phases: Vec<Phase>,
    /// How often each phase is judged, evenly over its soak time.
    pub looks: u32,
    pub guards: Guards,
    pub on_little: OnLittle,
}

impl Plan {
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), PlanError> {
        let last = self.phases.last().map(|phase| phase.size);
        if last != Some(Size::Percent(100)) {
            return Err(PlanError::NotEveryone);
        }
        if self.phases.len() > PHASES_MOST {
            return Err(PlanError::TooManyPhases(self.phases.len()));
        }
        if !(1..=LOOKS_MOST).contains(&self.looks) {
            return Err(PlanError::Looks(self.looks));
        }
        if !self.guards.are_sound() {
            return Err(PlanError::Guards);
        }
        self.phases
            .iter()
            .enumerate()
            .try_for_each(|(at, phase)| self.check_phase(at, *phase))
    }

    fn check_phase(&self, at: usize, phase: Phase) -> Result<(), PlanError> {
        let number = at + 1;
        let sized = match phase.size {
            Size::Percent(percent) => (1..=100).contains(&percent),
            Size::Count(count) => count >= 1,
        };
        if !sized {
            return Err(PlanError::Size { number });
        }
        let least = self.guards.ack_within.max(Duration::from_secs(1));
        if !(least..=SOAK_MOST).contains(&phase.soak) {
            return Err(PlanError::Soak {
                number,
                given: phase.soak,
                least,
            });
        }
        Ok(())
    }

    /// The chance of a false alarm that one guard may take at one look: the whole chance spent evenly over
    /// guards, looks and phases (Bonferroni), which holds whatever depends on what.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        let phases = u32::try_from(self.phases.len()).unwrap_or(u32::MAX);
        let looks = f64::from(phases) * f64::from(self.looks);
        self.guards.false_halts / (looks * Guards::TESTS).max(1.0)
    }
}

/// Which rule a plan breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("the last phase must reach everybody, end the phases with 100 percent")]
    NotEveryone,
    #[error("{0} phases are too many, use at most {PHASES_MOST}")]
    TooManyPhases(usize),
    #[error("{0} looks per phase are out of bounds, use 1 to {LOOKS_MOST}")]
    Looks(u32),
    #[error("phase {number} has no valid size, use 1 to 100 percent or a count of at least 1")]
    Size { number: usize },
    #[error(
        "phase {number} soaks for {given:?}, use at least {least:?} (the time to acknowledge) and at \
         most {SOAK_MOST:?}"
    )]
    Soak {
        number: usize,
        given: Duration,
        least: Duration,
    },
    #[error(
        "guards are out of bounds: use shares above 0 and below 1, limits above 0, ratios of at least 1 \
         and a harm above the tolerated ratio"
    )]
    Guards,
}

//! What an operator asks of a rollout, with what is usual where nothing is said. Pure.

use std::time::Duration;

use fleetbeat_liveness::rollout::plan::{SOAK_USUAL, soak_least};
use fleetbeat_liveness::rollout::{Guards, OnLittle, Phase, Plan, PlanError, Size};
use fleetbeat_liveness::span::Span;
use fleetbeat_liveness::tuning::Tuning;

/// Looks at each phase when nobody says (hard case C6).
const LOOKS: u32 = 4;

/// How a change is to reach the fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct Staging {
    /// Sizes, each with its own soak time or the common one.
    pub phases: Vec<(Size, Option<Duration>)>,
    /// `None`: 10 min, or 2·D + W of the candidate when that is longer.
    pub soak: Option<Duration>,
    pub looks: Option<u32>,
    pub guards: Guards,
    /// `None`: the guards' own, or the shortest soak time when that is shorter.
    pub ack_within: Option<Duration>,
    pub on_little: OnLittle,
}

/// Why a change cannot be staged so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StagingError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(
        "phase {number} soaks for {given}, in which what the candidate tolerates would not show: give it \
         at least {least} (2·D + W of the candidate)"
    )]
    Soak {
        number: usize,
        given: String,
        least: String,
    },
}

impl Default for Staging {
    fn default() -> Self {
        Self {
            phases: Vec::new(),
            soak: None,
            looks: None,
            guards: Guards::default(),
            ack_within: None,
            on_little: OnLittle::Advance,
        }
    }
}

impl Staging {
    /// The plan of a rollout to the revisions from `candidate` on, whose members may get `tunings`.
    pub(in crate::tuning) fn plan(
        &self,
        seed: u64,
        (candidate, last_good): (u64, u64),
        tunings: impl IntoIterator<Item = Tuning>,
    ) -> Result<Plan, StagingError> {
        let least = soak_least(tunings);
        let usual = self.soak.unwrap_or_else(|| SOAK_USUAL.max(least));
        let mut phases = Vec::new();
        for (at, (size, soak)) in self.phases.iter().enumerate() {
            let soak = soak.unwrap_or(usual);
            if soak < least {
                return Err(StagingError::Soak {
                    number: at + 1,
                    given: Span(soak).to_string(),
                    least: Span(least).to_string(),
                });
            }
            phases.push(Phase { size: *size, soak });
        }
        let shortest = phases.iter().map(|phase| phase.soak).min();
        let acked = self.guards.ack_within.min(shortest.unwrap_or_default());
        let plan = Plan {
            seed,
            candidate,
            last_good,
            phases,
            looks: self.looks.unwrap_or(LOOKS),
            guards: Guards {
                ack_within: self.ack_within.unwrap_or(acked),
                ..self.guards
            },
            on_little: self.on_little,
        };
        plan.check()?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// D = 181 s, so that 2·D + W = 363 s.
    fn slow() -> Tuning {
        Tuning::new(secs(60), 3, secs(1), 1).unwrap()
    }

    fn staging(soak: Option<u64>) -> Staging {
        Staging {
            phases: vec![
                (Size::Percent(5), None),
                (Size::Percent(100), Some(secs(900))),
            ],
            soak: soak.map(secs),
            ..Staging::default()
        }
    }

    /// Hard case C6.
    #[test]
    fn soak_in_which_the_candidate_cannot_show_is_refused_with_the_number() {
        let refused = staging(Some(120)).plan(1, (2, 1), [slow()]).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("phase 1") && text.contains("6 min 3 s"),
            "{text}"
        );
        assert!(staging(Some(363)).plan(1, (2, 1), [slow()]).is_ok());
    }

    #[test]
    fn usual_soak_is_ten_minutes_or_as_long_as_the_candidate_needs() {
        let fast = Tuning::new(secs(3), 3, secs(1), 1).unwrap();
        let plan = staging(None).plan(1, (2, 1), [fast]).unwrap();
        let soaks: Vec<Duration> = plan.phases.iter().map(|phase| phase.soak).collect();
        assert_eq!((soaks, plan.looks), (vec![secs(600), secs(900)], 4));
        let slower = Tuning::new(secs(120), 3, secs(1), 1).unwrap();
        let plan = staging(None).plan(1, (2, 1), [fast, slower]).unwrap();
        assert_eq!(plan.phases[0].soak, secs(2 * 361 + 1));
    }

    #[test]
    fn acknowledgements_are_due_before_the_shortest_phase_is_over() {
        let fast = Tuning::new(secs(1), 1, secs(1), 1).unwrap();
        let plan = staging(Some(8)).plan(1, (2, 1), [fast]).unwrap();
        assert_eq!(plan.guards.ack_within, secs(8));
        let none = Staging::default().plan(1, (2, 1), [fast]).unwrap_err();
        assert!(matches!(none, StagingError::Plan(PlanError::NotEveryone)));
    }
}

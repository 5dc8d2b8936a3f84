use std::time::Duration;

use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::plan::{Check, Grade, Load, Step, detection};
use serde::Serialize;

/// `fleetbeat tune plan`. Times are whole milliseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    pub(crate) tuning: PlannedTuning,
    pub(crate) deadline_ms: u64,
    pub(crate) detection: Detection,
    pub(crate) agents: u64,
    pub(crate) load: PlannedLoad,
    pub(crate) checks: Vec<PlannedCheck>,
    /// How T and W came about; empty for a tuning that was said.
    pub(crate) steps: Vec<PlannedStep>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PlannedTuning {
    pub(crate) interval_ms: u64,
    pub(crate) misses: u32,
    pub(crate) timeout_ms: u64,
    pub(crate) pong_every: u32,
}

/// Time from an agent's end to the verdict.
#[derive(Debug, Serialize)]
pub(crate) struct Detection {
    pub(crate) worst_ms: u64,
    pub(crate) mean_ms: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct PlannedLoad {
    pub(crate) beats_per_second: f64,
    pub(crate) expected_beats_per_second: f64,
    pub(crate) messages_per_second: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) side_costs: SideCosts,
}

/// What one of each per heartbeat would come to.
#[derive(Debug, Serialize)]
pub(crate) struct SideCosts {
    pub(crate) log_lines_per_second: f64,
    pub(crate) metrics_per_second: f64,
    pub(crate) spans_per_second: f64,
    pub(crate) rows_per_second: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct PlannedCheck {
    pub(crate) name: &'static str,
    /// False only when it failed.
    pub(crate) ok: bool,
    /// `ok`, `warning` or `failed`.
    pub(crate) grade: &'static str,
    pub(crate) reason: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct PlannedStep {
    /// `W`, `T` or `D`.
    pub(crate) of: &'static str,
    pub(crate) text: String,
}

impl Plan {
    pub(crate) fn of(
        tuning: &Tuning,
        steps: &[Step],
        checks: &[Check],
        load: &Load,
        agents: u64,
    ) -> Self {
        let (worst, mean) = detection(tuning);
        let beats = load.beats_per_second;
        let checks = checks.iter().map(|check| PlannedCheck {
            name: check.name,
            ok: check.grade != Grade::Failed,
            grade: check.grade.as_str(),
            reason: check.reason.clone(),
        });
        let steps = steps.iter().map(|step| PlannedStep {
            of: step.of,
            text: step.text.clone(),
        });
        Self {
            tuning: PlannedTuning {
                interval_ms: ms(tuning.interval()),
                misses: tuning.misses(),
                timeout_ms: ms(tuning.timeout()),
                pong_every: tuning.pong_every(),
            },
            deadline_ms: ms(tuning.deadline()),
            detection: Detection {
                worst_ms: ms(worst),
                mean_ms: ms(mean),
            },
            agents,
            load: PlannedLoad {
                beats_per_second: beats,
                expected_beats_per_second: load.expected_beats_per_second,
                messages_per_second: load.messages_per_second,
                bytes_per_second: load.bytes_per_second,
                side_costs: SideCosts {
                    log_lines_per_second: beats,
                    metrics_per_second: beats,
                    spans_per_second: beats,
                    rows_per_second: beats,
                },
            },
            checks: checks.collect(),
            steps: steps.collect(),
        }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

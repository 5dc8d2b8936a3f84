use std::time::Duration;

use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::plan::{Check, Grade, Load, Step, detection};
use fleetbeat_proto::{Unusable, v1};
use serde::Serialize;

use crate::view;

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
    /// What the server measured; empty when no server was asked.
    pub(crate) facts: Vec<Fact>,
    /// What is in force today.
    pub(crate) today: Option<view::Tuning>,
    /// The recorded days under the tuning, and under today's.
    pub(crate) replay: Option<Replay>,
    pub(crate) replay_today: Option<Replay>,
    pub(crate) history_unavailable: Option<String>,
    /// Limits of the fleet that the tuning exceeds by itself.
    pub(crate) exceeded: Vec<String>,
}

/// Something that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Fact {
    pub(crate) name: String,
    /// Durations in nanoseconds, `late` as a share.
    pub(crate) value: f64,
    pub(crate) source: String,
}

/// A 95 % interval around what is expected.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) expected: f64,
    pub(crate) high: f64,
}

/// What the recorded time would have been under a tuning.
#[derive(Debug, Serialize)]
pub(crate) struct Replay {
    /// None when `unknown` says why.
    pub(crate) false_disconnects_per_day: Option<Range>,
    /// It is this much at least.
    pub(crate) at_least: bool,
    pub(crate) unknown: Option<String>,
    pub(crate) silences: u32,
    pub(crate) events: u32,
    pub(crate) agent_days: f64,
    pub(crate) detection_p50_ns: Option<Range>,
    pub(crate) detection_p99_ns: Option<Range>,
    pub(crate) deaths: u32,
    pub(crate) beats_per_second: Option<Range>,
    pub(crate) bytes_per_day: Option<Range>,
    /// How many false disconnects there were.
    pub(crate) happened: u32,
    /// Those of `deaths` where nobody has come back.
    pub(crate) open: u32,
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
    pub(crate) name: String,
    /// False only when it failed.
    pub(crate) ok: bool,
    /// `ok`, `warning` or `failed`.
    pub(crate) grade: String,
    pub(crate) reason: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct PlannedStep {
    /// `W`, `T` or `D`.
    pub(crate) of: String,
    pub(crate) text: String,
}

impl Plan {
    /// Without a server.
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
            name: check.name.to_owned(),
            ok: check.grade != Grade::Failed,
            grade: check.grade.as_str().to_owned(),
            reason: check.reason.clone(),
        });
        let steps = steps.iter().map(|step| PlannedStep {
            of: step.of.to_owned(),
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
            facts: Vec::new(),
            today: None,
            replay: None,
            replay_today: None,
            history_unavailable: None,
            exceeded: Vec::new(),
        }
    }

    /// By a server.
    ///
    /// # Errors
    /// The bound of this program that the tuning breaks.
    pub(crate) fn from_wire(wire: v1::PlanTuningResponse) -> Result<Self, Unusable> {
        let tuning = Tuning::try_from(wire.tuning.unwrap_or_default())?;
        let load = Load::of(&tuning, wire.agents, wire.frame_bytes);
        let checks = wire.checks.into_iter().map(|check| PlannedCheck {
            name: check.name,
            ok: check.ok,
            grade: check.grade,
            reason: check.reason,
        });
        let steps = wire.steps.into_iter().map(|step| PlannedStep {
            of: step.of,
            text: step.text,
        });
        let facts = wire.facts.into_iter().map(|fact| Fact {
            name: fact.name,
            value: fact.value,
            source: fact.source,
        });
        Ok(Self {
            checks: checks.collect(),
            steps: steps.collect(),
            facts: facts.collect(),
            today: view::Tuning::of(wire.today.as_ref()),
            replay: wire.replay.map(Replay::from_wire),
            replay_today: wire.replay_today.map(Replay::from_wire),
            history_unavailable: super::told(wire.history_unavailable),
            exceeded: wire.exceeded,
            ..Self::of(&tuning, &[], &[], &load, wire.agents)
        })
    }
}

impl Range {
    fn of(wire: Option<v1::Range>) -> Option<Self> {
        wire.map(|wire| Self {
            low: wire.low,
            expected: wire.expected,
            high: wire.high,
        })
    }
}

impl Replay {
    fn from_wire(wire: v1::Replay) -> Self {
        Self {
            false_disconnects_per_day: Range::of(wire.false_disconnects_per_day),
            at_least: wire.at_least,
            unknown: super::told(wire.unknown),
            silences: wire.silences,
            events: wire.events,
            agent_days: wire.agent_days,
            detection_p50_ns: Range::of(wire.detection_p50_ns),
            detection_p99_ns: Range::of(wire.detection_p99_ns),
            deaths: wire.deaths,
            beats_per_second: Range::of(wire.beats_per_second),
            bytes_per_day: Range::of(wire.bytes_per_day),
            happened: wire.happened,
            open: wire.open,
        }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

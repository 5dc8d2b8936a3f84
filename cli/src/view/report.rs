use std::collections::BTreeMap;

use fleetbeat_proto::v1;
use serde::Serialize;

use super::Time;

/// `fleetbeat tune report`
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) revision: u64,
    pub(crate) parent: u64,
    pub(crate) made_at: Time,
    pub(crate) author: String,
    pub(crate) reason: String,
    pub(crate) changes: Vec<String>,
    /// Whose tuning it changed.
    pub(crate) agents: u64,
    /// Compared on either side.
    pub(crate) window_ns: u64,
    pub(crate) bounded_by: Option<String>,
    pub(crate) before: Side,
    pub(crate) after: Side,
    pub(crate) findings: Vec<Finding>,
    pub(crate) rtt_unknown: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Side {
    pub(crate) agent_days: f64,
    pub(crate) false_disconnects: u32,
    pub(crate) silences: u32,
    pub(crate) deaths: u32,
    pub(crate) opened: u64,
    /// By reason.
    pub(crate) ended: BTreeMap<String, u64>,
    pub(crate) beats_per_second: f64,
    pub(crate) offline_after_p50_ns: Option<u64>,
    pub(crate) offline_after_p99_ns: Option<u64>,
    pub(crate) rtt_p50_ns: Option<u64>,
    pub(crate) rtt_p99_ns: Option<u64>,
    pub(crate) rtt_samples: u64,
    /// Called offline, and nobody came back.
    pub(crate) open: u32,
    /// How many were called offline.
    pub(crate) offline: u64,
    /// Of those the dead, and their silence.
    pub(crate) dead: u64,
    pub(crate) dead_after_p50_ns: Option<u64>,
    pub(crate) dead_after_p99_ns: Option<u64>,
}

/// Whether something became rarer or more frequent.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: String,
    /// Per agent-day.
    pub(crate) before: Option<f64>,
    pub(crate) after: Option<f64>,
    /// Of so much difference without a cause.
    pub(crate) chance: Option<f64>,
    /// `fewer`, `more`, `no difference` or `too little data`.
    pub(crate) finding: String,
    pub(crate) events_before: u64,
    pub(crate) events_after: u64,
    /// How many events came together: the test counts so many as one.
    pub(crate) together: f64,
}

impl Report {
    pub(crate) fn from_wire(wire: v1::ReportRevisionResponse) -> Self {
        let finding = |finding: v1::ReportFinding| Finding {
            name: finding.name,
            before: finding.before,
            after: finding.after,
            chance: finding.chance,
            finding: finding.finding,
            events_before: finding.events_before,
            events_after: finding.events_after,
            together: finding.together,
        };
        Self {
            revision: wire.revision,
            parent: wire.parent,
            made_at: Time(wire.made_unix_us),
            author: wire.author,
            reason: wire.reason,
            changes: wire.changes,
            agents: wire.agents,
            window_ns: wire.window_ns,
            bounded_by: super::told(wire.bounded_by),
            before: Side::from_wire(wire.before.unwrap_or_default()),
            after: Side::from_wire(wire.after.unwrap_or_default()),
            findings: wire.findings.into_iter().map(finding).collect(),
            rtt_unknown: super::told(wire.rtt_unknown),
        }
    }
}

impl Side {
    fn from_wire(wire: v1::ReportSide) -> Self {
        Self {
            agent_days: wire.agent_days,
            false_disconnects: wire.false_disconnects,
            silences: wire.silences,
            deaths: wire.deaths,
            opened: wire.opened,
            ended: wire.ended.into_iter().collect(),
            beats_per_second: wire.beats_per_second,
            offline_after_p50_ns: wire.offline_after_p50_ns,
            offline_after_p99_ns: wire.offline_after_p99_ns,
            rtt_p50_ns: wire.rtt_p50_ns,
            rtt_p99_ns: wire.rtt_p99_ns,
            rtt_samples: wire.rtt_samples,
            open: wire.open,
            offline: wire.offline,
            dead: wire.dead,
            dead_after_p50_ns: wire.dead_after_p50_ns,
            dead_after_p99_ns: wire.dead_after_p99_ns,
        }
    }
}

use std::collections::BTreeMap;

use serde::Serialize;

/// What the story measured. The keys are stable; null means that the scene did not get there.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub agents: Agents,
    pub retune: Retune,
    pub silence: Silence,
    pub crash: Crash,
    pub postgres_restart: PostgresRestart,
    pub server_restart: ServerRestart,
    pub beats: Beats,
    /// Rows per table.
    pub rows: BTreeMap<String, u64>,
    /// Sentences about what did not hold; empty when all is well.
    pub unexpected: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
pub struct Agents {
    pub expected: u64,
    pub connected: Option<u64>,
}

/// One group's tuning was changed on its live sessions.
#[derive(Debug, Default, Serialize)]
pub struct Retune {
    pub revision: Option<u64>,
    /// Live agents to which the value went.
    pub targets: Option<u64>,
    pub acked: Option<u64>,
    /// Agents of the group whose session is another one than before.
    pub reconnects: Option<u64>,
    pub ack_ms: AckMs,
}

/// Time from the push to the ack, as the server measured it.
#[derive(Debug, Default, Serialize)]
pub struct AckMs {
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

/// The frozen agent, by the server's own event times, counted from its last message.
#[derive(Debug, Default, Serialize)]
#[expect(
    clippy::struct_field_names,
    reason = "the report's keys carry their unit"
)]
pub struct Silence {
    pub deadline_ms: Option<f64>,
    pub suspect_ms: Option<f64>,
    pub offline_ms: Option<f64>,
}

/// The killed agent.
#[derive(Debug, Default, Serialize)]
pub struct Crash {
    /// Why the server closed its session.
    pub reason: Option<String>,
    /// From the kill to the end of its session.
    pub detected_ms: Option<f64>,
}

#[derive(Debug, Default, Serialize)]
pub struct PostgresRestart {
    /// Openings and endings of sessions that happened meanwhile and are not recorded.
    pub events_lost: Option<u64>,
    pub duplicates: Option<u64>,
}

#[derive(Debug, Default, Serialize)]
pub struct ServerRestart {
    /// Agents that were called offline though they lived.
    pub false_offline: Option<u64>,
    /// From SIGTERM until every agent was online again.
    pub back_ms: Option<f64>,
}

/// Heartbeats of the simulated agents, which count exactly.
#[derive(Debug, Default, Serialize)]
pub struct Beats {
    /// PINGs that the transport took, without those that had no answer when the server ended their
    /// session: of these nobody can say whether they arrived.
    pub sent: Option<u64>,
    /// What Postgres has of the same agents.
    pub recorded: Option<u64>,
}

/// Milliseconds, to the microsecond.
#[expect(
    clippy::cast_precision_loss,
    reason = "a story's times are far below 2^52 microseconds"
)]
pub(super) fn ms(microseconds: i64) -> f64 {
    microseconds as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(value: &serde_json::Value) -> Vec<&str> {
        value
            .as_object()
            .map(|object| object.keys().map(String::as_str).collect())
            .unwrap_or_default()
    }

    #[test]
    fn every_key_is_there_before_anything_was_measured() {
        let report = serde_json::to_value(Report::default()).unwrap();
        let wanted = [
            ("agents", vec!["connected", "expected"]),
            ("beats", vec!["recorded", "sent"]),
            ("crash", vec!["detected_ms", "reason"]),
            ("postgres_restart", vec!["duplicates", "events_lost"]),
            (
                "retune",
                vec!["ack_ms", "acked", "reconnects", "revision", "targets"],
            ),
            ("rows", vec![]),
            ("server_restart", vec!["back_ms", "false_offline"]),
            ("silence", vec!["deadline_ms", "offline_ms", "suspect_ms"]),
            ("unexpected", vec![]),
        ];
        assert_eq!(keys(&report), wanted.each_ref().map(|(key, _)| *key));
        for (key, inner) in wanted {
            assert_eq!(keys(&report[key]), inner, "{key}");
        }
        assert_eq!(keys(&report["retune"]["ack_ms"]), ["p50", "p99"]);
    }
}

use comfy_table::{ContentArrangement, Table, presets};

use super::report::Report;

/// Columns of a usual terminal.
const WIDTH: u16 = 100;

impl Report {
    /// What happened, for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH);
        table.set_header(["what was done", "what was measured"]);
        for (done, measured) in self.lines() {
            table.add_row([done, &measured]);
        }
        let mut told = table.to_string();
        if self.unexpected.is_empty() {
            told.push_str("\nAll is well.");
        }
        for sentence in &self.unexpected {
            told.push_str("\nUNEXPECTED: ");
            told.push_str(sentence);
        }
        told
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let Self {
            agents,
            retune,
            silence,
            crash,
            postgres_restart,
            server_restart,
            beats,
            ..
        } = self;
        vec![
            (
                "fleet gathered",
                format!(
                    "{} of {} connected",
                    count(agents.connected),
                    agents.expected
                ),
            ),
            (
                "one group retuned live",
                format!(
                    "revision {}: {} of {} acknowledged, p50 {}, p99 {}; {} reconnected",
                    count(retune.revision),
                    count(retune.acked),
                    count(retune.targets),
                    ms(retune.ack_ms.p50),
                    ms(retune.ack_ms.p99),
                    count(retune.reconnects),
                ),
            ),
            (
                "one agent frozen",
                format!(
                    "suspect after {}, offline after {}; deadline {}",
                    ms(silence.suspect_ms),
                    ms(silence.offline_ms),
                    ms(silence.deadline_ms),
                ),
            ),
            (
                "one agent killed",
                format!(
                    "{} after {}",
                    crash.reason.as_deref().unwrap_or("?"),
                    ms(crash.detected_ms)
                ),
            ),
            (
                "Postgres restarted",
                format!(
                    "{} events lost, {} twice",
                    count(postgres_restart.events_lost),
                    count(postgres_restart.duplicates),
                ),
            ),
            (
                "server restarted",
                format!(
                    "all back after {}; {} wrongly offline",
                    ms(server_restart.back_ms),
                    count(server_restart.false_offline),
                ),
            ),
            (
                "beats",
                format!(
                    "{} sent, {} recorded",
                    count(beats.sent),
                    count(beats.recorded)
                ),
            ),
            (
                "rows",
                self.rows
                    .iter()
                    .map(|(table, rows)| format!("{table} {rows}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
        ]
    }
}

fn count(count: Option<u64>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}

fn ms(ms: Option<f64>) -> String {
    ms.map_or_else(|| "?".to_owned(), |ms| format!("{ms:.1} ms"))
}

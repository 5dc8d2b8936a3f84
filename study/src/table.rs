//! Tables in Markdown.

use std::time::Duration;

/// Columns after the first are set to the right.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self {
            rows: vec![head.iter().map(ToString::to_string).collect()],
        }
    }

    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }

    pub(crate) fn text(&self) -> String {
        let columns = self.rows[0].len();
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = line(&self.rows[0]);
        text.push_str("|---|");
        text.push_str(&"---:|".repeat(columns - 1));
        text.push('\n');
        for row in &self.rows[1..] {
            text.push_str(&line(row));
        }
        text
    }
}

/// `12.3 s`
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// `12,345`
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count for a quotient.
#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^52")]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

/// The nearest whole number; none below zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates stay below 2^52"
)]
pub(crate) fn whole(real: f64) -> u64 {
    real.round().max(0.0) as u64
}

/// Nearest rank; zero without samples. `sorted` is in order.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

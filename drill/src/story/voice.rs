use std::io::Write as _;
use std::time::Instant;

use crate::clock;

/// Tells each step as it happens, with the time since the beginning.
#[derive(Debug)]
pub(super) struct Voice {
    began: Instant,
}

impl Voice {
    pub(super) fn new() -> Self {
        Self {
            began: clock::now(),
        }
    }

    pub(super) fn say(&self, step: &str) {
        let at = clock::now()
            .saturating_duration_since(self.began)
            .as_secs_f64();
        print(&format!("[{at:6.1} s] {step}"));
    }
}

/// A closed terminal is no reason to end a story that writes a report.
pub(super) fn print(text: &str) {
    writeln!(std::io::stdout(), "{text}").ok();
}

//! How far a push is, on standard error: a bar on a terminal, else a line per change.

use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::tell;
use crate::table;
use crate::view::Progress;

const BAR: &str = "revision {prefix} [{bar:20}] {wide_msg}";

#[derive(Debug)]
pub(super) enum Meter {
    Bar(ProgressBar),
    Lines { last: Option<String> },
}

impl Meter {
    pub(super) fn start(revision: u64) -> Self {
        if !io::stderr().is_terminal() {
            return Self::Lines { last: None };
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(BAR) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(revision.to_string());
        Self::Bar(bar)
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        match self {
            Self::Bar(bar) => {
                bar.set_message(table::progress_brief(progress));
                bar.set_length(progress.targets);
                bar.set_position(progress.settled());
            }
            Self::Lines { last } => {
                let line = table::progress_line(progress);
                if last.as_ref() != Some(&line) {
                    tell(&format!("revision {}: {line}", progress.revision));
                    *last = Some(line);
                }
            }
        }
    }
}

impl Drop for Meter {
    /// The result that follows says the same and more.
    fn drop(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

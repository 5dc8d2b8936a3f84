//! Where text goes: results to standard output, everything else to standard error.

use std::io::{self, IsTerminal as _, Write};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};

/// Shape of what goes to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// For people.
    Table,
    /// For programs: one object per command, one per line for events.
    Json,
}

/// How a table may look where it is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Colours may be used.
    pub(crate) colour: bool,
}

impl Style {
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false };
}

/// Standard output.
#[derive(Debug)]
pub(crate) struct Output {
    shape: Shape,
    style: Style,
    sink: io::Stdout,
}

impl Output {
    pub(crate) fn new(shape: Shape) -> Self {
        let sink = io::stdout();
        let style = Style {
            colour: sink.is_terminal() && colour_wanted(),
        };
        Self { shape, style, sink }
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Shows `view` in the shape that was asked for. The table ends without a line break.
    pub(crate) fn show<V: Serialize>(
        &mut self,
        view: &V,
        table: impl FnOnce(&V, Style) -> String,
    ) -> Result<(), Failure> {
        let text = match self.shape {
            Shape::Table => table(view, self.style),
            Shape::Json => serde_json::to_string(view)
                .map_err(|e| Failure::new(Exit::Failed, format!("cannot write JSON: {e}")))?,
        };
        self.line(&text)
    }

    /// Writes one line of text as it is.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Writes bytes and hands them on at once.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.sink
            .write_all(bytes)
            .and_then(|()| self.sink.flush())
            .map_err(|error| {
                if error.kind() == io::ErrorKind::BrokenPipe {
                    Failure::ReaderGone
                } else {
                    Failure::new(Exit::Failed, format!("cannot write the output: {error}"))
                }
            })
    }
}

/// <https://no-color.org>: any value that is not empty means no.
fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A line to standard error. A closed one is no reason to fail.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

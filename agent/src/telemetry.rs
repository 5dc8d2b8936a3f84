//! Log lines on standard error.

mod lines;

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use crate::config::{LogFormat, LogLevel, Settings};

pub use lines::Lines;

/// Sets up logging for the process, once. Libraries are heard from warnings up, and in full at `trace`.
/// A reader of standard error that stopped reading costs log lines, never time; flush before the exit.
///
/// # Errors
/// The thread that writes cannot be started.
pub fn start(settings: &Settings) -> io::Result<Lines> {
    let level = level(settings.log_level);
    let others = if level == LevelFilter::TRACE {
        level
    } else {
        level.min(LevelFilter::WARN)
    };
    let queue = Lines::start(io::stderr())?;
    let lines = fmt::layer()
        .with_writer(queue.clone())
        .with_target(false)
        .with_ansi(false);
    let lines = match settings.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let filter = Targets::new()
        .with_default(others)
        .with_target(env!("CARGO_CRATE_NAME"), level);
    // Someone who embeds the agent may have a subscriber of their own.
    drop(
        tracing_subscriber::registry()
            .with(lines.with_filter(filter))
            .try_init(),
    );
    Ok(queue)
}

fn level(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

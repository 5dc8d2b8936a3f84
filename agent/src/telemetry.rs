//! Log lines on standard error.

use tracing::level_filters::LevelFilter;

use crate::config::{LogFormat, LogLevel, Settings};

/// Sets up logging for the process, once.
pub fn start(settings: &Settings) {
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level(settings.log_level))
        .with_target(false);
    let set = match settings.log_format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // Someone who embeds the agent may have a subscriber of their own.
    drop(set);
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

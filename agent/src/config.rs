//! What the agent is told: flags over environment over file over defaults.

mod example;
mod file;
mod flags;
mod keys;
mod route;
mod server;
mod settings;

pub use example::example;
pub use flags::{Command, Flags, Options};
pub use route::{Proxy, Route};
pub use server::ServerUrl;
pub use settings::{LogFormat, LogLevel, Settings};

use std::path::{Path, PathBuf};

/// Why a configuration is refused. Every message says what to change.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}:{line}: {message}", path.display())]
    File {
        path: PathBuf,
        line: usize,
        message: String,
    },
    #[error("{key}: {message}")]
    Value { key: &'static str, message: String },
}

impl Error {
    fn value(key: &'static str, message: impl Into<String>) -> Self {
        Self::Value {
            key,
            message: message.into(),
        }
    }
}

/// Merges the file that `options` names with the flags and the environment, the proxies in it included.
///
/// # Errors
/// The first value that is missing or out of bounds.
pub fn load(options: Options) -> Result<Settings, Error> {
    let file = match &options.config {
        Some(path) => file::File::parse(path, &read(path)?)?,
        None => file::File::default(),
    };
    Settings::merge(options, file, |name| std::env::var(name).ok())
}

/// Variables that look like the agent's own and mean nothing to it, each with the closest one that
/// does.
#[must_use]
pub fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<(String, &'static str)> {
    names
        .filter(|name| name.starts_with(keys::PREFIX))
        .filter(|name| !keys::variables().any(|known| known == name))
        .filter_map(|name| {
            let closest = keys::closest(&name, keys::variables())?;
            Some((name, closest))
        })
        .collect()
}

/// A configuration is some hundred bytes; this stops a wrong path from filling the memory.
const MAX_FILE: u64 = 1 << 20;

fn read(path: &Path) -> Result<String, Error> {
    let read = || {
        let size = std::fs::metadata(path)?.len();
        if size > MAX_FILE {
            return Err(std::io::Error::other("larger than 1 MiB"));
        }
        std::fs::read_to_string(path)
    };
    read().map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

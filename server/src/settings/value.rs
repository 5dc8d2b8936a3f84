//! Values that need more than their type to be right.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use fleetbeat_liveness::tuning::{INTERVAL_LEAST, INTERVAL_MOST, SILENCE_MOST};
use fleetbeat_liveness::{Keepalive, Tuning};
use tracing_subscriber::EnvFilter;

const LONGEST_NAME: usize = 63;
const SHORTEST_SILENCE: Duration = Duration::from_secs(1);
const LONGEST_DRAIN: Duration = Duration::from_hours(1);

/// A Postgres connection URL. It holds a password: what is displayed leaves it out.
#[derive(Clone)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The whole URL with its password; never for logs or pages.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for DatabaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text
            .strip_prefix("postgres://")
            .or_else(|| text.strip_prefix("postgresql://"))
            .ok_or("expected postgres://user:password@host:port/database")?;
        if rest.is_empty() {
            return Err(
                "it names no host; expected postgres://user:password@host:port/database".into(),
            );
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        // Cut at the last `@` before looking for `?`: a password may hold either unescaped.
        let (user, rest) = match rest.rsplit_once('@') {
            Some((secret, rest)) => (secret.split([':', '/', '?']).next(), rest),
            None => (None, rest),
        };
        let place = rest.split('?').next().unwrap_or_default();
        match user {
            Some(user) => write!(f, "postgres://{user}:***@{place}"),
            None => write!(f, "postgres://{place}"),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Who may read `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MetricsAccess {
    /// A token when the address is beyond loopback
    Auto,
    /// Always a token
    Token,
    /// Never a token
    Open,
}

pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected an IP address and a port, such as 127.0.0.1:7601 or [::]:7601".to_owned()
    })
}

pub(super) fn server_name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.len() <= LONGEST_NAME;
    if fits
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "expected 1 to {LONGEST_NAME} letters, digits, dots, dashes or underscores"
        ))
    }
}

pub(super) fn drain_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text)
        .map_err(|_| "expected a time such as 500ms, 10s or 2m".to_owned())?;
    if time > LONGEST_DRAIN {
        return Err("expected at most 1h".to_owned());
    }
    Ok(time)
}

/// The shortest interval that a fleet allows.
pub(super) fn interval_limit(text: &str) -> Result<Duration, String> {
    limit(text, INTERVAL_LEAST..=INTERVAL_MOST)
}

/// The longest silence that a fleet allows.
pub(super) fn silence_limit(text: &str) -> Result<Duration, String> {
    limit(text, SHORTEST_SILENCE..=SILENCE_MOST)
}

fn limit(text: &str, bounds: RangeInclusive<Duration>) -> Result<Duration, String> {
    let expected = || {
        let shown = |time: &Duration| humantime::format_duration(*time).to_string();
        format!(
            "expected a time from {} to {}",
            shown(bounds.start()),
            shown(bounds.end())
        )
    };
    let time = humantime::parse_duration(text).map_err(|_| expected())?;
    if bounds.contains(&time) {
        Ok(time)
    } else {
        Err(expected())
    }
}

/// One that contradicts the tuning of an agent without a policy would never be what is meant.
pub(super) fn keepalive(text: &str) -> Result<Keepalive, String> {
    let keepalive: Keepalive = text.parse().map_err(|error| format!("{error}"))?;
    let checked = keepalive.check(&Tuning::default());
    checked
        .map(|()| keepalive)
        .map_err(|error| error.to_string())
}

pub(super) fn log_filter(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{error}; expected such as info or info,sqlx=debug")),
    }
}

pub(super) fn http_url(text: &str) -> Result<String, String> {
    match text.parse::<http::Uri>() {
        Ok(uri) if uri.authority().is_some() && uri.scheme_str() == Some("http") => {
            Ok(text.to_owned())
        }
        _ => Err("expected http://host:port of a collector that takes OTLP over gRPC".to_owned()),
    }
}

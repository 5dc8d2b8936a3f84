//! Configuration: declared once, read from flags, environment and a TOML file.
//!
//! The structs below are the only declaration. A setting's id is its TOML key (`lane.listen`); the
//! flag (`--lane-listen`), the environment variable (`FLEETBEAT_LANE_LISTEN`), the help text and the
//! documented example file are derived from it. Flags win over the environment, the environment over
//! the file, the file over defaults; all four pass through one parser.

mod declaration;
mod example;
mod file;
mod layers;
mod report;
#[cfg(test)]
mod tests;
mod tls;
mod value;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use fleetbeat_liveness::Keepalive;
use fleetbeat_liveness::bounds::Bounds;

pub use declaration::DEFAULT_FILE;
pub use layers::{Asked, Refusal, read};
pub use tls::{TlsFiles, Unusable};
pub use value::{DatabaseUrl, LogFormat, MetricsAccess};

/// Everything that can be set.
#[derive(Debug, Clone, clap::Args)]
pub struct Settings {
    /// Name of this server, shown to agents and operators; the host's name when unset
    ///
    /// Example: `beat-1`
    #[arg(id = "name", value_name = "NAME", value_parser = value::server_name)]
    pub name: Option<String>,
    /// Directory for the private Postgres and the first operator token
    #[arg(
        id = "data_dir",
        value_name = "DIR",
        default_value = "/var/lib/fleetbeat-server"
    )]
    pub data_dir: PathBuf,
    /// How long a stopping server waits for its agents to leave
    #[arg(id = "drain_time", value_name = "TIME", default_value = "10s", value_parser = value::drain_time)]
    pub drain_time: Duration,
    /// How agents are served.
    #[command(flatten)]
    pub lane: Lane,
    /// How operators are served.
    #[command(flatten)]
    pub operator: Operator,
    /// Where history is kept.
    #[command(flatten)]
    pub database: Database,
    /// What no policy may exceed unless it is forced.
    #[command(flatten)]
    pub limits: Limits,
    /// What is logged.
    #[command(flatten)]
    pub log: Log,
    /// Where traces and metrics are sent.
    #[command(flatten)]
    pub otlp: Otlp,
}

/// The port of the agents.
#[derive(Debug, Clone, clap::Args)]
pub struct Lane {
    /// Address for agents; beyond loopback it needs `lane.tls.cert` and `lane.tls.key`
    #[arg(id = "lane.listen", value_name = "ADDR", default_value = "127.0.0.1:7601", value_parser = value::listen)]
    pub listen: SocketAddr,
    /// Lanes (threads that carry heartbeats); 0 means one per core
    #[arg(id = "lane.count", value_name = "N", default_value = "0", value_parser = RangedU64ValueParser::<u16>::new().range(0..=256))]
    pub count: u16,
    /// Agents per second that may come back together: lost sessions spread their first attempt so
    ///
    /// With n sessions the spread is n / rate, at least 1 s and at most 60 s or half the agent's
    /// deadline, whichever is less.
    #[arg(id = "lane.reconnect_rate", value_name = "PER_SECOND", default_value = "60", value_parser = RangedU64ValueParser::<u32>::new().range(1..=1_000_000))]
    pub reconnect_rate: u32,
    /// Sessions per second that this server opens.
    ///
    /// As many at once after a second of quiet. Others are told when to come back, one after the other, and
    /// are `unknown` until then.
    #[arg(id = "lane.admission_rate", value_name = "PER_SECOND", default_value = "1000", value_parser = RangedU64ValueParser::<u32>::new().range(1..=1_000_000))]
    pub admission_rate: u32,
    /// TCP keepalive behind the heartbeats: first probe after, gap between probes, number of probes
    ///
    /// It is raised by itself where a tuning in force would contradict it.
    #[arg(id = "lane.keepalive", value_name = "IDLE/GAP/PROBES", default_value = "120s/30s/3", value_parser = value::keepalive)]
    pub keepalive: Keepalive,
    /// Certificate chain of the agents' port, PEM
    ///
    /// Example: `/etc/fleetbeat/lane.crt`
    #[arg(id = "lane.tls.cert", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key that belongs to `lane.tls.cert`, PEM
    ///
    /// Example: `/etc/fleetbeat/lane.key`
    #[arg(id = "lane.tls.key", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
}

/// The port of the operators: gRPC, `/metrics` and `/healthz`.
#[derive(Debug, Clone, clap::Args)]
pub struct Operator {
    /// Address for operators and scrapers; beyond loopback it needs `operator.tls.cert` and `operator.tls.key`
    #[arg(id = "operator.listen", value_name = "ADDR", default_value = "127.0.0.1:7602", value_parser = value::listen)]
    pub listen: SocketAddr,
    /// Certificate chain of the operators' port, PEM
    ///
    /// Example: `/etc/fleetbeat/operator.crt`
    #[arg(id = "operator.tls.cert", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key that belongs to `operator.tls.cert`, PEM
    ///
    /// Example: `/etc/fleetbeat/operator.key`
    #[arg(id = "operator.tls.key", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Whether `/metrics` wants a bearer token; `auto` wants one when the address is beyond loopback
    #[arg(id = "operator.metrics", value_name = "RULE", default_value = "auto")]
    pub metrics: MetricsAccess,
}

/// Postgres.
#[derive(Debug, Clone, clap::Args)]
pub struct Database {
    /// Postgres to use; when unset the server runs a private one in its data directory
    ///
    /// On the command line other users of the host can read it: prefer the environment or the file.
    ///
    /// Example: `postgres://fleetbeat:secret@db.example.com/fleetbeat`
    #[arg(id = "database.url", value_name = "URL", hide_env_values = true)]
    pub url: Option<DatabaseUrl>,
    /// Directory with `initdb` and `postgres` for the private Postgres; searched for when unset
    ///
    /// Example: `/usr/lib/postgresql/15/bin`
    #[arg(id = "database.bin_dir", value_name = "DIR")]
    pub bin_dir: Option<PathBuf>,
}

/// Limits of the whole fleet for its tuning.
#[derive(Debug, Clone, clap::Args)]
pub struct Limits {
    /// Shortest interval T that a policy may give (200ms … 1h)
    #[arg(id = "limits.interval", value_name = "TIME", default_value = "200ms", value_parser = value::interval_limit)]
    pub interval: Duration,
    /// Longest silence that a policy may tolerate: D, in adaptive mode 2·D (1s … 24h)
    #[arg(id = "limits.silence", value_name = "TIME", default_value = "24h", value_parser = value::silence_limit)]
    pub silence: Duration,
    /// Heartbeats per second that all known agents together may be expected to send
    ///
    /// With n agents at interval T it is n / (0.95·T). A change that would exceed it is refused with the
    /// numbers.
    #[arg(id = "limits.beats", value_name = "PER_SECOND", default_value = "50000", value_parser = RangedU64ValueParser::<u32>::new().range(1..=100_000_000))]
    pub beats: u32,
}

impl Limits {
    /// What changes are held against.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds {
            interval_least: self.interval,
            deadline_most: self.silence,
            beats_per_second_most: f64::from(self.beats),
        }
    }
}

/// Logs, on standard error.
#[derive(Debug, Clone, clap::Args)]
pub struct Log {
    /// Form of log lines
    #[arg(id = "log.format", value_name = "FORMAT", default_value = "text")]
    pub format: LogFormat,
    /// What is logged: a level, and levels for parts of the program
    #[arg(id = "log.filter", value_name = "FILTER", default_value = "info,h2=warn,hyper=warn,sqlx=warn", value_parser = value::log_filter)]
    pub filter: String,
}

/// OpenTelemetry over gRPC.
#[derive(Debug, Clone, clap::Args)]
pub struct Otlp {
    /// Collector that receives traces and metrics; nothing is sent when unset
    ///
    /// Example: `http://127.0.0.1:4317`
    #[arg(id = "otlp.endpoint", value_name = "URL", value_parser = value::http_url)]
    pub endpoint: Option<String>,
}

/// One setting that is wrong beside the others, though right by itself.
#[derive(Debug)]
pub(crate) struct Contradiction {
    pub(crate) key: &'static str,
    pub(crate) text: String,
}

impl Settings {
    /// Settings that cannot stand together, certificates that cannot be loaded.
    pub(crate) fn contradictions(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        let lane = tls::Port {
            listen: ("lane.listen", self.lane.listen),
            cert: ("lane.tls.cert", self.lane.tls_cert.as_deref()),
            key: ("lane.tls.key", self.lane.tls_key.as_deref()),
        };
        let operator = tls::Port {
            listen: ("operator.listen", self.operator.listen),
            cert: ("operator.tls.cert", self.operator.tls_cert.as_deref()),
            key: ("operator.tls.key", self.operator.tls_key.as_deref()),
        };
        lane.check(&mut found);
        operator.check(&mut found);
        if self.lane.listen == self.operator.listen && self.lane.listen.port() != 0 {
            found.push(Contradiction {
                key: "operator.listen",
                text: "agents and operators need two addresses; choose another port".into(),
            });
        }
        found
    }

    /// Name of this server: as set, else the host's.
    #[must_use]
    pub fn server_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            std::fs::read_to_string("/proc/sys/kernel/hostname")
                .map_or_else(|_| "fleetbeat-server".into(), |name| name.trim().to_owned())
        })
    }
}

impl Lane {
    /// Certificate and key, when TLS is configured.
    #[must_use]
    pub fn tls(&self) -> Option<TlsFiles> {
        TlsFiles::pair(self.tls_cert.as_ref(), self.tls_key.as_ref())
    }
}

impl Operator {
    /// Certificate and key, when TLS is configured.
    #[must_use]
    pub fn tls(&self) -> Option<TlsFiles> {
        TlsFiles::pair(self.tls_cert.as_ref(), self.tls_key.as_ref())
    }

    /// Whether `/metrics` is refused without a token.
    #[must_use]
    pub fn metrics_want_token(&self) -> bool {
        match self.metrics {
            MetricsAccess::Auto => !tls::is_loopback(self.listen),
            MetricsAccess::Token => true,
            MetricsAccess::Open => false,
        }
    }
}

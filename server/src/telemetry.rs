//! Logs, metrics and traces.
//!
//! Logs are lines on standard error, written by a thread of their own. Metrics are read by `/metrics`
//! and, with `otlp.endpoint`, sent to a collector; both read counters and snapshots when asked, so a
//! heartbeat never meets an instrument. Traces exist only with `otlp.endpoint` and only for calls of
//! operators and what follows from them. Whatever is slow here drops and counts; nothing waits for it.

mod census;
mod figures;
mod histograms;
mod instruments;
mod lines;
mod metrics;
mod process;
#[cfg(test)]
mod tests;
mod traces;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::Resource;
use tokio::runtime::Handle;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, Layer as _};
use uuid::Uuid;

use crate::settings::{LogFormat, Settings};

pub use census::{Census, Counted, Verdicts};
pub use figures::{JudgeFigures, Recording, judge_figures};
pub use instruments::Sources;
pub use lines::LostLines;
pub use metrics::Metrics;
pub(crate) use process::open_files_limit;
pub use traces::{TRACED, context_of, parent_of, traceparent};

/// How long the end of the process waits for a collector, and for a reader of the log.
const FLUSH: Duration = Duration::from_secs(2);

/// Why telemetry cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The exporter of `otlp.endpoint` cannot be built.
    #[error("cannot prepare the export to {endpoint}; check `otlp.endpoint`")]
    Export {
        /// As configured.
        endpoint: String,
        /// Why.
        source: ExporterBuildError,
    },
    /// The Prometheus registry refuses a metric.
    #[error("cannot register metrics")]
    Metrics(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The filter does not parse.
    #[error("cannot use `log.filter`")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Another subscriber is in place.
    #[error("cannot install the log")]
    Install(#[from] TryInitError),
    /// The thread that writes log lines cannot start.
    #[error("cannot start the log's thread")]
    Thread(#[source] io::Error),
}

/// Telemetry of this process; `stop` it last.
#[derive(Debug)]
pub struct Telemetry {
    /// What `/metrics` shows, and where instruments are registered.
    pub metrics: Metrics,
    traces: Option<traces::Traces>,
    lines: lines::Lines,
}

impl Telemetry {
    /// Installs the log and, when configured, the export. Background work of the export runs on
    /// `control`. Call once per process.
    pub fn start(settings: &Settings, server_id: Uuid, control: &Handle) -> Result<Self, Error> {
        let resource = resource(settings, server_id);
        let lines = lines::Lines::start(io::stderr()).map_err(Error::Thread)?;
        let endpoint = settings.otlp.endpoint.as_deref();
        let (traces, metrics) = {
            // The exporters' connections belong to the runtime that is entered here.
            let _entered = control.enter();
            let traces = endpoint.map(|url| traces::Traces::start(url, resource.clone()));
            (
                traces.transpose()?,
                Metrics::start(endpoint, resource, lines.lost())?,
            )
        };
        let log = tracing_subscriber::fmt::layer()
            .with_writer(lines.writer())
            .with_ansi(io::stderr().is_terminal());
        let log = match settings.log.format {
            LogFormat::Text => log.with_target(false).boxed(),
            LogFormat::Json => log.json().flatten_event(true).boxed(),
        };
        tracing_subscriber::registry()
            .with(traces.as_ref().map(traces::Traces::layer))
            .with(log.with_filter(EnvFilter::try_new(&settings.log.filter)?))
            .try_init()?;
        Ok(Self {
            metrics,
            traces,
            lines,
        })
    }

    /// Sends what waits, for at most a few seconds. Blocks: not for an async task.
    pub fn stop(self) {
        if let Some(traces) = self.traces {
            traces.stop(FLUSH);
        }
        self.metrics.stop(FLUSH);
        self.lines.flush(FLUSH);
    }
}

fn resource(settings: &Settings, server_id: Uuid) -> Resource {
    Resource::builder()
        .with_service_name("fleetbeat-server")
        .with_attributes([
            KeyValue::new("service.namespace", "fleetbeat"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", server_id.to_string()),
            KeyValue::new("host.name", settings.server_name()),
        ])
        .build()
}

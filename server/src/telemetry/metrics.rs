//! The metrics of this process: one provider, read by Prometheus and, when configured, sent by OTLP.

use std::time::Duration;

use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_otlp::{MetricExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{Instrument, PeriodicReader, SdkMeterProvider, Stream};
use prometheus::{Registry, TextEncoder};

use super::{Error, LostLines, process};

/// Series of one instrument: 5 verdicts in each of 1,000 groups and `other`, and room.
const SERIES: usize = 6000;
const SEND_EVERY: Duration = Duration::from_secs(30);
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Metrics of this process.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    provider: SdkMeterProvider,
}

impl Metrics {
    pub(super) fn start(
        endpoint: Option<&str>,
        resource: Resource,
        lost: LostLines,
    ) -> Result<Self, Error> {
        let registry = Registry::new();
        // Instruments carry their whole name, so that one spelling serves both readers.
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .without_units()
            .without_counter_suffixes()
            .scope_info_enabled(false)
            .build()
            .map_err(|error| Error::Metrics(error.into()))?;
        let mut provider = SdkMeterProvider::builder()
            .with_reader(reader)
            .with_resource(resource)
            .with_view(|_: &Instrument| {
                Stream::builder()
                    .with_cardinality_limit(SERIES)
                    .build()
                    .ok()
            });
        if let Some(endpoint) = endpoint {
            let exporter = MetricExporter::builder()
                .with_tonic()
                .with_endpoint(endpoint)
                .with_timeout(EXPORT_TIMEOUT)
                .build()
                .map_err(|source| Error::Export {
                    endpoint: endpoint.to_owned(),
                    source,
                })?;
            let sender = PeriodicReader::builder(exporter)
                .with_interval(SEND_EVERY)
                .build();
            provider = provider.with_reader(sender);
        }
        let metrics = Self {
            registry,
            provider: provider.build(),
        };
        process::register(&metrics.meter(), lost);
        Ok(metrics)
    }

    /// Metrics that are only scraped, with nothing but the process's own at first.
    pub fn for_scraping() -> Result<Self, Error> {
        let resource = Resource::builder()
            .with_service_name("fleetbeat-server")
            .build();
        Self::start(None, resource, LostLines::default())
    }

    /// Where instruments are made.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.provider.meter("fleetbeat-server")
    }

    /// Where collectors that keep their own histograms are registered.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Everything in Prometheus' text format.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    pub(super) fn stop(&self, patience: Duration) {
        if let Err(error) = self.provider.shutdown_with_timeout(patience) {
            tracing::warn!(%error, "The last metrics were not sent");
        }
    }
}

//! Traces of what operators ask for: sent to a collector in batches by a thread of the exporter, from
//! a bounded queue that drops when full.

use std::time::Duration;

use http::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _, TracerProvider as _};
use opentelemetry::{Context, global};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

use super::Error;

/// Target of the spans that are traced; spans of libraries and lanes are not.
pub const TRACED: &str = "fleetbeat::trace";

/// Spans that may wait: a retune of a large fleet makes one per agent at once.
const WAITING: usize = 65_536;
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Needs an entered runtime for the exporter's connection.
    pub(super) fn start(endpoint: &str, resource: Resource) -> Result<Self, Error> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|source| Error::Export {
                endpoint: endpoint.to_owned(),
                source,
            })?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(WAITING)
            .build();
        let processor = BatchSpanProcessor::builder(exporter)
            .with_batch_config(batches)
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource)
            .build();
        global::set_tracer_provider(provider.clone());
        Ok(Self { provider })
    }

    pub(super) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("fleetbeat-server"))
            .with_location(false)
            .with_threads(false)
            .with_filter(Targets::new().with_target(TRACED, LevelFilter::INFO))
    }

    pub(super) fn stop(&self, patience: Duration) {
        if let Err(error) = self.provider.shutdown_with_timeout(patience) {
            tracing::warn!(%error, "Some traces were not sent");
        }
    }
}

/// The caller's trace context (W3C `traceparent`), empty when there is none.
#[must_use]
pub fn parent_of(headers: &HeaderMap) -> Context {
    struct Headers<'a>(&'a HeaderMap);
    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key).and_then(|value| value.to_str().ok())
        }
        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(http::HeaderName::as_str).collect()
        }
    }
    TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers))
}

/// The context that a W3C `traceparent` names, empty when it names none.
#[must_use]
pub fn context_of(traceparent: &str) -> Context {
    let mut headers = HeaderMap::new();
    if let Ok(value) = traceparent.parse() {
        headers.insert("traceparent", value);
    }
    parent_of(&headers)
}

/// W3C `traceparent` of a context, empty when it is not traced.
#[must_use]
pub fn traceparent(context: &Context) -> String {
    let span = context.span();
    let span: &SpanContext = span.span_context();
    if !span.is_valid() {
        return String::new();
    }
    let flags = span.trace_flags().to_u8();
    format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id())
}

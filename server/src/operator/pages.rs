//! What the port answers besides `FleetService`.

use std::sync::Arc;

use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use fleetbeat_proto::FILE_DESCRIPTOR_SET;
use fleetbeat_proto::v1::fleet_service_server::{FleetService, FleetServiceServer};
use http::{StatusCode, header};
use tokio::sync::watch;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tonic_reflection::server::Builder as Reflection;

use super::Door;
use crate::telemetry::Metrics;

/// Largest request of an operator.
const LARGEST: usize = 64 * 1024;

/// Whether this server takes work; told by the health service and `/healthz`.
#[derive(Clone, Debug)]
pub struct Readiness {
    reporter: HealthReporter,
    serving: Arc<watch::Sender<bool>>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            reporter: HealthReporter::new(),
            serving: Arc::new(watch::Sender::new(false)),
        }
    }
}

impl Readiness {
    /// Tells that the server serves, or that it is starting or stopping.
    pub async fn set(&self, serving: bool) {
        let status = if serving {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        self.serving.send_replace(serving);
        for service in [
            "",
            "fleetbeat.v1.FleetService",
            "fleetbeat.v1.SessionService",
        ] {
            self.reporter.set_service_status(service, status).await;
        }
    }

    fn page(&self) -> Response {
        if *self.serving.borrow() {
            "ok\n".into_response()
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping\n").into_response()
        }
    }
}

/// Everything on the operators' port, behind `door`.
///
/// # Errors
/// When the descriptors of the contract cannot be read.
pub fn pages<F: FleetService>(
    fleet: F,
    door: Arc<Door>,
    readiness: Readiness,
    metrics: Metrics,
) -> Result<axum::Router, tonic_reflection::server::Error> {
    let fleet = FleetServiceServer::new(fleet).max_decoding_message_size(LARGEST);
    let health = HealthServer::new(HealthService::from_health_reporter(
        readiness.reporter.clone(),
    ));
    let described = || {
        Reflection::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let routes = Routes::new(fleet)
        .add_service(health)
        .add_service(described().build_v1()?)
        .add_service(described().build_v1alpha()?);
    Ok(routes
        .into_axum_router()
        .route("/healthz", get(async move || readiness.page()))
        .route("/metrics", get(metrics_page).with_state(metrics))
        .layer(from_fn_with_state(door, Door::pass)))
}

async fn metrics_page(State(metrics): State<Metrics>) -> Response {
    match metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "Metrics cannot be rendered");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "metrics cannot be rendered\n",
            )
                .into_response()
        }
    }
}

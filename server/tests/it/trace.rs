//! A retune is one trace, from the operator's call to every agent's answer, and nothing else is traced.

use std::net::SocketAddr;
use std::sync::Arc;

use fleetbeat_proto::v1::tuning_ack::Outcome;
use fleetbeat_server::settings::{self, Asked, Settings};
use fleetbeat_server::telemetry::Telemetry;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use crate::office::{Office, interval, set};
use crate::retune::{outcome, web};

/// A collector that keeps what it is sent.
#[derive(Clone, Default)]
struct Sink {
    spans: Arc<Mutex<Vec<Span>>>,
    resource: Arc<Mutex<Option<Resource>>>,
}

#[tonic::async_trait]
impl TraceService for Sink {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for sent in request.into_inner().resource_spans {
            *self.resource.lock() = sent.resource;
            for scope in sent.scope_spans {
                self.spans.lock().extend(scope.spans);
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Sink {
    async fn start() -> (Self, SocketAddr, DropGuard) {
        let sink = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serve = tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(sink.clone()))
            .serve_with_incoming_shutdown(
                TcpListenerStream::new(listener),
                stop.clone().cancelled_owned(),
            );
        TaskTracker::new().spawn(serve);
        (sink, address, stop.drop_guard())
    }

    fn named(&self, name: &str) -> Vec<Span> {
        let spans = self.spans.lock();
        spans
            .iter()
            .filter(|span| span.name == name)
            .cloned()
            .collect()
    }
}

fn settings(endpoint: &str) -> Settings {
    let args = [
        "fleetbeat-server",
        "--otlp-endpoint",
        endpoint,
        "--config",
        "/dev/null",
    ];
    match settings::read(args.map(Into::into), |_| None) {
        Ok(Asked::Run(settings)) => *settings,
        other => panic!("expected settings, got {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retune_is_one_trace_from_the_call_to_every_answer() {
    let (sink, address, _stop) = Sink::start().await;
    let settings = settings(&format!("http://{address}"));
    let control = tokio::runtime::Handle::current();
    let telemetry = Telemetry::start(&settings, Uuid::new_v4(), &control).unwrap();

    let office = Office::open().await;
    let (mut calm, mut stubborn) = (web(&office, 1).await, web(&office, 2).await);
    calm.ping(1, 0).await;
    let mut client = office.client().await;
    let mut request = Request::new(set("web", interval(5_000)));
    let (trace, caller) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let traceparent = format!("00-{trace}-{caller}-01");
    request
        .metadata_mut()
        .insert("traceparent", traceparent.parse().unwrap());
    client.set_tuning(request).await.unwrap();
    calm.ack(Outcome::Applied).await;
    stubborn.ack(Outcome::Refused).await;
    let progress = outcome(&mut client, 1).await;
    assert_eq!((progress.applied, progress.refused), (1, 1));
    office.database.stop().await;
    tokio::task::spawn_blocking(|| telemetry.stop())
        .await
        .unwrap();

    let [asked] = &sink.named("fleetbeat.v1.FleetService/SetTuning")[..] else {
        panic!("one call expected in {:?}", sink.spans.lock())
    };
    let [push] = &sink.named("tuning push")[..] else {
        panic!("one push expected in {:?}", sink.spans.lock())
    };
    let acks = sink.named("tuning ack");
    assert_eq!(acks.len(), 2, "{acks:?}");
    assert_eq!(hex(&asked.parent_span_id), caller);
    assert_eq!(push.parent_span_id, asked.span_id);
    assert!(acks.iter().all(|ack| ack.parent_span_id == push.span_id));
    let spans = sink.spans.lock();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == trace));
    assert_eq!(
        spans.len(),
        4,
        "heartbeats and libraries are not traced: {spans:?}"
    );
    let refused: Vec<_> = acks.iter().filter_map(|ack| ack.status.as_ref()).collect();
    assert!(
        refused.iter().any(|status| status.message == "no"),
        "{refused:?}"
    );
    let resource = format!("{:?}", sink.resource.lock());
    for attribute in ["service.name", "fleetbeat-server", "service.instance.id"] {
        assert!(
            resource.contains(attribute),
            "{attribute} is missing in {resource}"
        );
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

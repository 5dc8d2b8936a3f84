//! Where a stream becomes a session: the generated service, called directly for each connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use fleetbeat_proto::v1::FromAgent;
use fleetbeat_proto::v1::session_service_server::{SessionService, SessionServiceServer};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tonic::{Request, Response, Status, Streaming};
use tower::Service as _;

use super::Context;
use super::mail::Mail;
use super::pump::Pump;
use crate::registry::{Link, Outbox};

/// Largest message of an agent.
const MESSAGE_BYTES: usize = 64 * 1024;

/// The service as one connection sees it.
#[derive(Clone, Debug)]
pub(super) struct Service {
    inner: SessionServiceServer<Door>,
}

/// Pumps that streams of this connection brought, until the connection takes them in.
#[derive(Clone, Debug, Default)]
pub(super) struct Porch(Arc<Mutex<Vec<Pump>>>);

#[derive(Debug)]
pub(super) struct Door {
    context: Arc<Context>,
    peer: SocketAddr,
    link: Arc<Link>,
    porch: Porch,
}

impl Porch {
    pub(super) fn take(&self) -> Option<Pump> {
        self.0.lock().pop()
    }
}

impl Service {
    pub(super) fn new(
        context: &Arc<Context>,
        peer: SocketAddr,
        link: &Arc<Link>,
        porch: &Porch,
    ) -> Self {
        let door = Door {
            context: Arc::clone(context),
            peer,
            link: Arc::clone(link),
            porch: porch.clone(),
        };
        Self {
            inner: SessionServiceServer::new(door).max_decoding_message_size(MESSAGE_BYTES),
        }
    }
}

impl hyper::service::Service<http::Request<Incoming>> for Service {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = <SessionServiceServer<Door> as tower::Service<http::Request<Incoming>>>::Future;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        self.inner.clone().call(request)
    }
}

#[tonic::async_trait]
impl SessionService for Door {
    type OpenStream = Mail;

    async fn open(&self, request: Request<Streaming<FromAgent>>) -> Result<Response<Mail>, Status> {
        let outbox = Arc::new(Outbox::default());
        let pump = Pump::new(
            request.into_inner(),
            Arc::clone(&outbox),
            Arc::clone(&self.link),
            Arc::clone(&self.context),
            self.peer,
        );
        self.porch.0.lock().push(pump);
        Ok(Response::new(Mail::new(outbox, Arc::clone(&self.context))))
    }
}

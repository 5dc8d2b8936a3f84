use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::session_service_client::SessionServiceClient;
use futures_util::{Stream, StreamExt as _, TryFutureExt as _};
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::{Code, Status};

use super::outbox::Outbox;
use super::{Error, Wire, socket};

/// Smaller windows save nothing, and let HTTP/2 take a peer that was stopped for an abuser.
const CONNECTION_WINDOW: u32 = 1 << 20;
const STREAM_WINDOW: u32 = 256 << 10;
/// Bound of one message of the contract.
const MAX_MESSAGE: usize = 64 << 10;
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("fleetbeat-agent/", env!("CARGO_PKG_VERSION")));

type Inbound = Pin<Box<dyn Stream<Item = Result<v1::FromServer, Status>> + Send>>;

/// One connection that carries one stream. Dropping it ends both at once.
pub(crate) struct Link {
    pub outbox: Outbox,
    pub socket: socket::Handle,
    inbound: Option<Inbound>,
    fate: Fate,
    _tasks: Tasks,
}

impl Link {
    pub(super) async fn open(
        wire: Box<dyn Wire>,
        socket: socket::Handle,
        origin: Uri,
    ) -> Result<Self, Error> {
        let tasks = Tasks::default();
        let (requests, connection) = Builder::new(Executor(Arc::downgrade(&tasks)))
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(STREAM_WINDOW)
            .handshake(TokioIo::new(wire))
            .await
            .map_err(Error::Http2)?;
        let fate = Fate::default();
        let told = Arc::clone(&fate);
        spawn(&tasks, async move {
            let mut connection = Box::pin(connection);
            if let Err(error) = connection.as_mut().await {
                // Before the connection is dropped, which ends its stream.
                let _ = told.set(Arc::new(error));
            }
        });
        let outbox = Outbox::default();
        let mut client = SessionServiceClient::with_origin(Requests(requests), origin)
            .max_decoding_message_size(MAX_MESSAGE);
        let sending = outbox.clone();
        let opening = async move { client.open(sending).await.map(tonic::Response::into_inner) };
        Ok(Self {
            outbox,
            socket,
            inbound: Some(Box::pin(opening.try_flatten_stream())),
            fate,
            _tasks: tasks,
        })
    }

    /// The next message; the stream opens on the first call. `Ok(None)` and errors are final.
    pub(crate) async fn receive(&mut self) -> Result<Option<v1::FromServer>, Status> {
        let Some(inbound) = &mut self.inbound else {
            return Ok(None);
        };
        let received = inbound.next().await.transpose();
        if !matches!(received, Ok(Some(_))) {
            self.inbound = None;
        }
        received.map_err(|status| match self.fate.get() {
            // A stream that its connection took along does not know why.
            Some(why) if status.code() == Code::Cancelled => {
                Status::from_error(Box::new(Gone(Arc::clone(why))))
            }
            Some(_) | None => status,
        })
    }

    /// Closes this side behind what waits, and gives the server up to `within` to end the stream.
    pub(crate) async fn finish(mut self, within: Duration) {
        self.outbox.close();
        let ended = async { while let Ok(Some(_)) = self.receive().await {} };
        // Late or not, the connection ends here.
        let _ = timeout(within, ended).await;
    }
}

/// Why a connection ended.
type Fate = Arc<OnceLock<Arc<hyper::Error>>>;

/// The end of the connection, as the end of its stream.
#[derive(Debug, thiserror::Error)]
#[error("the connection ended")]
struct Gone(#[source] Arc<hyper::Error>);

/// Everything that HTTP/2 runs for one connection; it ends with its owner.
type Tasks = Arc<Mutex<JoinSet<()>>>;

fn spawn(tasks: &Tasks, task: impl Future<Output = ()> + Send + 'static) {
    tasks
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .spawn(task);
}

/// Lets HTTP/2 add to the tasks of its connection without keeping any of them alive.
#[derive(Clone)]
struct Executor(Weak<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Executor {
    fn execute(&self, task: F) {
        if let Some(tasks) = self.0.upgrade() {
            spawn(&tasks, task);
        }
    }
}

/// Sends requests over the one connection and never over another.
struct Requests(SendRequest<Body>);

impl tower::Service<Request<Body>> for Requests {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.headers_mut().insert(USER_AGENT, AGENT);
        Box::pin(self.0.send_request(request))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fleetbeat_liveness::Keepalive;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::super::socket::Handle;
    use super::Link;

    /// Field report A13: nothing of a connection may outlive the decision to leave it.
    #[tokio::test]
    async fn a_dropped_link_is_gone_even_when_the_peer_takes_no_byte() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let handle = Handle::set_up(&stream, Keepalive::default()).unwrap();
        // Too narrow for what HTTP/2 wants to say at the start or at the end.
        let (mut peer, wire) = tokio::io::duplex(24);
        let opening = Link::open(
            Box::new(wire),
            handle,
            "http://fleet.example".parse().unwrap(),
        );
        let (link, first) = tokio::join!(opening, peer.read_u8());
        let mut link = link.unwrap();
        assert_eq!(first.unwrap(), b'P');
        let opened = timeout(Duration::from_millis(50), link.receive()).await;
        assert!(opened.is_err(), "nobody answers: {opened:?}");
        // It reads on as long as it can answer: a frame in the pipe stays there.
        let empty_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let closed = async { while peer.write_all(&empty_settings).await.is_ok() {} };
        let mut closed = std::pin::pin!(closed);
        let open = timeout(Duration::from_millis(50), &mut closed).await;
        assert!(open.is_err(), "the link is still held");
        drop(link);
        timeout(Duration::from_secs(5), closed).await.unwrap();
    }
}

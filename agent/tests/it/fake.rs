//! A server under the test's control: it accepts streams, and the test speaks on them.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use fleetbeat_liveness::{Revised, Tuning};
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::from_agent::Message as Upward;
use fleetbeat_proto::v1::from_server::Message as Downward;
use fleetbeat_proto::v1::session_service_server::{SessionService, SessionServiceServer};
use futures_util::Stream;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use crate::soon;

pub(crate) struct Fake {
    pub address: SocketAddr,
    streams: mpsc::Receiver<Peer>,
    _tasks: JoinSet<()>,
}

/// One stream as the server sees it. Dropping it ends the stream without a word.
pub(crate) struct Peer {
    inbound: Streaming<v1::FromAgent>,
    outbound: mpsc::Sender<Result<v1::FromServer, Status>>,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        Self::serve(Server::builder()).await
    }

    /// At that address, which has to be free.
    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        Self::serve_on(Server::builder(), listener)
    }

    pub(crate) async fn start_tls(tls: ServerTlsConfig) -> Self {
        Self::serve(Server::builder().tls_config(tls).unwrap()).await
    }

    /// One that gives streams no room: after the first messages nothing can be sent to it.
    pub(crate) async fn start_without_window() -> Self {
        Self::serve(Server::builder().initial_stream_window_size(0)).await
    }

    async fn serve(builder: Server) -> Self {
        Self::serve_on(builder, TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn serve_on(mut builder: Server, listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let (accepted, streams) = mpsc::channel(16);
        let router = builder.add_service(SessionServiceServer::new(Service { accepted }));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            router
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
                .unwrap();
        });
        Self {
            address,
            streams,
            _tasks: tasks,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next stream that an agent opens.
    pub(crate) async fn accept(&mut self) -> Peer {
        soon("an agent opens a stream", self.streams.recv())
            .await
            .unwrap()
    }

    /// The next stream, with its Hello.
    pub(crate) async fn hello(&mut self) -> (Peer, v1::Hello) {
        let mut peer = self.accept().await;
        match peer.receive().await {
            Some(Upward::Hello(hello)) => (peer, hello),
            other => panic!("the first message is {other:?}"),
        }
    }

    /// The next stream, welcomed with `base`, with its Hello.
    pub(crate) async fn welcome(&mut self, base: Revised) -> (Peer, v1::Hello) {
        let (peer, hello) = self.hello().await;
        peer.send(Downward::Welcome(welcome(base))).await;
        (peer, hello)
    }
}

impl Peer {
    /// `None` when the agent has ended its side.
    pub(crate) async fn receive(&mut self) -> Option<Upward> {
        let message = soon("the agent sends something", self.inbound.message()).await;
        message
            .ok()
            .flatten()
            .map(|message| message.message.unwrap())
    }

    /// Whether the agent closed its side behind its last message, as opposed to breaking it off.
    pub(crate) async fn half_closed(&mut self) -> bool {
        let end = soon("the agent ends its side", self.inbound.message()).await;
        matches!(end, Ok(None))
    }

    /// The next message that is no PING; PINGs before it are answered.
    pub(crate) async fn receive_but_pings(&mut self) -> Option<Upward> {
        loop {
            match self.receive().await {
                Some(Upward::Ping(ping)) => self.answer(&ping, Duration::ZERO).await,
                other => return other,
            }
        }
    }

    pub(crate) async fn ping(&mut self) -> v1::Ping {
        match self.receive().await {
            Some(Upward::Ping(ping)) => ping,
            other => panic!("instead of a PING: {other:?}"),
        }
    }

    pub(crate) async fn ack(&mut self) -> v1::TuningAck {
        match self.receive_but_pings().await {
            Some(Upward::TuningAck(ack)) => ack,
            other => panic!("instead of an ack: {other:?}"),
        }
    }

    /// Answers PINGs until the agent says goodbye.
    pub(crate) async fn goodbye(&mut self) -> v1::Goodbye {
        match self.receive_but_pings().await {
            Some(Upward::Goodbye(goodbye)) => goodbye,
            other => panic!("instead of Goodbye: {other:?}"),
        }
    }

    pub(crate) async fn send(&self, message: Downward) {
        assert!(self.offer(message).await, "the agent has left");
    }

    /// False when the agent has left.
    pub(crate) async fn offer(&self, message: Downward) -> bool {
        let message = v1::FromServer {
            message: Some(message),
        };
        self.outbound.send(Ok(message)).await.is_ok()
    }

    /// Welcomes the agent and retunes it in one message.
    pub(crate) async fn welcome_with(&self, base: Revised, tuning: Revised) {
        let push = v1::TuningPush {
            tuning: Some(wire(&tuning)),
            traceparent: String::new(),
        };
        let welcome = v1::Welcome {
            tuning: Some(push),
            ..welcome(base)
        };
        self.send(Downward::Welcome(welcome)).await;
    }

    pub(crate) async fn push(&self, tuning: v1::RevisedTuning) {
        let push = v1::TuningPush {
            tuning: Some(tuning),
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
        };
        self.send(Downward::Tuning(push)).await;
    }

    pub(crate) async fn answer(&self, ping: &v1::Ping, hold: Duration) {
        let answer = v1::Pong {
            seq: ping.seq,
            sent_ns: ping.sent_ns,
            hold_ns: u64::try_from(hold.as_nanos()).unwrap(),
            ..v1::Pong::default()
        };
        // An agent that has just left needs no answer.
        self.offer(Downward::Pong(answer)).await;
    }
}

pub(crate) fn welcome(base: Revised) -> v1::Welcome {
    v1::Welcome {
        protocol: 1,
        session_id: vec![1; 16],
        server: "fake".to_owned(),
        tuning: None,
        reconnect_spread_ns: 0,
        base: Some(wire(&base)),
    }
}

/// T and W in milliseconds.
pub(crate) fn revised(revision: u64, t: u64, n: u32, w: u64) -> Revised {
    let tuning = Tuning::new(Duration::from_millis(t), n, Duration::from_millis(w), 1).unwrap();
    Revised { revision, tuning }
}

pub(crate) fn wire(revised: &Revised) -> v1::RevisedTuning {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap();
    v1::RevisedTuning {
        revision: revised.revision,
        hash: revised.hash(),
        tuning: Some(v1::Tuning {
            interval_ns: Some(nanos(revised.tuning.interval())),
            misses: Some(revised.tuning.misses()),
            timeout_ns: Some(nanos(revised.tuning.timeout())),
            pong_every: Some(revised.tuning.pong_every()),
            adaptive: Some(revised.tuning.adaptive()),
        }),
    }
}

struct Service {
    accepted: mpsc::Sender<Peer>,
}

#[tonic::async_trait]
impl SessionService for Service {
    type OpenStream = Pin<Box<dyn Stream<Item = Result<v1::FromServer, Status>> + Send>>;

    async fn open(
        &self,
        request: Request<Streaming<v1::FromAgent>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let (outbound, messages) = mpsc::channel(64);
        let inbound = request.into_inner();
        let peer = Peer { inbound, outbound };
        self.accepted
            .send(peer)
            .await
            .map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }
}

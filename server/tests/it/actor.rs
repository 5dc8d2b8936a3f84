//! Plays an agent, message by message.

use std::time::Duration;

use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_proto::v1::session_service_client::SessionServiceClient;
use fleetbeat_proto::v1::{
    Bye, CloseReason, Fence, FromAgent, FromServer, Goodbye, Hello, Ping, Pong, ProbeReport,
    TuningAck, TuningPush, Welcome, from_agent, from_server, tuning_ack,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use crate::house::House;

const PATIENCE: Duration = Duration::from_secs(20);

/// One TCP connection that may carry several actors.
pub(crate) struct Connection(Channel);

impl Connection {
    pub(crate) async fn dial(house: &House) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", house.address)).unwrap();
        Self(endpoint.connect().await.unwrap())
    }

    /// On which one stream takes some 40 answers that are not read.
    pub(crate) async fn dial_narrow(house: &House) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", house.address)).unwrap();
        let narrow = endpoint.initial_stream_window_size(1_024);
        Self(narrow.connect().await.unwrap())
    }

    /// Over TLS, trusting `authority` (PEM) for the name localhost.
    pub(crate) async fn dial_tls(
        house: &House,
        authority: &str,
    ) -> Result<Self, tonic::transport::Error> {
        let trust = Certificate::from_pem(authority);
        let tls = ClientTlsConfig::new()
            .ca_certificate(trust)
            .domain_name("localhost");
        let endpoint = Endpoint::from_shared(format!("https://{}", house.address)).unwrap();
        endpoint.tls_config(tls).unwrap().connect().await.map(Self)
    }
}

/// One stream.
pub(crate) struct Actor {
    upstream: mpsc::Sender<FromAgent>,
    downstream: Streaming<FromServer>,
    pub(crate) welcome: Welcome,
}

impl Actor {
    /// Opens a stream and says nothing.
    pub(crate) async fn dial(house: &House) -> Self {
        Self::open(&Connection::dial(house).await).await
    }

    /// As [`Self::dial`], on a connection that others use too.
    pub(crate) async fn silent_on(connection: &Connection) -> Self {
        Self::open(connection).await
    }

    async fn open(Connection(channel): &Connection) -> Self {
        let (upstream, outgoing) = mpsc::channel(64);
        let mut client = SessionServiceClient::new(channel.clone());
        let response = client.open(ReceiverStream::new(outgoing)).await.unwrap();
        Self {
            upstream,
            downstream: response.into_inner(),
            welcome: Welcome::default(),
        }
    }

    /// Opens a stream and is welcomed.
    pub(crate) async fn join(house: &House, hello: Hello) -> Self {
        Self::on(&Connection::dial(house).await, hello).await
    }

    /// As [`Self::join`], at a server of which only the address is known.
    pub(crate) async fn join_at(address: std::net::SocketAddr, hello: Hello) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let connection = Connection(endpoint.connect().await.unwrap());
        Self::on(&connection, hello).await
    }

    /// As [`Self::join`], on a connection that others use too.
    pub(crate) async fn on(connection: &Connection, hello: Hello) -> Self {
        let mut actor = Self::open(connection).await;
        actor.hello(hello).await;
        match actor.next().await {
            Some(from_server::Message::Welcome(welcome)) => actor.welcome = welcome,
            other => panic!("Welcome expected, got {other:?}"),
        }
        actor
    }

    /// Joins as agent `n`, takes the tuning that Welcome brings, and has its first beat answered.
    pub(crate) async fn beating(house: &House, n: u8) -> Self {
        let mut actor = Self::join(house, hello(n)).await;
        actor.ack_welcome().await;
        actor.ping(1, 0).await;
        actor.pong().await;
        actor
    }

    pub(crate) async fn say(&self, message: from_agent::Message) {
        self.upstream
            .send(FromAgent {
                message: Some(message),
            })
            .await
            .unwrap();
    }

    pub(crate) async fn hello(&self, hello: Hello) {
        self.say(from_agent::Message::Hello(hello)).await;
    }

    pub(crate) async fn ping(&self, seq: u64, sent_ns: u64) {
        let ping = Ping {
            seq,
            sent_ns,
            ..Ping::default()
        };
        self.say(from_agent::Message::Ping(ping)).await;
    }

    /// Next message; `None` when the stream has ended, whatever its status.
    pub(crate) async fn next(&mut self) -> Option<from_server::Message> {
        let next = tokio::time::timeout(PATIENCE, self.downstream.message()).await;
        next.expect("a message or the end")
            .ok()
            .flatten()
            .and_then(|message| message.message)
    }

    pub(crate) async fn pong(&mut self) -> Pong {
        match self.next().await {
            Some(from_server::Message::Pong(pong)) => pong,
            other => panic!("Pong expected, got {other:?}"),
        }
    }

    /// The Bye that ends the stream; other messages before it are passed over.
    pub(crate) async fn bye(&mut self) -> Bye {
        loop {
            match self.next().await {
                Some(from_server::Message::Bye(bye)) => return bye,
                Some(_) => {}
                None => panic!("the stream ended without Bye"),
            }
        }
    }

    /// Applies the tuning that Welcome brought.
    pub(crate) async fn ack_welcome(&mut self) {
        let push = self
            .welcome
            .tuning
            .clone()
            .expect("Welcome brings a tuning");
        self.answer(push, tuning_ack::Outcome::Applied).await;
    }

    /// Waits for a push and answers it. Returns its revision.
    pub(crate) async fn ack(&mut self, outcome: tuning_ack::Outcome) -> u64 {
        loop {
            match self.next().await {
                Some(from_server::Message::Tuning(push)) => {
                    let revision = push.tuning.as_ref().map_or(0, |tuning| tuning.revision);
                    self.answer(push, outcome).await;
                    return revision;
                }
                Some(_) => {}
                None => panic!("the stream ended without a push"),
            }
        }
    }

    async fn answer(&self, push: TuningPush, outcome: tuning_ack::Outcome) {
        let tuning = push.tuning.expect("a push has a tuning");
        let applied = outcome == tuning_ack::Outcome::Applied;
        let ack = TuningAck {
            revision: tuning.revision,
            hash: tuning.hash,
            outcome: outcome.into(),
            reason: if applied {
                String::new()
            } else {
                "no".to_owned()
            },
            applied: if applied {
                Some(tuning)
            } else {
                self.in_force()
            },
            traceparent: push.traceparent,
        };
        self.say(from_agent::Message::TuningAck(ack)).await;
    }

    fn in_force(&self) -> Option<fleetbeat_proto::v1::RevisedTuning> {
        self.welcome.tuning.clone().and_then(|push| push.tuning)
    }

    /// A PING with the agent's account of itself.
    pub(crate) async fn ping_strained(&self, seq: u64, lag_ms: u64, queue_depth: u32) {
        let ping = Ping {
            seq,
            lag_ns: Some(lag_ms * 1_000_000),
            queue_depth: Some(queue_depth),
            ..Ping::default()
        };
        self.say(from_agent::Message::Ping(ping)).await;
    }

    /// A message that is no PING.
    pub(crate) async fn report(&self) {
        let report = ProbeReport {
            probe: "work".to_owned(),
            ok: true,
            ..ProbeReport::default()
        };
        self.say(from_agent::Message::ProbeReport(report)).await;
    }

    pub(crate) async fn goodbye_for(&self, back_within: Duration) {
        let goodbye = Goodbye {
            reason: CloseReason::Goodbye.into(),
            back_within_ns: u64::try_from(back_within.as_nanos()).ok(),
            detail: "an update".to_owned(),
        };
        self.say(from_agent::Message::Goodbye(goodbye)).await;
    }

    pub(crate) async fn goodbye(&self, reason: CloseReason) {
        let goodbye = Goodbye {
            reason: reason.into(),
            ..Goodbye::default()
        };
        self.say(from_agent::Message::Goodbye(goodbye)).await;
    }
}

/// Hello of agent `n`, in group `gN`.
pub(crate) fn hello(n: u8) -> Hello {
    Hello {
        protocol: 1,
        agent_id: vec![n; 16],
        instance_id: vec![n; 16],
        fence: Some(Fence {
            incarnation: 1,
            connection: 1,
        }),
        name: format!("agent-{n}"),
        group: format!("g{n}"),
        ..Hello::default()
    }
}

pub(crate) fn fence(mut hello: Hello, incarnation: u64, connection: u64) -> Hello {
    hello.fence = Some(Fence {
        incarnation,
        connection,
    });
    hello
}

/// T and W in milliseconds.
pub(crate) fn tuning((interval, misses, timeout): (u64, u32, u64)) -> Tuning {
    let ms = Duration::from_millis;
    Tuning::new(ms(interval), misses, ms(timeout), 1).unwrap()
}

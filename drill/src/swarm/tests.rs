//! The swarm against the smallest server that speaks the contract, which counts for itself.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fleetbeat_liveness::{Revised, Tuning};
use fleetbeat_proto::nanos;
use fleetbeat_proto::v1::session_service_server::{SessionService, SessionServiceServer};
use fleetbeat_proto::v1::{
    Bye, CloseReason, FromAgent, FromServer, Hello, Pong, TuningPush, Welcome, from_agent,
    from_server,
};
use futures_util::{Stream, StreamExt as _};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::{Live, Plan, Report, run};
use crate::stage::until;

/// What arrived, counted by the receiver.
#[derive(Debug, Default)]
struct Received {
    pings: AtomicU64,
    acks: AtomicU64,
    goodbyes: AtomicU64,
    refusals_left: AtomicU64,
}

#[derive(Debug, Clone)]
struct Smallest {
    received: Arc<Received>,
}

type Answers = Pin<Box<dyn Stream<Item = Result<FromServer, Status>> + Send>>;

#[tonic::async_trait]
impl SessionService for Smallest {
    type OpenStream = Answers;

    async fn open(
        &self,
        request: Request<Streaming<FromAgent>>,
    ) -> Result<Response<Answers>, Status> {
        let received = Arc::clone(&self.received);
        let answers = request.into_inner().filter_map(move |message| {
            let answer = message
                .map(|message| answer(message, &received))
                .transpose();
            async move { answer }
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

fn answer(message: FromAgent, received: &Received) -> Option<FromServer> {
    let answer = match message.message? {
        from_agent::Message::Hello(hello) => welcome_or_refuse(&hello, received),
        from_agent::Message::Ping(ping) => {
            received.pings.fetch_add(1, Relaxed);
            let reply = Pong {
                seq: ping.seq,
                sent_ns: ping.sent_ns,
                ..Pong::default()
            };
            from_server::Message::Pong(reply)
        }
        from_agent::Message::TuningAck(_) => {
            received.acks.fetch_add(1, Relaxed);
            return None;
        }
        from_agent::Message::Goodbye(_) => {
            received.goodbyes.fetch_add(1, Relaxed);
            return None;
        }
        from_agent::Message::CheckReply(_) | from_agent::Message::ProbeReport(_) => return None,
    };
    Some(FromServer {
        message: Some(answer),
    })
}

fn welcome_or_refuse(hello: &Hello, received: &Received) -> from_server::Message {
    let left = &received.refusals_left;
    if left
        .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
        .is_ok()
    {
        let window = Duration::from_millis(1);
        return from_server::Message::Bye(Bye {
            reason: CloseReason::Shed.into(),
            retry_after_min_ns: Some(nanos(window)),
            retry_after_max_ns: Some(nanos(window)),
            ..Bye::default()
        });
    }
    let interval = Duration::from_millis(300);
    let tuning = Tuning::new(interval, 5, interval, 1).unwrap();
    let push = TuningPush {
        tuning: Some(
            Revised {
                revision: 7,
                tuning,
            }
            .into(),
        ),
        traceparent: String::new(),
    };
    from_server::Message::Welcome(Welcome {
        protocol: 1,
        session_id: hello.agent_id.clone(),
        tuning: Some(push),
        reconnect_spread_ns: nanos(Duration::from_millis(100)),
        ..Welcome::default()
    })
}

/// Runs a swarm until its agents sent `pings` in all, then lets it leave.
async fn swarm_until(agents: u32, pings: u64, received: &Arc<Received>) -> Report {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = SessionServiceServer::new(Smallest {
        received: Arc::clone(received),
    });
    let server = tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming(TcpListenerStream::new(listener));
    let (plan, live, stop) = (
        plan(agents, address),
        Arc::new(Live::default()),
        CancellationToken::new(),
    );
    let swarm = run(&plan, &live, &stop);
    let enough = async {
        let sent = until("the beats", Duration::from_secs(20), async || {
            Ok((live.read(0).pings >= pings).then_some(()))
        });
        sent.await.unwrap();
        stop.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        report = swarm => report.unwrap(),
        ended = server => panic!("the server ended: {ended:?}"),
        () = enough => unreachable!("it waits for ever"),
    }
}

fn plan(agents: u32, address: SocketAddr) -> Plan {
    Plan {
        server: format!("http://{address}"),
        agents,
        groups: vec!["one".into(), "two".into()],
        name_prefix: "test".into(),
        per_connection: 50,
        per_second: 10_000,
    }
}

#[tokio::test]
async fn every_beat_counted_as_sent_arrived_when_the_agents_left_in_order() {
    let received = Arc::new(Received::default());
    let report = swarm_until(120, 1_000, &received).await;
    let sum: u64 = report.agents.iter().map(|agent| agent.counts.pings).sum();
    assert!(report.total.left, "{:?}", report.total);
    assert_eq!(report.total.in_doubt, 0);
    assert_eq!(
        (sum, report.total.pings),
        (received.pings.load(Relaxed), sum)
    );
    assert_eq!(received.goodbyes.load(Relaxed), 120);
}

#[tokio::test]
async fn every_agent_acknowledges_the_tuning_that_it_was_welcomed_with() {
    let received = Arc::new(Received::default());
    let report = swarm_until(60, 120, &received).await;
    assert_eq!((report.total.acks, received.acks.load(Relaxed)), (60, 60));
}

#[tokio::test]
async fn agents_that_were_shed_come_back_and_count_the_bye() {
    let refusals_left = AtomicU64::new(5);
    let received = Arc::new(Received {
        refusals_left,
        ..Received::default()
    });
    let report = swarm_until(10, 30, &received).await;
    assert_eq!(report.total.byes["shed"], 5);
    assert_eq!((report.total.sessions, report.total.left), (10, true));
}

#[tokio::test]
async fn agents_are_dealt_to_the_groups_in_turn() {
    let report = swarm_until(4, 4, &Arc::new(Received::default())).await;
    let groups: Vec<_> = report
        .agents
        .iter()
        .map(|agent| agent.group.as_str())
        .collect();
    assert_eq!(groups, ["one", "two", "one", "two"]);
}

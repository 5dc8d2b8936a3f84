//! One ending per session, whoever comes first; and who may make an agent online.

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::fence::{Fence, InstanceId};
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::CloseReason;
use fleetbeat_server::clock::Clock;
use fleetbeat_server::registry::{
    Facts, Known, Link, Opening, Outbox, Rates, Registry, Session, Transition,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::actor::{Actor, Connection, fence, hello};
use crate::house::House;

const RACES: u64 = 1_000;

fn open(registry: &Registry, connection: u64) -> Arc<Session> {
    let fence = Fence {
        incarnation: 1,
        connection,
    };
    let opening = Opening {
        agent_id: Uuid::from_bytes([1; 16]),
        instance: InstanceId([1; 16]),
        fence,
        facts: Facts::default(),
        applied: None,
        volatile_state: false,
        ip: std::net::Ipv4Addr::LOCALHOST.into(),
        account: None,
        wall_unix_us: None,
        lane: 0,
        outbox: Arc::new(Outbox::default()),
        link: Arc::new(Link::default()),
    };
    registry.open(opening).unwrap().session
}

/// Field report C11: the deadline and the stream's error fire together, a thousand times.
#[test]
fn racing_enders_end_a_session_once() {
    let registry = Registry::new(Clock::start(), 1, Rates::default());
    let mut told = 0;
    for connection in 1..=RACES {
        let session = open(&registry, connection);
        let line = std::sync::Barrier::new(3);
        let end = |reason| {
            line.wait();
            registry.end(&session, reason, "a race", None)
        };
        let won: usize = std::thread::scope(|scope| {
            let enders = [
                CloseReason::MissedHeartbeats,
                CloseReason::TransportError,
                CloseReason::SlowConsumer,
            ];
            let enders = enders.map(|reason| scope.spawn(move || end(reason)));
            enders
                .map(|one| usize::from(one.join().unwrap()))
                .iter()
                .sum()
        });
        assert_eq!(won, 1, "session {connection}");
        registry.settle(&session);
        let entries = session.agent.take_journal().into_iter();
        told += entries
            .filter(|entry| matches!(entry.what, Transition::SessionClosed { .. }))
            .count() as u64;
    }
    let meters = registry.meters().all();
    let closed = |reason| -> u64 { meters.iter().map(|m| m.sessions_closed(reason)).sum() };
    let counted = closed(CloseReason::MissedHeartbeats)
        + closed(CloseReason::TransportError)
        + closed(CloseReason::SlowConsumer);
    assert_eq!((counted, told), (RACES, RACES));
    assert_eq!(registry.session_count(), 0);
}

/// Field report C04: streams and connections that end in the middle of a handshake strand nothing.
#[tokio::test]
async fn aborted_handshakes_leave_the_seat_free() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let house = House::open(1);
    for cut in 0..=PREFACE.len() {
        let mut socket = TcpStream::connect(house.address).await.unwrap();
        socket.write_all(&PREFACE[..cut]).await.unwrap();
        socket.set_zero_linger().unwrap();
    }
    let connection = Connection::dial(&house).await;
    for _ in 0..100 {
        drop(Actor::silent_on(&connection).await);
    }
    for attempt in 1..=100 {
        let actor = Actor::silent_on(&connection).await;
        actor.hello(fence(hello(1), 1, attempt)).await;
        drop(actor);
    }
    let mut agent = Actor::join(&house, fence(hello(1), 2, 1)).await;
    agent.ping(1, 0).await;
    agent.pong().await;
    house.sessions_left(1).await;
    assert_eq!(house.view(1).verdict, Verdict::Online);
}

/// Field reports C09 and C13: names are no keys, and two agents of one host are two.
#[tokio::test]
async fn fifty_agents_of_one_name_on_one_host_live_side_by_side() {
    let house = House::open(1);
    let mut agents = Vec::new();
    for n in 1..=50 {
        let mut greeting = hello(n);
        greeting.name = "localhost".to_owned();
        agents.push(Actor::join(&house, greeting).await);
    }
    for agent in &mut agents {
        agent.ping(1, 0).await;
        agent.pong().await;
    }
    assert_eq!(house.registry().session_count(), 50);
    for n in 1..=50 {
        assert_eq!(house.view(n).facts.name, "localhost");
        assert_eq!(house.view(n).verdict, Verdict::Online);
        let told = house.agent(n).take_journal();
        let closed = |what: &Transition| matches!(what, Transition::SessionClosed { .. });
        assert!(!told.iter().any(|entry| closed(&entry.what)), "{told:?}");
    }
}

/// Field report C08: a name that moves from one host to another takes no history with it.
#[tokio::test]
async fn a_renamed_agent_stays_itself_and_its_old_name_is_told() {
    let house = House::open(1);
    let mut first = hello(1);
    first.name = "db-1".to_owned();
    let _first = Actor::join(&house, first.clone()).await;
    let mut renamed = fence(first, 1, 2);
    renamed.name = "db-old".to_owned();
    let _renamed = Actor::join(&house, renamed).await;
    let mut newcomer = hello(2);
    newcomer.name = "db-1".to_owned();
    let _newcomer = Actor::join(&house, newcomer).await;
    let from = house.told(1, |what| {
        let Transition::Renamed { from, to } = what else {
            return None;
        };
        Some((from, to))
    });
    assert_eq!(from.await, ("db-1".to_owned(), "db-old".to_owned()));
    assert_eq!(house.view(1).facts.name, "db-old");
    assert_eq!(house.view(2).facts.name, "db-1");
}

/// Field report D01: an offline agent is retuned, restored, reviewed and asked for, and stays offline.
#[tokio::test]
async fn nothing_but_a_live_message_makes_an_agent_online() {
    let house = House::open(1);
    house.policy(1, (400, 3, 400));
    let mut agent = Actor::join(&house, hello(1)).await;
    agent.ack_welcome().await;
    house.verdict(1, Verdict::Offline).await;
    let (registry, before) = (house.registry(), house.view(1));
    let (lost, wall) = (before.last_seen, registry.clock().wall());
    let known = Known {
        id: before.id,
        facts: Facts::default(),
        fence: Fence {
            incarnation: 9,
            connection: 1,
        },
        verdict: Verdict::Online,
        since: wall,
        last_seen: Some(wall),
        applied: None,
        refused: None,
    };
    registry.restore(known, Moment::FAR);
    house.policy(1, (60_000, 3, 2_000));
    registry.review(&house.agent(1));
    registry.touch(&house.agent(1));
    // Time has to pass here: the judge looks at the agent again, and finds nothing new.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let after = house.view(1);
    assert_eq!(after.verdict, Verdict::Offline);
    let moved = (after.last_seen.unwrap() - lost.unwrap()).abs();
    assert!(moved < time::Duration::milliseconds(5), "{moved}");
}

//! Agents over TLS: the gate shakes hands, the lanes carry the sessions.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::CloseReason;
use fleetbeat_server::settings::TlsFiles;
use rustls::ServerConfig;

use crate::actor::{Actor, Connection, hello};
use crate::house::House;

struct Issued {
    authority: String,
    config: Arc<ServerConfig>,
}

fn issue(dir: &Path) -> Issued {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        cert: dir.join("lane.crt"),
        key: dir.join("lane.key"),
    };
    std::fs::write(&files.cert, pair.cert.pem()).unwrap();
    std::fs::write(&files.key, pair.signing_key.serialize_pem()).unwrap();
    Issued {
        authority: pair.cert.pem(),
        config: files.server_config(&[b"h2"]).unwrap(),
    }
}

#[tokio::test]
async fn agents_behind_tls_are_dealt_to_the_lanes_and_judged_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let Issued { authority, config } = issue(dir.path());
    let house = House::open_gated(2, config);
    house.policy(1, (400, 3, 400));
    let mut agents = Vec::new();
    for n in 1..=4 {
        let connection = Connection::dial_tls(&house, &authority).await.unwrap();
        let mut agent = Actor::on(&connection, hello(n)).await;
        agent.ping(1, 7).await;
        assert_eq!(agent.pong().await.sent_ns, 7);
        agents.push(agent);
    }
    let carried: Vec<u64> = house
        .registry()
        .lanes()
        .iter()
        .map(|lane| lane.sessions())
        .collect();
    assert_eq!(carried, [2, 2]);
    agents[0].ack_welcome().await;
    house.verdict(1, Verdict::Offline).await;
    assert_eq!(house.closings(1).await, [CloseReason::MissedHeartbeats]);
    assert_eq!(house.view(2).verdict, Verdict::Online);
}

#[tokio::test]
async fn who_does_not_shake_hands_keeps_nobody_else_out() {
    let dir = tempfile::tempdir().unwrap();
    let Issued { authority, config } = issue(dir.path());
    let stranger = issue(dir.path()).authority;
    let house = House::open_gated(1, config);
    let mut mute = Vec::new();
    for _ in 0..20 {
        mute.push(TcpStream::connect(house.address).unwrap());
    }
    let mut plain = TcpStream::connect(house.address).unwrap();
    plain
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap();
    assert!(
        Connection::dial_tls(&house, &stranger).await.is_err(),
        "an unknown authority"
    );
    let connection = Connection::dial_tls(&house, &authority).await.unwrap();
    let mut agent = Actor::on(&connection, hello(1)).await;
    agent.ping(1, 0).await;
    agent.pong().await;
}

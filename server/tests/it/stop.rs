//! A stop that waits for nobody, and a wall clock that moves under a running server.

use std::path::Path;
use std::time::Duration;

use fleetbeat_proto::v1::from_server;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::actor::{Actor, hello};
use crate::frames::Peer;
use crate::served::Served;
use crate::skip::skip;

/// What field report A19 allows.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Field report A19: sockets that never say a word, on both ports, agents that are frozen, and one that
/// reads its Bye.
#[tokio::test]
async fn a_stop_waits_neither_for_silent_sockets_nor_for_frozen_agents() {
    let mut server = Served::start(|_| ()).await;
    let mut silent = Vec::new();
    for address in [server.lane, server.operator] {
        for _ in 0..5 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
    }
    let mut frozen = Vec::new();
    for n in 1..=5 {
        frozen.push(Peer::join(server.lane, hello(n)).await);
    }
    let mut reader = Actor::join_at(server.lane, hello(9)).await;
    server.terminate();
    let bye = reader.bye().await;
    assert_eq!(bye.reason(), fleetbeat_proto::v1::CloseReason::ServerDrain);
    drop(reader);
    let status = server.ended(STOP_WITHIN).await;
    assert!(status.success(), "{status}\n{}", server.log());
    for mut socket in silent {
        let mut rest = Vec::new();
        let read = socket.read_to_end(&mut rest);
        let ended = tokio::time::timeout(Duration::from_secs(1), read).await;
        assert!(ended.is_ok(), "a socket is left open");
    }
}

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// Field reports B10 and B11: two hours on, an hour back, a leap second: nobody is disconnected, and beats
/// are answered all along.
#[tokio::test]
async fn steps_of_the_servers_wall_clock_disconnect_nobody() {
    if !Path::new(LIBRARY).exists() {
        skip("libfaketime (Debian package faketime)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wall");
    let shift = |offset: &str| {
        let next = dir.path().join("next");
        std::fs::write(&next, format!("{offset}\n")).unwrap();
        std::fs::rename(&next, &file).unwrap();
    };
    shift("+0");
    let server = Served::start(|command| {
        command
            .env("LD_PRELOAD", LIBRARY)
            .env("FAKETIME_TIMESTAMP_FILE", &file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1");
    })
    .await;
    let mut agents = Vec::new();
    for n in 1..=10 {
        agents.push(Actor::join_at(server.lane, hello(n)).await);
    }
    let mut seq = 0;
    for offset in ["+2h", "-3600s", "-1s", "+10y", "+0"] {
        shift(offset);
        for _ in 0..5 {
            seq += 1;
            for agent in &mut agents {
                agent.ping(seq, seq).await;
                let answer = agent.next().await;
                let Some(from_server::Message::Pong(pong)) = answer else {
                    panic!("{offset}: {answer:?}\n{}", server.log());
                };
                assert_eq!(pong.seq, seq);
                assert!(pong.hold_ns < 10_000_000_000, "{offset}: {pong:?}");
            }
            // The clock's steps have to meet running timers.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let log = server.log();
    assert!(!log.contains("Session closed"), "{log}");
    assert!(
        !log.contains("panicked") && !log.contains("stalled"),
        "{log}"
    );
}

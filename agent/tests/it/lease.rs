use std::time::Duration;

use fleetbeat_liveness::{Revised, Tuning};
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::CloseReason;
use fleetbeat_proto::v1::from_agent::Message as Upward;
use tokio::time::Instant;

use crate::fake::Fake;
use crate::host::Host;

/// Renewals that the server answers one of.
const K: u64 = 5;

/// T = 300 ms, N = 2, W = 300 ms: N·T + W = 0.9 s, R = 1.5 s, N·R + W = 3.3 s.
fn lease() -> Revised {
    let ms = Duration::from_millis;
    let tuning = Tuning::new(ms(300), 2, ms(300), u32::try_from(K).unwrap()).unwrap();
    Revised {
        revision: 0,
        tuning,
    }
}

/// Requirement S22, hard case A10: silence that a fixed tuning would not bear is part of a lease, and a
/// dead server is noticed all the same. No round trip is told twice.
#[tokio::test]
async fn an_agent_with_a_lease_bears_few_answers_and_still_notices_a_dead_server() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (mut peer, _) = fake.welcome(lease()).await;
    let mut told = Vec::new();
    let mut answered = Instant::now();
    for seq in 1..=3 * K {
        let ping = peer.ping().await;
        assert_eq!(ping.seq, seq, "the stream is the same");
        told.extend(ping.rtt_seq);
        if seq == 1 || seq.is_multiple_of(K) {
            peer.answer(&ping, Duration::ZERO).await;
            answered = Instant::now();
        }
    }
    assert_eq!(told, [1, K, 2 * K]);

    let goodbye = loop {
        match peer.receive().await {
            Some(Upward::Ping(ping)) => told.extend(ping.rtt_seq),
            Some(Upward::Goodbye(goodbye)) => break goodbye,
            other => panic!("{other:?}"),
        }
    };
    let silent = answered.elapsed();
    assert_eq!(goodbye.reason(), CloseReason::PeerGaveUp);
    assert!(silent >= Duration::from_millis(3_250), "{silent:?}");
    assert!(silent <= Duration::from_millis(4_800), "{silent:?}");
    assert_eq!(told, [1, K, 2 * K, 3 * K]);
    let (_peer, hello) = fake.hello().await;
    assert_eq!(
        hello.last_ending.unwrap().cause(),
        v1::last_ending::Cause::ServerSilent
    );
    agent.stop().await;
}

//! Plain mistakes of configuration get an error that says what to change.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;
use tonic::transport::Server;

use crate::fake::Fake;
use crate::host::Host;
use crate::tls::{authority, identity};
use crate::within;

/// Long enough for the first attempt on a busy machine.
const FIRST: Duration = Duration::from_secs(10);

#[tokio::test]
async fn http_to_a_port_that_speaks_tls_is_told_to_write_https() {
    let fake = Fake::start_tls(identity(&authority())).await;
    let host = Host::new();
    let url = format!("http://127.0.0.1:{}", fake.address.port());
    let agent = host.spawn_logged(&["--server", &url], &[]);
    let line = agent.says("No session", FIRST).await;
    assert!(line.contains("write https://"), "{line}");
}

#[tokio::test]
async fn https_to_a_port_without_tls_is_told_that_nothing_there_speaks_it() {
    let fake = Fake::start().await;
    let host = Host::new();
    let ca = host.file("ca.pem");
    std::fs::write(&ca, authority().pem()).unwrap();
    let url = format!("https://127.0.0.1:{}", fake.address.port());
    let agent = host.spawn_logged(&["--server", &url, "--ca", ca.to_str().unwrap()], &[]);
    let line = agent.says("No session", FIRST).await;
    assert!(line.contains("does not speak TLS"), "{line}");
    assert!(line.contains("is it http://?"), "{line}");
}

#[tokio::test]
async fn a_port_that_takes_no_agents_is_told_from_one_that_does() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(
        Server::builder()
            .add_routes(Routes::default())
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    let host = Host::new();
    let agent = host.spawn_logged(&["--server", &url], &[]);
    let line = agent.says("No session", FIRST).await;
    assert!(line.contains("not the port for agents"), "{line}");
}

/// Field report A10: GOAWAY with `too_many_pings` is a matter of configuration: named as such, and
/// answered by attempts that grow apart.
#[tokio::test]
async fn a_peer_that_rejects_heartbeats_is_named_and_not_hammered() {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let mut goaway = vec![0, 0, 8 + 14, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];
    goaway.extend(b"too_many_pings");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let host = Host::new();
    let agent = host.spawn_logged(&["--server", &url], &[]);
    let mut attempts = Vec::new();
    let thrown_out = async {
        for _ in 0..4 {
            let (mut stream, _) = listener.accept().await.unwrap();
            attempts.push(Instant::now());
            stream.write_all(&SETTINGS).await.unwrap();
            stream.write_all(&goaway).await.unwrap();
            // Until the agent has gone.
            let mut rest = Vec::new();
            drop(stream.read_to_end(&mut rest).await);
        }
    };
    within(Duration::from_secs(40), "four attempts", thrown_out).await;
    let gaps: Vec<_> = attempts.windows(2).map(|two| two[1] - two[0]).collect();
    for (gap, base) in gaps.iter().zip([1_000, 2_000, 4_000]) {
        assert!(
            *gap >= Duration::from_millis(base * 7 / 10 - 50),
            "{gaps:?}"
        );
    }
    let line = agent.says("No session", FIRST).await;
    assert!(line.contains("peer_rejected_heartbeats"), "{line}");
    assert!(
        line.contains("too_many_pings") && line.contains("interval"),
        "{line}"
    );
}

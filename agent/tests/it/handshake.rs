use std::time::Duration;

use fleetbeat_proto::v1::from_agent::Message as Upward;
use fleetbeat_proto::v1::from_server::Message as Downward;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::fake::{Fake, revised, welcome};
use crate::host::Host;
use crate::within;

/// A server that takes connections and never says a word.
struct Mute(TcpListener);

impl Mute {
    async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.0.local_addr().unwrap())
    }

    /// How long the agent stays on a connection.
    async fn patience(&self) -> Duration {
        let (mut stream, _) = self.0.accept().await.unwrap();
        let since = Instant::now();
        let mut bytes = [0; 1024];
        while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
        since.elapsed()
    }
}

#[track_caller]
fn is_one_phase(what: &str, patience: Duration) {
    let expected = Duration::from_millis(4_500)..Duration::from_secs(8);
    assert!(expected.contains(&patience), "{what}: {patience:?}");
}

/// Field report A24.
#[tokio::test]
async fn a_server_that_goes_silent_in_a_phase_of_the_handshake_is_left_and_tried_again() {
    let (tls, http2) = (Mute::start().await, Mute::start().await);
    let mut fake = Fake::start().await;
    let hosts = [Host::new(), Host::new(), Host::new()];
    let ca = hosts[0].file("ca.pem");
    let authority = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&ca, authority.cert.pem()).unwrap();
    let agents = [
        hosts[0].run_with(&tls.url("https"), Some(&ca)),
        hosts[1].run(&http2.url("http")),
        hosts[2].run(&fake.url()),
    ];
    let no_welcome = async {
        let (mut peer, hello) = fake.hello().await;
        let since = Instant::now();
        peer.goodbye().await;
        let patience = since.elapsed();
        let (_peer, again) = fake.hello().await;
        assert_eq!(
            again.fence.unwrap().connection,
            hello.fence.unwrap().connection + 1
        );
        patience
    };
    let all = async { tokio::join!(tls.patience(), http2.patience(), no_welcome) };
    let (tls_patience, http2_patience, welcome_patience) =
        within(Duration::from_secs(30), "every phase ends", all).await;
    is_one_phase("TLS", tls_patience);
    is_one_phase("HTTP/2", http2_patience);
    is_one_phase("Welcome", welcome_patience);
    let again = async { tokio::join!(tls.0.accept(), http2.0.accept()) };
    let (tls_again, http2_again) =
        within(Duration::from_secs(5), "both are tried again", again).await;
    assert!(tls_again.is_ok() && http2_again.is_ok());
    for agent in agents {
        agent.stop().await;
    }
}

/// Field report A24: stopping takes at most 2 s, wherever the agent is.
#[tokio::test]
async fn stopping_is_honoured_in_every_phase_of_the_handshake() {
    let mute = Mute::start().await;
    let mut fake = Fake::start().await;
    let closed = Mute::start().await.url("http");
    let host = Host::new();
    let ca = host.file("ca.pem");
    let authority = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&ca, authority.cert.pem()).unwrap();
    let limit = Duration::from_secs(2);

    for (scheme, ca) in [("https", Some(&ca)), ("http", None)] {
        let agent = host.run_with(&mute.url(scheme), ca.map(std::path::PathBuf::as_path));
        let _connection = mute.0.accept().await.unwrap();
        within(limit, scheme, agent.stop()).await;
    }
    let agent = host.run(&fake.url());
    let (_peer, _) = fake.hello().await;
    within(limit, "before Welcome", agent.stop()).await;

    // Refused at once: the agent is backing off when it is told to stop.
    let agent = host.run(&closed);
    within(limit, "while backing off", agent.stop()).await;
}

/// Field report D14: a server that answers after every first time-out is reached all the same.
#[tokio::test]
async fn a_server_slower_than_the_first_patience_is_reached_by_a_longer_one() {
    const SLOW: Duration = Duration::from_secs(8);
    let mut fake = Fake::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let behind = fake.address;
    let mut relays = tokio::task::JoinSet::new();
    relays.spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let (mut agent, _) = listener.accept().await.unwrap();
            connections.spawn(async move {
                // The fault under test: whatever the server does takes this long.
                tokio::time::sleep(SLOW).await;
                let mut server = TcpStream::connect(behind).await.unwrap();
                // Whoever gave up meanwhile is no longer there.
                drop(tokio::io::copy_bidirectional(&mut agent, &mut server).await);
            });
        }
    });
    let host = Host::new();
    let agent = host.run(&url);
    let session = async {
        loop {
            // Streams whose agent has given up end at once.
            let mut peer = fake.accept().await;
            if let Some(Upward::Hello(hello)) = peer.receive().await
                && peer
                    .offer(Downward::Welcome(welcome(revised(0, 30_000, 3, 1_000))))
                    .await
                && let Some(Upward::Ping(_)) = peer.receive().await
            {
                return (peer, hello);
            }
        }
    };
    let limit = Duration::from_secs(45);
    let (_peer, hello) = within(limit, "the slow server is reached", session).await;
    assert!(hello.fence.unwrap().connection >= 1);
    agent.stop().await;
}

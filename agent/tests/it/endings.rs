use std::time::Duration;

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::CloseReason;
use fleetbeat_proto::v1::from_server::Message as Downward;
use fleetbeat_proto::v1::last_ending::Cause;
use tokio::time::Instant;

use crate::fake::{Fake, revised};
use crate::host::Host;

fn bye(reason: CloseReason, window_ms: (u64, u64)) -> Downward {
    Downward::Bye(v1::Bye {
        reason: reason.into(),
        retry_after_min_ns: Some(window_ms.0 * 1_000_000),
        retry_after_max_ns: Some(window_ms.1 * 1_000_000),
        ..v1::Bye::default()
    })
}

#[tokio::test]
async fn a_planned_end_says_goodbye_and_half_closes() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (mut peer, _) = fake.welcome(revised(0, 30_000, 3, 1_000)).await;
    peer.ping().await;
    agent.tell_to_stop();
    let goodbye = peer.goodbye().await;
    assert_eq!(goodbye.reason(), CloseReason::Goodbye);
    assert_eq!(goodbye.back_within_ns, None);
    assert!(peer.half_closed().await);
    drop(peer);
    agent.stop().await;
}

/// Hard case B5, field report D19.
#[tokio::test]
async fn an_agent_that_is_always_restarted_says_how_soon_it_is_back() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let arguments = ["--server", &fake.url(), "--restart-within", "30s"];
    let mut agent = host.spawn(&arguments);
    let (mut peer, hello) = fake.welcome(revised(0, 30_000, 3, 1_000)).await;
    let year_2020 = 1_577_836_800_000_000;
    assert!(hello.wall_unix_us > Some(year_2020), "{hello:?}");
    peer.ping().await;
    agent.signal(nix::sys::signal::Signal::SIGTERM);
    let goodbye = peer.goodbye().await;
    assert_eq!(goodbye.reason(), CloseReason::Goodbye);
    assert_eq!(goodbye.back_within_ns, Some(30_000_000_000));
    assert_eq!(agent.exit(Duration::from_secs(2)).await.code(), Some(0));
}

#[tokio::test]
async fn a_silent_server_is_left_within_its_deadline_and_told_why() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    // D = 3 · 300 + 300 = 1,200 ms.
    let (mut peer, _) = fake.welcome(revised(0, 300, 3, 300)).await;
    let welcomed = Instant::now();
    let goodbye = loop {
        match peer.receive().await {
            Some(v1::from_agent::Message::Ping(_)) => {}
            Some(v1::from_agent::Message::Goodbye(goodbye)) => break goodbye,
            other => panic!("{other:?}"),
        }
    };
    let silent = welcomed.elapsed();
    assert_eq!(goodbye.reason(), CloseReason::PeerGaveUp);
    assert!(silent >= Duration::from_millis(1_150), "{silent:?}");
    assert!(silent <= Duration::from_millis(2_200), "{silent:?}");

    let (_peer, hello) = fake.hello().await;
    let last = hello.last_ending.unwrap();
    assert_eq!(last.cause(), Cause::ServerSilent);
    assert!(last.session_age_ns >= 1_150_000_000, "{last:?}");
    assert!(last.away_ns > 0, "{last:?}");
    assert_eq!(
        hello.fence,
        Some(v1::Fence {
            incarnation: 1,
            connection: 2
        })
    );
    agent.stop().await;
}

#[tokio::test]
async fn each_bye_with_a_window_brings_the_agent_back_inside_it_with_an_account() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    for (connection, reason) in (2..).zip([
        CloseReason::ServerDrain,
        CloseReason::MissedHeartbeats,
        CloseReason::Shed,
    ]) {
        let (mut peer, _) = fake.welcome(revised(0, 5_000, 3, 1_000)).await;
        peer.ping().await;
        peer.send(bye(reason, (300, 500))).await;
        let told = Instant::now();
        let (peer, hello) = fake.hello().await;
        let away = told.elapsed();
        assert!(away >= Duration::from_millis(290), "{reason:?}: {away:?}");
        assert!(away <= Duration::from_millis(1_500), "{reason:?}: {away:?}");
        let last = hello.last_ending.unwrap();
        assert_eq!((last.cause(), last.bye()), (Cause::Bye, reason));
        assert_eq!(hello.fence.unwrap().connection, connection * 2 - 2);
        // Refused before a Welcome: the account of the session before it stays.
        peer.send(bye(CloseReason::Shed, (100, 200))).await;
        drop(peer);
    }
    let (_peer, hello) = fake.hello().await;
    assert_eq!(hello.last_ending.unwrap().bye(), CloseReason::Shed);
    agent.stop().await;
}

#[tokio::test]
async fn a_stale_fence_is_raised_above_the_floor_and_kept() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (peer, hello) = fake.hello().await;
    assert_eq!(
        hello.fence,
        Some(v1::Fence {
            incarnation: 1,
            connection: 1
        })
    );
    let stale = v1::Bye {
        reason: CloseReason::Superseded.into(),
        stale_floor: Some(v1::Fence {
            incarnation: 40,
            connection: 7,
        }),
        ..v1::Bye::default()
    };
    peer.send(Downward::Bye(stale)).await;
    let told = Instant::now();
    let (_peer, hello) = fake.hello().await;
    assert_eq!(
        hello.fence,
        Some(v1::Fence {
            incarnation: 41,
            connection: 1
        })
    );
    assert!(
        told.elapsed() < Duration::from_secs(2),
        "{:?}",
        told.elapsed()
    );
    assert!(
        host.read_state("identity.json")
            .contains("\"incarnation\": 41")
    );
    agent.stop().await;
}

#[tokio::test]
async fn a_stream_that_breaks_is_replaced_and_nothing_of_it_is_carried_over() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (mut peer, _) = fake.welcome(revised(0, 300, 5, 300)).await;
    for _ in 0..3 {
        let ping = peer.ping().await;
        peer.answer(&ping, Duration::ZERO).await;
    }
    drop(peer);
    let (mut peer, hello) = fake.welcome(revised(0, 300, 5, 300)).await;
    assert_eq!(hello.last_ending.unwrap().cause(), Cause::TransportError);
    let ping = peer.ping().await;
    assert_eq!((ping.seq, ping.rtt_ns), (1, None));
    agent.stop().await;
}

#[tokio::test]
async fn a_state_directory_that_cannot_be_written_is_confessed() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (_peer, first) = fake.hello().await;
    agent.stop().await;
    std::fs::create_dir(host.state_dir().join(".identity.json.tmp")).unwrap();
    let agent = host.run(&fake.url());
    let (_peer, second) = fake.hello().await;
    assert!(second.volatile_state && !first.volatile_state);
    assert_eq!(second.agent_id, first.agent_id);
    agent.stop().await;
}

/// Field report A24: a send has its deadline too.
#[tokio::test]
async fn a_server_that_takes_no_message_for_10_s_is_left() {
    let mut fake = Fake::start_without_window().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (peer, _) = fake.welcome(revised(0, 500, 20, 500)).await;
    let answers = async {
        // Whatever becomes of the agent's messages, it hears from the server.
        while peer.offer(Downward::Check(v1::Check { nonce: 1 })).await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let welcomed = Instant::now();
    let ((), (_again, hello)) = tokio::join!(answers, fake.hello());
    let stuck = welcomed.elapsed();
    assert!(
        stuck >= Duration::from_secs(9) && stuck <= Duration::from_secs(14),
        "{stuck:?}"
    );
    let last = hello.last_ending.unwrap();
    assert_eq!(last.cause(), Cause::TransportError);
    assert!(last.detail.contains("took no message"), "{}", last.detail);
    agent.stop().await;
}

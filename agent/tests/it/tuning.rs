use std::time::Duration;

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::from_agent::Message as Upward;
use fleetbeat_proto::v1::from_server::Message as Downward;
use fleetbeat_proto::v1::tuning_ack::Outcome;
use tokio::time::Instant;

use crate::fake::{Fake, Peer, revised, wire};
use crate::host::Host;

/// What timers and a busy machine may add to a gap.
const SLACK: Duration = Duration::from_millis(150);

/// Longest gap of `count` beats, each answered.
async fn longest_gap(peer: &mut Peer, count: usize) -> Duration {
    let mut longest = Duration::ZERO;
    let mut before = Instant::now();
    for _ in 0..count {
        let ping = peer.ping().await;
        longest = longest.max(before.elapsed());
        before = Instant::now();
        peer.answer(&ping, Duration::ZERO).await;
    }
    longest
}

#[tokio::test]
async fn a_ping_follows_welcome_at_once_and_beats_keep_the_interval() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (mut peer, hello) = fake.welcome(revised(0, 10_000, 3, 1_000)).await;
    let welcomed = Instant::now();
    let ping = peer.ping().await;
    assert!(
        welcomed.elapsed() < Duration::from_secs(2),
        "{:?}",
        welcomed.elapsed()
    );
    assert_eq!((ping.seq, ping.rtt_ns), (1, None));

    assert_eq!(hello.protocol, 1);
    assert_eq!((hello.agent_id.len(), hello.instance_id.len()), (16, 16));
    assert_eq!(
        hello.fence,
        Some(v1::Fence {
            incarnation: 1,
            connection: 1
        })
    );
    assert_eq!(
        (hello.name.as_str(), hello.group.as_str()),
        ("web-01", "web")
    );
    assert_eq!(hello.labels["zone"], "a");
    assert_eq!((hello.applied, hello.last_ending), (None, None));
    assert!(!hello.volatile_state);
    agent.stop().await;
}

#[tokio::test]
async fn a_round_trip_is_reported_once_without_the_time_that_the_server_held_it() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (mut peer, _) = fake.welcome(revised(0, 400, 5, 300)).await;
    let ping = peer.ping().await;
    let hold = Duration::from_millis(150);
    tokio::time::sleep(hold).await;
    peer.answer(&ping, hold).await;
    // An answer to a PING that this stream never sent proves nothing.
    let stranger = v1::Pong {
        seq: 77,
        sent_ns: 1,
        ..v1::Pong::default()
    };
    peer.send(Downward::Pong(stranger)).await;
    let mut reported = Vec::new();
    for _ in 0..3 {
        let ping = peer.ping().await;
        reported.extend(ping.rtt_ns.zip(ping.rtt_seq));
    }
    let [(rtt, 1)] = reported[..] else {
        panic!("{reported:?}");
    };
    assert!(rtt > 0 && rtt < 150_000_000, "{rtt}");
    agent.stop().await;
}

#[tokio::test]
async fn a_check_is_answered_at_once() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (mut peer, _) = fake.welcome(revised(0, 60_000, 3, 1_000)).await;
    peer.ping().await;
    peer.send(Downward::Check(v1::Check { nonce: 42 })).await;
    let asked = Instant::now();
    let reply = peer.receive_but_pings().await;
    assert_eq!(
        reply,
        Some(Upward::CheckReply(v1::CheckReply { nonce: 42 }))
    );
    assert!(asked.elapsed() < Duration::from_secs(2));
    agent.stop().await;
}

#[tokio::test]
async fn a_retune_takes_effect_at_once_is_kept_before_its_ack_and_reconnects_nothing() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (mut peer, _) = fake.welcome(revised(0, 30_000, 3, 1_000)).await;
    peer.ping().await;

    let quick = revised(1, 300, 4, 300);
    peer.push(wire(&quick)).await;
    let ack = peer.ack().await;
    let kept = host.read_state("tuning.json");
    assert!(kept.contains("\"interval_ns\": 300000000"), "{kept}");
    assert_eq!(
        (ack.revision, ack.hash, ack.outcome()),
        (1, quick.hash(), Outcome::Applied)
    );
    assert_eq!(ack.applied, Some(wire(&quick)));
    assert!(ack.traceparent.starts_with("00-0af7651916cd43dd"));
    let gap = longest_gap(&mut peer, 8).await;
    assert!(gap <= Duration::from_millis(300) + SLACK, "{gap:?}");

    let calm = revised(2, 900, 4, 300);
    peer.push(wire(&calm)).await;
    assert_eq!(peer.ack().await.revision, 2);
    longest_gap(&mut peer, 1).await;
    let gap = longest_gap(&mut peer, 2).await;
    assert!(gap >= Duration::from_millis(600) && gap <= Duration::from_millis(900) + SLACK);
    agent.stop().await;
}

/// Field report E02.
#[tokio::test]
async fn the_same_push_again_is_acknowledged_only() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (mut peer, _) = fake.welcome(revised(0, 30_000, 3, 1_000)).await;
    peer.ping().await;
    let wanted = wire(&revised(1, 20_000, 3, 1_000));
    peer.push(wanted).await;
    peer.ack().await;
    std::fs::remove_file(host.state_dir().join("tuning.json")).unwrap();
    for _ in 0..20 {
        peer.push(wanted).await;
        let ack = peer.ack().await;
        assert_eq!((ack.revision, ack.outcome()), (1, Outcome::Applied));
    }
    assert!(
        !host.state_dir().join("tuning.json").exists(),
        "it was written again"
    );
    agent.stop().await;
}

/// Field report E11.
#[tokio::test]
async fn a_forged_tuning_is_refused_with_the_reason_and_beats_go_on() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let base = revised(0, 300, 6, 300);
    let (mut peer, _) = fake.welcome(base).await;
    let good = wire(&revised(9, 400, 3, 300));
    let values = good.tuning.unwrap();
    for (forged, word) in [
        (
            v1::Tuning {
                interval_ns: Some(0),
                ..values
            },
            "interval",
        ),
        (
            v1::Tuning {
                interval_ns: Some(u64::MAX),
                ..values
            },
            "interval",
        ),
        (
            v1::Tuning {
                timeout_ns: Some(401_000_000),
                ..values
            },
            "timeout",
        ),
        (
            v1::Tuning {
                misses: Some(0),
                ..values
            },
            "misses",
        ),
        (
            v1::Tuning {
                misses: Some(u32::MAX),
                ..values
            },
            "misses",
        ),
    ] {
        peer.push(v1::RevisedTuning {
            tuning: Some(forged),
            ..good
        })
        .await;
        let ack = peer.ack().await;
        assert_eq!(
            (ack.revision, ack.outcome()),
            (9, Outcome::Refused),
            "{forged:?}"
        );
        assert!(ack.reason.contains(word), "{}", ack.reason);
        assert_eq!(ack.applied, Some(wire(&base)));
    }
    assert!(!host.state_dir().join("tuning.json").exists());
    let gap = longest_gap(&mut peer, 4).await;
    assert!(gap <= Duration::from_millis(300) + SLACK, "{gap:?}");
    agent.stop().await;
}

/// Field report E12.
#[tokio::test]
async fn what_was_applied_is_reported_after_a_restart_and_wins_over_the_base() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (mut peer, first) = fake.welcome(revised(0, 30_000, 3, 1_000)).await;
    let wanted = revised(5, 300, 8, 300);
    peer.push(wire(&wanted)).await;
    peer.ack().await;
    agent.stop().await;

    let agent = host.run(&fake.url());
    let (mut peer, second) = fake.welcome(revised(0, 30_000, 3, 1_000)).await;
    assert_eq!(second.applied, Some(wire(&wanted)));
    assert_eq!(second.agent_id, first.agent_id);
    assert_ne!(second.instance_id, first.instance_id);
    assert_eq!(
        second.fence,
        Some(v1::Fence {
            incarnation: 2,
            connection: 1
        })
    );
    let gap = longest_gap(&mut peer, 4).await;
    assert!(gap <= Duration::from_millis(300) + SLACK, "{gap:?}");
    agent.stop().await;
}

/// Field report E07: the latest good one of five stays in force, also after a restart, and not the first.
#[tokio::test]
async fn a_bad_revision_after_five_good_ones_leaves_the_fifth_in_force() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.run(&fake.url());
    let (mut peer, _) = fake.welcome(revised(0, 30_000, 3, 1_000)).await;
    let good = |revision| wire(&revised(revision, 20_000 + revision, 3, 1_000));
    for revision in 1..=5 {
        peer.push(good(revision)).await;
        assert_eq!(peer.ack().await.applied, Some(good(revision)));
    }
    let bad = v1::RevisedTuning { hash: 1, ..good(6) };
    peer.push(bad).await;
    let ack = peer.ack().await;
    assert_eq!((ack.revision, ack.outcome()), (6, Outcome::Refused));
    assert_eq!(ack.applied, Some(good(5)));
    agent.stop().await;

    let agent = host.run(&fake.url());
    let (_peer, again) = fake.welcome(revised(0, 30_000, 3, 1_000)).await;
    assert_eq!(again.applied, Some(good(5)));
    agent.stop().await;
}

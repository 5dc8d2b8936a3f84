//! Peers that abuse a connection, and many that vanish at once.

use std::time::Duration;

use fleetbeat_liveness::retune::Revised;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::{CloseReason, Ping, from_agent};

use crate::actor::{Actor, hello, tuning};
use crate::frames::Peer;
use crate::house::House;

const MEBI: u64 = 1 << 20;

/// Memory of this process that is in use, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Field report A17, hard case B2: who opens and resets streams without end is thrown out with a reason of
/// its own; neighbours lose no beat and memory stays.
#[tokio::test]
async fn a_flood_of_opened_and_reset_streams_ends_its_connection_and_nothing_else() {
    let house = House::open(1);
    let mut neighbour = Actor::join(&house, hello(2)).await;
    let before = resident();
    let mut rude = Peer::join(house.address, hello(1)).await;
    let flood = async {
        for _ in 0..200 {
            if rude.open_and_reset(5_000).await.is_err() {
                return;
            }
        }
        panic!("a million streams were taken");
    };
    tokio::time::timeout(Duration::from_mins(1), flood)
        .await
        .expect("the flood is stopped");
    drop(rude);
    let agent = house.agent(1);
    house.until(|| agent.session().is_none()).await;
    assert_eq!(house.closings(1).await, [CloseReason::Shed]);
    let because = house.view(1).because;
    assert!(
        because.contains("HTTP/2 protected this server"),
        "{because}"
    );
    for seq in 1..=20 {
        neighbour.ping(seq, seq).await;
        assert_eq!(neighbour.pong().await.seq, seq);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 50 * MEBI, "{grown} bytes more");
}

/// Field report A14: whoever vanishes without a word leaves no session, task or descriptor behind, and one
/// record each.
#[tokio::test]
async fn a_mass_loss_gives_everything_back() {
    const LOST: u8 = 120;
    /// More than a fifth of the fleet beats on, so that the silence is no question about the server.
    const LIVE: u8 = 60;
    let house = House::open(2);
    let brief = Revised {
        revision: 99,
        tuning: tuning((1_000, 2, 1_000)),
    };
    // What a first session allocates for good does not count.
    let first = Actor::join(&house, hello(250)).await;
    first.goodbye(CloseReason::Goodbye).await;
    drop(first);
    house.sessions_left(0).await;
    let briefly = |n| {
        let mut greeting = hello(n);
        greeting.applied = Some(brief.into());
        Peer::join(house.address, greeting)
    };
    let mut live = Vec::new();
    for n in LOST + 1..=LOST + LIVE {
        live.push(briefly(n).await);
    }
    let mut beating = tokio::task::JoinSet::new();
    beating.spawn(async move {
        for seq in 2.. {
            for peer in &mut live {
                peer.beat(seq).await;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    });
    let (before, memory) = (descriptors(), resident());
    let mut peers = Vec::new();
    for n in 1..=LOST {
        peers.push(briefly(n).await);
    }
    assert!(descriptors() >= before + 2 * usize::from(LOST));
    // They neither read nor write any more, and nobody resets anything for them.
    house.sessions_left(LIVE.into()).await;
    for n in 1..=LOST {
        assert_eq!(house.view(n).verdict, Verdict::Offline, "agent {n}");
        assert_eq!(house.closings(n).await, [CloseReason::MissedHeartbeats]);
    }
    house
        .until(|| descriptors() <= before + usize::from(LOST))
        .await;
    drop(peers);
    house.until(|| descriptors() <= before).await;
    let grown = resident().saturating_sub(memory);
    assert!(grown < 20 * MEBI, "{grown} bytes more");
}

/// Field report B15: times near every limit come back as they were, and no round trip wraps.
#[tokio::test]
async fn times_at_the_limits_of_their_type_come_back_as_they_were() {
    let house = House::open(1);
    let mut agent = Actor::join(&house, hello(1)).await;
    let millis_wrap = (1_u64 << 32) * 1_000_000;
    let seconds_wrap = (1_u64 << 31) * 1_000_000_000;
    let most = i64::MAX.unsigned_abs();
    for (seq, sent_ns) in (1..).zip([
        0,
        millis_wrap - 1,
        millis_wrap,
        seconds_wrap,
        most,
        most + 1,
        u64::MAX,
    ]) {
        let ping = Ping {
            seq,
            sent_ns,
            rtt_ns: (seq > 1).then_some(sent_ns),
            rtt_seq: (seq > 1).then_some(seq - 1),
            lag_ns: Some(u64::MAX),
            queue_depth: Some(u32::MAX),
        };
        agent.say(from_agent::Message::Ping(ping)).await;
        let answer = agent.pong().await;
        assert_eq!((answer.seq, answer.sent_ns), (seq, sent_ns));
        assert!(answer.hold_ns < 20_000_000_000, "{answer:?}");
    }
    let totals = house.session(1).totals();
    assert_eq!((totals.beats, totals.rtt_count), (7, 0), "no trip of years");
    assert_eq!(house.view(1).verdict, Verdict::Online);
}

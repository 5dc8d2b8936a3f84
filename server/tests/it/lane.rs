//! The lane over real sockets: an actor plays the agent, message by message.

use std::time::Duration;

use fleetbeat_liveness::condition::Condition;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::{CloseReason, from_agent, from_server, tuning_ack};
use fleetbeat_server::registry::Transition;

use crate::actor::{Actor, Connection, fence, hello, tuning};
use crate::house::House;

const SHORT: (u64, u32, u64) = (400, 3, 400);

#[tokio::test]
async fn hello_is_welcomed_and_a_ping_is_answered_with_its_echo() {
    let house = House::open(1);
    let mut agent = Actor::join(&house, hello(1)).await;
    agent.ping(1, 77).await;
    let pong = agent.pong().await;
    assert_eq!((pong.seq, pong.sent_ns), (1, 77));
    assert_eq!(house.view(1).verdict, Verdict::Online);
    assert_eq!(house.session(1).totals().beats, 1);
}

#[tokio::test]
async fn a_silent_agent_becomes_suspect_then_offline_and_never_early() {
    let house = House::open(1);
    house.policy(1, SHORT);
    let mut agent = Actor::beating(&house, 1).await;
    let heard = house.session(1).last_heard();
    house.verdict(1, Verdict::Suspect).await;
    let suspect = house.now().since(heard);
    let check = agent.next().await;
    assert!(
        matches!(check, Some(from_server::Message::Check(_))),
        "{check:?}"
    );
    house.verdict(1, Verdict::Offline).await;
    let offline = house.now().since(heard);
    assert!(
        suspect >= Duration::from_millis(800),
        "suspect after {suspect:?}"
    );
    assert!(
        offline >= Duration::from_millis(1_600),
        "offline after {offline:?}"
    );
    assert_eq!(agent.bye().await.reason(), CloseReason::MissedHeartbeats);
    assert_eq!(house.closings(1).await, [CloseReason::MissedHeartbeats]);
}

#[tokio::test]
async fn an_answered_check_makes_a_suspect_online_again() {
    let house = House::open(1);
    house.policy(1, SHORT);
    let mut agent = Actor::join(&house, hello(1)).await;
    agent.ack_welcome().await;
    house.verdict(1, Verdict::Suspect).await;
    agent
        .say(from_agent::Message::CheckReply(
            fleetbeat_proto::v1::CheckReply { nonce: 1 },
        ))
        .await;
    house.verdict(1, Verdict::Online).await;
}

/// HARD-CASES D1, C02: every order in which the old stream may end around a takeover.
#[tokio::test]
async fn the_old_streams_end_after_a_takeover_removes_nothing() {
    let house = House::open(1);
    let old = Actor::join(&house, fence(hello(1), 1, 1)).await;
    let first = house.session(1);
    let mut new = Actor::join(&house, fence(hello(1), 1, 2)).await;
    let second = house.session(1);
    assert_ne!(first.id, second.id);
    drop(old);
    house.ended(&first).await;
    let again = house
        .registry()
        .end(&first, CloseReason::TransportError, "late", None);
    assert!(!again, "a session ends once");
    house.registry().settle(&second);
    assert_eq!(
        house.session(1).id,
        second.id,
        "the newer session keeps its seat"
    );
    assert_eq!(house.view(1).verdict, Verdict::Online);
    new.ping(1, 0).await;
    new.pong().await;
}

#[tokio::test]
async fn a_superseded_stream_is_told_so_after_it_was_replaced() {
    let house = House::open(1);
    let mut old = Actor::join(&house, fence(hello(1), 1, 1)).await;
    let _new = Actor::join(&house, fence(hello(1), 2, 1)).await;
    assert_eq!(old.bye().await.reason(), CloseReason::Superseded);
    assert_eq!(house.closings(1).await, [CloseReason::Superseded]);
    assert_eq!(house.view(1).verdict, Verdict::Online);
}

/// HARD-CASES D1: a restored snapshot is told the floor instead of being locked out.
#[tokio::test]
async fn a_lower_fence_is_told_the_floor_and_changes_nothing() {
    let house = House::open(1);
    let _live = Actor::join(&house, fence(hello(1), 7, 3)).await;
    let mut stale = Actor::dial(&house).await;
    stale.hello(fence(hello(1), 7, 2)).await;
    let floor = stale.bye().await.stale_floor.expect("a floor");
    assert_eq!((floor.incarnation, floor.connection), (7, 3));
    assert_eq!(house.session(1).fence.connection, 3);
}

/// S27, field report D12: a storm is taken in at a rate; the others are told when, and are not offline
/// meanwhile.
#[tokio::test]
async fn agents_beyond_the_admission_rate_are_told_when_their_turn_comes() {
    let house = House::open_narrow(2);
    let first = Actor::join(&house, hello(1)).await;
    drop(first);
    house.verdict(1, Verdict::Suspect).await;
    let _second = Actor::join(&house, hello(2)).await;
    let mut turns = Vec::new();
    for _ in 0..3 {
        let mut third = Actor::dial(&house).await;
        third.hello(fence(hello(1), 1, 2)).await;
        let bye = third.bye().await;
        assert_eq!(bye.reason(), CloseReason::Shed);
        turns.push(bye.retry_after_min_ns.zip(bye.retry_after_max_ns).unwrap());
    }
    assert!(turns.is_sorted_by(|one, next| one.0 < next.0), "{turns:?}");
    assert!(turns.iter().all(|(min, max)| max - min >= 1_000_000_000));
    assert_eq!(house.registry().shed(), 3);
    let view = house.view(1);
    assert_eq!(view.verdict, Verdict::Unknown, "it lives: {}", view.because);
    let door_opens = house.now() + std::time::Duration::from_millis(600);
    house.until(|| house.now() >= door_opens).await;
    let _back = Actor::join(&house, fence(hello(1), 1, 3)).await;
    house.verdict(1, Verdict::Online).await;
}

#[tokio::test]
async fn one_incarnation_under_two_instances_is_a_twin() {
    let house = House::open(1);
    let _live = Actor::join(&house, fence(hello(1), 7, 3)).await;
    let mut twin = fence(hello(1), 7, 4);
    twin.instance_id = vec![9; 16];
    let mut actor = Actor::dial(&house).await;
    actor.hello(twin).await;
    let bye = actor.bye().await;
    assert_eq!(bye.reason(), CloseReason::DuplicateIdentity);
    assert!(bye.retry_after_min_ns >= Some(300_000_000_000));
    assert!(house.has(1, Condition::Duplicate));
}

/// HARD-CASES B3: a conviction resets its stream, not the connection that others use.
#[tokio::test]
async fn a_conviction_spares_the_neighbours_on_its_connection() {
    let house = House::open(1);
    house.policy(1, SHORT);
    house.policy(2, (60_000, 3, 2_000));
    let connection = Connection::dial(&house).await;
    let mut silent = Actor::on(&connection, hello(1)).await;
    silent.ack_welcome().await;
    let mut neighbour = Actor::on(&connection, hello(2)).await;
    neighbour.ack_welcome().await;
    house.verdict(1, Verdict::Offline).await;
    let closed = house.closings(1).await;
    assert_eq!(closed, [CloseReason::MissedHeartbeats]);
    neighbour.ping(1, 0).await;
    neighbour.pong().await;
    assert_eq!(house.view(2).verdict, Verdict::Online);
}

#[tokio::test]
async fn each_ending_has_its_own_reason_once() {
    let house = House::open(1);
    let goodbye = Actor::join(&house, hello(1)).await;
    goodbye.goodbye(CloseReason::Goodbye).await;
    house.verdict(1, Verdict::Left).await;
    let gave_up = Actor::join(&house, hello(2)).await;
    gave_up.goodbye(CloseReason::PeerGaveUp).await;
    house.verdict(2, Verdict::Suspect).await;
    drop(Actor::join(&house, hello(3)).await);
    house.verdict(3, Verdict::Suspect).await;
    let mut rude = Actor::join(&house, hello(4)).await;
    rude.ping(5, 0).await;
    assert_eq!(rude.bye().await.reason(), CloseReason::ProtocolError);
    assert_eq!(house.closings(1).await, [CloseReason::Goodbye]);
    assert_eq!(house.closings(2).await, [CloseReason::PeerGaveUp]);
    assert_eq!(house.closings(3).await, [CloseReason::TransportError]);
    assert_eq!(house.closings(4).await, [CloseReason::ProtocolError]);
    house.sessions_left(0).await;
}

/// HARD-CASES A5: an ending without Goodbye is judged from the last message on.
#[tokio::test]
async fn an_agent_whose_stream_broke_is_suspect_and_then_offline_at_its_deadline() {
    let house = House::open(1);
    house.policy(1, SHORT);
    let agent = Actor::beating(&house, 1).await;
    let session = house.session(1);
    drop(agent);
    house.ended(&session).await;
    assert_eq!(house.view(1).verdict, Verdict::Suspect);
    house.verdict(1, Verdict::Offline).await;
    let silence = house.now().since(session.last_heard());
    assert!(
        silence >= Duration::from_millis(1_600),
        "offline after {silence:?}"
    );
}

#[tokio::test]
async fn a_first_message_other_than_hello_is_refused_with_the_reason() {
    let house = House::open(1);
    let mut rude = Actor::dial(&house).await;
    rude.ping(1, 0).await;
    let bye = rude.bye().await;
    assert_eq!(bye.reason(), CloseReason::ProtocolError);
    assert!(bye.detail.contains("Hello"), "{}", bye.detail);
    assert!(house.registry().agents().is_empty());
}

/// HARD-CASES C1: the deadline is raised before a push can be seen, and lowered by its answer.
#[tokio::test]
async fn a_retune_raises_the_deadline_at_once_and_lowers_it_with_the_answer() {
    let house = House::open(1);
    house.policy(1, (1_000, 3, 1_000));
    let mut agent = Actor::join(&house, hello(1)).await;
    agent.ack_welcome().await;
    let session = house.session(1);
    house
        .until(|| session.offline_after() == Duration::from_secs(4))
        .await;
    let longer = Revised {
        revision: 8,
        tuning: tuning((60_000, 2, 2_000)),
    };
    assert!(house.registry().push(&session, longer, ""));
    assert_eq!(session.offline_after(), Duration::from_secs(122));
    agent.ack(tuning_ack::Outcome::Applied).await;
    house.until(|| session.waiting_for().is_none()).await;
    let shorter = Revised {
        revision: 9,
        tuning: tuning((400, 2, 400)),
    };
    assert!(house.registry().push(&session, shorter, ""));
    assert_eq!(
        session.offline_after(),
        Duration::from_secs(122),
        "not before the answer"
    );
    agent.ack(tuning_ack::Outcome::Applied).await;
    house
        .until(|| session.offline_after() == Duration::from_millis(1_200))
        .await;
    // HARD-CASES A4: the parked deadline follows at once, not when it would have come up.
    house.verdict(1, Verdict::Offline).await;
    let silence = house.now().since(session.last_heard());
    assert!(silence < Duration::from_secs(20), "found after {silence:?}");
}

#[tokio::test]
async fn a_refused_push_keeps_the_old_deadline_and_its_reason() {
    let house = House::open(1);
    house.policy(1, (1_000, 3, 1_000));
    let mut agent = Actor::join(&house, hello(1)).await;
    agent.ack_welcome().await;
    let session = house.session(1);
    house.until(|| session.waiting_for().is_none()).await;
    house.registry().push(
        &session,
        Revised {
            revision: 8,
            tuning: tuning((60_000, 2, 2_000)),
        },
        "",
    );
    agent.ack(tuning_ack::Outcome::Refused).await;
    house.until(|| session.refused().is_some()).await;
    assert_eq!(session.offline_after(), Duration::from_secs(4));
    assert_eq!(session.refused(), Some((8, "no".to_owned())));
}

/// A replica that is behind the agent judges by what the agent runs and pushes nothing (C3).
#[tokio::test]
async fn a_server_behind_the_agents_revision_pushes_nothing() {
    let house = House::open(1);
    house.policy(1, SHORT);
    let applied = Revised {
        revision: 99,
        tuning: tuning((5_000, 2, 1_000)),
    };
    let mut greeting = hello(1);
    greeting.applied = Some(applied.into());
    let agent = Actor::join(&house, greeting).await;
    assert!(agent.welcome.tuning.is_none());
    assert_eq!(house.session(1).offline_after(), Duration::from_secs(11));
}

/// HARD-CASES B2: what many streams sent during a stall is read, and no session is lost.
#[tokio::test]
async fn a_burst_on_every_stream_of_one_connection_loses_no_session() {
    const STREAMS: u8 = 60;
    let house = House::open(1);
    let connection = Connection::dial(&house).await;
    let mut actors = Vec::new();
    for n in 1..=STREAMS {
        actors.push(Actor::on(&connection, hello(n)).await);
    }
    for actor in &mut actors {
        for seq in 1..=40 {
            actor.ping(seq, 0).await;
        }
    }
    for n in 1..=STREAMS {
        let session = house.session(n);
        house.until(|| session.totals().beats == 40).await;
    }
    house.sessions_left(u64::from(STREAMS)).await;
}

/// HARD-CASES B1: who does not read is read all the same, and ends for what it is.
#[tokio::test]
async fn an_agent_that_does_not_read_is_a_slow_consumer_and_no_silent_one() {
    let house = House::open(1);
    house.policy(1, SHORT);
    let connection = Connection::dial_narrow(&house).await;
    let mut deaf = Actor::on(&connection, hello(1)).await;
    deaf.ack_welcome().await;
    let session = house.session(1);
    let mut seq = 0;
    while session.ending().is_none() {
        seq += 1;
        deaf.ping(seq, 0).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(house.closings(1).await, [CloseReason::SlowConsumer]);
    let beats = session.totals().beats;
    assert!(beats > 60, "read {beats} of {seq} beats");
}

#[tokio::test]
async fn journals_tell_a_session_from_its_opening_to_its_close() {
    let house = House::open(1);
    let mut agent = Actor::join(&house, hello(1)).await;
    agent.ping(1, 0).await;
    agent.pong().await;
    let session = house.session(1);
    agent.goodbye(CloseReason::Goodbye).await;
    house.ended(&session).await;
    house.until(|| house.registry().session_count() == 0).await;
    let told: Vec<_> = house
        .agent(1)
        .take_journal()
        .into_iter()
        .map(|entry| entry.what)
        .collect();
    assert!(
        matches!(told[0], Transition::SessionOpened { .. }),
        "{told:?}"
    );
    assert!(
        matches!(
            told[1],
            Transition::Verdict {
                to: Verdict::Online,
                ..
            }
        ),
        "{told:?}"
    );
    assert!(
        matches!(
            told[2],
            Transition::Verdict {
                to: Verdict::Left,
                ..
            }
        ),
        "{told:?}"
    );
    let Transition::SessionClosed {
        session, reason, ..
    } = &told[3]
    else {
        panic!("{told:?}")
    };
    assert_eq!((session.totals().beats, *reason), (1, CloseReason::Goodbye));
}

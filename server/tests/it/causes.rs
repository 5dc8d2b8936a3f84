//! Why a session was lost, settled when its agent returns.

use std::time::Duration;

use fleetbeat_liveness::cause::Cause;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::{CloseReason, Hello, LastEnding, last_ending};

use crate::actor::{Actor, fence, hello};
use crate::house::House;

fn booted(mut hello: Hello, boot: &str, instance: u8) -> Hello {
    boot.clone_into(&mut hello.boot_id);
    hello.instance_id = vec![instance; 16];
    hello
}

fn accounted(mut hello: Hello, cause: last_ending::Cause) -> Hello {
    hello.last_ending = Some(LastEnding {
        cause: cause.into(),
        ..LastEnding::default()
    });
    hello
}

/// The cause of the first session of an agent that broke, told by its next Hello.
async fn cause_of(first: Hello, next: Hello) -> Cause {
    let house = House::open(1);
    let agent = Actor::join(&house, first).await;
    let lost = house.session(1);
    drop(agent);
    house.ended(&lost).await;
    let _back = Actor::join(&house, next).await;
    let (session, settled) = house.cause(1).await;
    assert_eq!(session, lost.id);
    assert!(!settled.because.is_empty());
    settled.cause
}

/// Requirement S2, field report B06.
#[tokio::test]
async fn what_returns_tells_why_the_session_before_was_lost() {
    use last_ending::Cause as Told;
    let first = || booted(hello(1), "boot-1", 1);
    let same = |connection| fence(first(), 1, connection);
    let restarted = fence(booted(hello(1), "boot-1", 2), 2, 1);
    let rebooted = fence(booted(hello(1), "boot-2", 2), 2, 1);
    let slept = accounted(same(2), Told::Suspend);
    let gave_up = accounted(same(2), Told::ServerSilent);
    let raised = fence(first(), 9, 1);
    for (name, next, expected) in [
        ("the same process", same(2), Cause::Path),
        ("another process", restarted, Cause::Crash),
        ("another boot", rebooted, Cause::HostRestart),
        ("a host that slept", slept, Cause::Suspend),
        ("one that gave up", gave_up, Cause::Path),
        ("one that passed a floor", raised, Cause::Path),
    ] {
        assert_eq!(cause_of(first(), next).await, expected, "{name}");
    }
}

/// Field reports C04 and C13: a killed process that starts again at once is taken in at once, although its
/// old connection is still open; what it lost is a crash.
#[tokio::test]
async fn a_process_that_was_killed_and_started_again_is_online_at_once() {
    let house = House::open(1);
    let zombie = Actor::join(&house, booted(hello(1), "boot-1", 1)).await;
    let lost = house.session(1);
    let started = house.now();
    let mut next = Actor::join(&house, fence(booted(hello(1), "boot-1", 2), 2, 1)).await;
    next.ping(1, 0).await;
    next.pong().await;
    assert_eq!(house.view(1).verdict, Verdict::Online);
    let took = house.now().since(started);
    assert!(took < Duration::from_secs(2), "online after {took:?}");
    let (session, settled) = house.cause(1).await;
    assert_eq!((session, settled.cause), (lost.id, Cause::Crash));
    let reason = lost.ending().map(|ending| ending.reason);
    assert_eq!(reason, Some(CloseReason::Superseded));
    drop(zombie);
}

/// Field report A27: the same identity from elsewhere is the same agent.
#[tokio::test]
async fn a_move_that_the_server_did_not_notice_is_a_lost_path() {
    let house = House::open(1);
    let _half_open = Actor::join(&house, hello(1)).await;
    let lost = house.session(1);
    let _moved = Actor::join(&house, fence(hello(1), 1, 2)).await;
    let (session, settled) = house.cause(1).await;
    assert_eq!((session, settled.cause), (lost.id, Cause::Path));
    assert_eq!(house.registry().agents().len(), 1);
}

//! What is the case with an agent beside its verdict.

use std::time::Duration;

use fleetbeat_liveness::condition::Condition;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::{CloseReason, Hello};
use fleetbeat_server::registry::Transition;

use crate::actor::{Actor, fence, hello};
use crate::house::House;

const SHORT: (u64, u32, u64) = (400, 3, 400);
const HOUR_US: i64 = 3_600_000_000;

/// The changes of one condition in the journal of agent 1.
fn changes(house: &House, of: Condition) -> Vec<bool> {
    let entries = house.agent(1).take_journal().into_iter();
    let changes = entries.filter_map(|entry| {
        let Transition::Condition {
            condition, began, ..
        } = entry.what
        else {
            return None;
        };
        (condition == of).then_some(began)
    });
    changes.collect()
}

fn instance(mut hello: Hello, instance: u8) -> Hello {
    hello.instance_id = vec![instance; 16];
    hello
}

/// Hard case A9: every message is life, and a beat loop that is dead is told all the same, once.
#[tokio::test]
async fn an_agent_that_sends_everything_but_pings_is_degraded_and_never_offline() {
    let house = House::open(1);
    house.policy(1, SHORT);
    let agent = Actor::beating(&house, 1).await;
    let talk = async {
        loop {
            agent.report().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let degraded = house.until(|| house.has(1, Condition::Degraded));
    tokio::select! {
        () = talk => {}
        () = degraded => {}
    }
    let pinged = house.now().since(house.session(1).last_pinged());
    assert!(pinged >= Duration::from_millis(1_600), "after {pinged:?}");
    assert_eq!(house.view(1).verdict, Verdict::Online);
    let detail = house.view(1).conditions[0].detail.clone();
    assert!(detail.contains("no PING for"), "{detail}");
    let told = house.agent(1).take_journal();
    let suspected = |entry: &fleetbeat_server::registry::Entry| {
        let bad = Verdict::Suspect;
        matches!(entry.what, Transition::Verdict { to, .. } if to == bad)
    };
    assert!(!told.iter().any(suspected), "{told:?}");
    agent.ping(2, 0).await;
    house.until(|| !house.has(1, Condition::Degraded)).await;
    assert_eq!(changes(&house, Condition::Degraded), [false]);
}

/// Field report D09: the beat goes on while the agent is stuck, and its own account shows it.
#[tokio::test]
async fn an_agent_whose_pings_tell_of_lag_is_alive_and_not_progressing() {
    let house = House::open(1);
    let agent = Actor::join(&house, hello(1)).await;
    for seq in 1..=3 {
        agent.ping_strained(seq, 2_500, 0).await;
    }
    house.until(|| house.has(1, Condition::Degraded)).await;
    let view = house.view(1);
    assert_eq!(view.verdict, Verdict::Online);
    let detail = &view.conditions[0].detail;
    assert!(detail.contains("not progressing"), "{detail}");
    for seq in 4..=6 {
        agent.ping_strained(seq, 0, 0).await;
    }
    house.until(|| !house.has(1, Condition::Degraded)).await;
    assert_eq!(changes(&house, Condition::Degraded), [true, false]);
}

/// Hard case D1: a host that cannot persist its incarnation runs on, and is told.
#[tokio::test]
async fn an_agent_with_a_state_directory_it_cannot_write_is_degraded_while_it_is_here() {
    let house = House::open(1);
    let mut greeting = hello(1);
    greeting.volatile_state = true;
    let agent = Actor::join(&house, greeting).await;
    assert!(house.has(1, Condition::Degraded));
    agent.goodbye(CloseReason::Goodbye).await;
    house.verdict(1, Verdict::Left).await;
    assert!(!house.has(1, Condition::Degraded));
}

/// Field reports C10 and C03: fifty reconnects in a moment are one seat, one condition and no loop.
#[tokio::test]
async fn fifty_reconnects_at_once_leave_one_session_and_one_condition() {
    let house = House::open(1);
    let mut last = Actor::join(&house, hello(1)).await;
    for connection in 2..=50 {
        last = Actor::join(&house, fence(hello(1), 1, connection)).await;
    }
    house.sessions_left(1).await;
    assert!(house.has(1, Condition::Flapping));
    last.ping(1, 0).await;
    last.pong().await;
    assert_eq!(house.session(1).fence.connection, 50);
    let meters = house.registry().meters().all();
    let of = |reason| {
        meters
            .iter()
            .map(|meter| meter.sessions_closed(reason))
            .sum()
    };
    let closed: u64 = of(CloseReason::Superseded);
    assert_eq!(closed, 49, "each of them once");
}

#[tokio::test]
async fn planned_endings_are_no_flapping() {
    let house = House::open(1);
    for connection in 1..=12 {
        let agent = Actor::join(&house, fence(hello(1), 1, connection)).await;
        agent.goodbye(CloseReason::Goodbye).await;
        house.verdict(1, Verdict::Left).await;
    }
    assert!(!house.has(1, Condition::Flapping));
}

/// Hard case D1, field report C07: two copies of one state directory take the seat from each other; the
/// first that speaks again after it was replaced is proof, and is parked while the other lives.
#[tokio::test]
async fn copies_that_supersede_each_other_are_twins_and_the_returning_one_is_parked() {
    let house = House::open(1);
    let mut first = Actor::join(&house, instance(fence(hello(1), 5, 1), 1)).await;
    let mut copy = Actor::join(&house, instance(fence(hello(1), 6, 1), 2)).await;
    assert_eq!(first.bye().await.reason(), CloseReason::Superseded);
    assert!(!house.has(1, Condition::Duplicate), "a restart so far");
    copy.ping(1, 0).await;
    copy.pong().await;
    let mut again = Actor::dial(&house).await;
    again.hello(instance(fence(hello(1), 7, 1), 1)).await;
    let bye = again.bye().await;
    assert_eq!(bye.reason(), CloseReason::DuplicateIdentity);
    assert!(bye.retry_after_min_ns >= Some(300_000_000_000));
    assert!(house.has(1, Condition::Duplicate));
    let detail = house.view(1).conditions[0].detail.clone();
    assert_eq!(detail.matches("127.0.0.1:").count(), 2, "{detail}");
    copy.ping(2, 0).await;
    copy.pong().await;
    copy.goodbye(CloseReason::Goodbye).await;
    house.verdict(1, Verdict::Left).await;
    // The other is gone: nobody is in the way of the one that was parked.
    let _alone = Actor::join(&house, instance(fence(hello(1), 7, 1), 1)).await;
    assert_eq!(house.view(1).verdict, Verdict::Online);
}

/// Field report B14: a clock that is wrong is shown with the amount and never touches liveness.
#[tokio::test]
async fn a_wrong_wall_clock_is_shown_and_judges_nobody() {
    let house = House::open(1);
    let wall = house.registry().clock().wall().unix_timestamp() * 1_000_000;
    let mut behind = hello(1);
    behind.wall_unix_us = Some(wall - 120 * HOUR_US);
    let mut agent = Actor::join(&house, behind).await;
    assert!(house.has(1, Condition::ClockSkew));
    let detail = house.view(1).conditions[0].detail.clone();
    assert!(detail.contains("behind the server's"), "{detail}");
    agent.ping(1, 0).await;
    agent.pong().await;
    assert_eq!(house.view(1).verdict, Verdict::Online);
    let mut absurd = fence(hello(1), 1, 2);
    absurd.wall_unix_us = Some(i64::MAX);
    let _absurd = Actor::join(&house, absurd).await;
    let mut right = fence(hello(1), 1, 3);
    right.wall_unix_us = Some(wall);
    let _right = Actor::join(&house, right).await;
    assert!(!house.has(1, Condition::ClockSkew));
    assert_eq!(changes(&house, Condition::ClockSkew), [true, false]);
}

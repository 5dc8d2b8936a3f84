//! Adaptive mode and leases on real streams.

use std::time::Duration;

use fleetbeat_liveness::policy::Selector;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::{CloseReason, Ping, from_agent, from_server, tuning_ack};
use fleetbeat_server::tuning::in_force;
use tonic::Code;

use crate::actor::{Actor, hello, tuning};
use crate::house::House;
use crate::office::{Office, interval, set};
use crate::retune::web;

/// An agent that runs `tuning`, welcomed and retuned.
async fn running(house: &House, tuning: Tuning) -> Actor {
    house.policy(1, (1_000, 3, 1_000));
    let mut agent = Actor::join(house, hello(1)).await;
    agent.ack_welcome().await;
    let session = house.session(1);
    house.until(|| session.waiting_for().is_none()).await;
    let revised = Revised {
        revision: 8,
        tuning,
    };
    assert!(house.registry().push(&session, revised, ""));
    agent.ack(tuning_ack::Outcome::Applied).await;
    house.until(|| session.waiting_for().is_none()).await;
    agent
}

async fn beat(agent: &Actor, seq: u64, trip: Option<Duration>) {
    let ping = Ping {
        seq,
        rtt_ns: trip.map(|trip| u64::try_from(trip.as_nanos()).unwrap()),
        rtt_seq: trip.map(|_| seq - 1),
        ..Ping::default()
    };
    agent.say(from_agent::Message::Ping(ping)).await;
}

/// Hard case A11, requirement S15: D = 1.2 s, P = 350 ms, so J = 1.4 s and the end at 2.4 s = 2·D.
#[tokio::test]
async fn an_adaptive_agent_is_asked_twice_and_convicted_at_twice_its_deadline() {
    let house = House::open(1);
    let adaptive = tuning((400, 2, 400)).with_adaptive(true).unwrap();
    let mut agent = running(&house, adaptive).await;
    beat(&agent, 1, None).await;
    for seq in 2..=20 {
        beat(&agent, seq, Some(Duration::from_millis(350))).await;
    }
    let session = house.session(1);
    house.until(|| session.totals().beats == 20).await;
    assert_eq!(session.offline_after(), Duration::from_millis(1_200));

    let mut asked = Vec::new();
    let bye = loop {
        match agent.next().await {
            Some(from_server::Message::Check(_)) => {
                asked.push(house.now().since(session.last_heard()));
            }
            Some(from_server::Message::Bye(bye)) => break bye,
            Some(_) => {}
            None => panic!("the stream ended without Bye"),
        }
    };
    let silence = house.now().since(session.last_heard());
    assert_eq!(bye.reason(), CloseReason::MissedHeartbeats);
    assert!(silence >= Duration::from_millis(2_400), "{silence:?}");
    house.verdict(1, Verdict::Offline).await;
    assert_eq!(asked.len(), 2, "at T + W and at J: {asked:?}");
    assert!(asked[0] >= Duration::from_millis(800), "{asked:?}");
    assert!(asked[1] >= Duration::from_millis(1_400), "{asked:?}");
}

/// Requirement S22, hard case A10: a lease is renewed by every PING and answered at every third, the first
/// included, which proves the path both ways.
#[tokio::test]
async fn a_lease_is_answered_at_every_third_renewal() {
    let house = House::open(1);
    let lease = Tuning::new(Duration::from_secs(1), 3, Duration::from_secs(1), 3).unwrap();
    let mut agent = running(&house, lease).await;
    for seq in 1..=9 {
        beat(&agent, seq, None).await;
    }
    let mut answered = Vec::new();
    while answered.last() != Some(&9) {
        answered.push(agent.pong().await.seq);
    }
    let session = house.session(1);
    assert_eq!(session.totals().beats, 9);
    // Answers in a row share one place: the latest wins.
    assert!(
        answered.iter().all(|seq| [1, 3, 6, 9].contains(seq)),
        "{answered:?}"
    );
    assert_eq!(session.offline_after(), Duration::from_secs(4));
}

/// Requirement S15: per policy, kept in Postgres, pushed, and refused together with a lease.
#[tokio::test]
async fn adaptive_mode_is_a_part_of_a_policy_like_any_other() {
    let office = Office::open().await;
    let mut agent = web(&office, 1).await;
    let mut client = office.client().await;
    let adaptive = |on| v1::Tuning {
        adaptive: Some(on),
        ..v1::Tuning::default()
    };
    let made = client.set_tuning(set("web", adaptive(true))).await.unwrap();
    let after = made.into_inner().after.unwrap();
    assert_eq!((after.adaptive, after.misses), (Some(true), Some(3)));
    assert_eq!(agent.ack(tuning_ack::Outcome::Applied).await, 1);
    let session = office.house.session(1);
    office.house.until(|| session.waiting_for().is_none()).await;
    assert!(session.in_force().tuning.adaptive());

    let elsewhere = office.other_desk();
    elsewhere.refresh().await.unwrap();
    let stored = in_force(&elsewhere.policies(), &Selector::group("web"));
    assert_eq!(stored, session.in_force().tuning);

    let lease = v1::Tuning {
        pong_every: Some(5),
        ..v1::Tuning::default()
    };
    let refused = client.set_tuning(set("web", lease)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(
        refused.message().contains("set pong_every to 1"),
        "{refused}"
    );
    let both = v1::Tuning {
        adaptive: Some(false),
        ..lease
    };
    client.set_tuning(set("web", both)).await.unwrap();
    assert_eq!(agent.ack(tuning_ack::Outcome::Applied).await, 2);
    office
        .house
        .until(|| session.in_force().tuning.pong_every() == 5)
        .await;
    client
        .set_tuning(set("web", interval(5_000)))
        .await
        .unwrap();
    agent.ack(tuning_ack::Outcome::Applied).await;
    office
        .house
        .until(|| session.in_force().revision == 3)
        .await;
    assert_eq!(
        session.in_force().tuning.pong_every(),
        5,
        "unsaid parts stay"
    );
    office.database.stop().await;
}

//! Every verdict says why, as facts.

use std::time::Duration;

use fleetbeat_liveness::grounds::{Heard, Trigger};
use fleetbeat_liveness::path::Path;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::CloseReason;
use fleetbeat_server::registry::Transition;

use crate::actor::{Actor, hello};
use crate::house::House;

const SHORT: (u64, u32, u64) = (400, 3, 400);
const MS: Duration = Duration::from_millis(1);

/// Hard case A14, requirement S2: the test keeps its end of the connection, so its kernel acknowledges the
/// question that the silent agent does not answer.
#[tokio::test]
async fn a_silent_process_is_told_from_a_dead_path_by_its_kernel() {
    let house = House::open(1);
    house.policy(1, SHORT);
    let mut agent = Actor::join(&house, hello(1)).await;
    agent.ack_welcome().await;
    for seq in 1..=2 {
        agent.ping_strained(seq, 70, 2).await;
        agent.pong().await;
    }
    house.verdict(1, Verdict::Suspect).await;
    let limit = MS * 800;
    assert_eq!(house.grounds(1).trigger, Trigger::Silent { limit });
    assert_eq!(house.silence(1).last, Heard::Ping(2));

    house.verdict(1, Verdict::Offline).await;
    let (grounds, silence) = (house.grounds(1), house.silence(1));
    let limit = MS * 1_600;
    assert_eq!(grounds.trigger, Trigger::Silent { limit });
    assert!(silence.age >= limit, "{silence:?}");
    assert_eq!((silence.last, silence.beats), (Heard::Ping(2), 2));
    assert!(silence.missed >= 4, "{silence:?}");
    assert!(silence.owed > silence.missed, "{silence:?}");
    assert_eq!((silence.agent_lag, silence.agent_queue), (MS * 70, 2));
    let evidence = silence.evidence.expect("the kernel was asked");
    assert_eq!(evidence.path, Path::Works, "{evidence:?}");
    let late = grounds.judged_late().expect("a verdict about silence");
    assert_eq!(silence.age, limit + grounds.held + late);
    let because = house.view(1).because;
    assert!(because.contains("PING 2"), "{because}");
    assert!(because.contains("the process is silent"), "{because}");
}

/// Hard case A5: the facts of the session that broke explain the verdict that follows.
#[tokio::test]
async fn an_agent_that_does_not_come_back_is_explained_by_the_session_it_lost() {
    let house = House::open(1);
    house.policy(1, SHORT);
    let agent = Actor::beating(&house, 1).await;
    drop(agent);
    house.verdict(1, Verdict::Suspect).await;
    let ended = house.grounds(1);
    assert!(matches!(ended.trigger, Trigger::Ended { .. }), "{ended:?}");
    house.verdict(1, Verdict::Offline).await;
    let because = house.view(1).because;
    assert!(because.starts_with("did not come back"), "{because}");
    assert!(because.contains("transport_error"), "{because}");
    let silence = house.silence(1);
    assert!(
        silence.age >= MS * 1_600 && silence.missed >= 4,
        "{silence:?}"
    );
}

/// Requirements S3, S26: suspicion is taken back, with the length of the silence.
#[tokio::test]
async fn an_agent_that_speaks_again_says_how_long_it_was_silent() {
    let house = House::open(1);
    house.policy(1, SHORT);
    let mut agent = Actor::join(&house, hello(1)).await;
    agent.ack_welcome().await;
    house.verdict(1, Verdict::Suspect).await;
    agent.report().await;
    house.verdict(1, Verdict::Online).await;
    let Trigger::HeardAgain { after } = house.grounds(1).trigger else {
        panic!("{:?}", house.grounds(1));
    };
    assert!(after >= MS * 800, "{after:?}");
    assert_eq!(house.silence(1).last, Heard::ProbeReport);
}

/// Hard case B5, field report D19.
#[tokio::test]
async fn an_agent_that_left_and_is_not_back_in_time_is_overdue() {
    let house = House::open(1);
    let agent = Actor::join(&house, hello(1)).await;
    agent.goodbye_for(MS * 300).await;
    house.verdict(1, Verdict::Left).await;
    let because = house.view(1).because;
    assert!(because.contains("back within 300 ms"), "{because}");
    let overdue = house.told(1, |what| {
        let Transition::Overdue { grounds } = what else {
            return None;
        };
        Some(grounds)
    });
    let told = overdue.await.to_string();
    assert!(
        told.starts_with("overdue: said goodbye (an update)"),
        "{told}"
    );
    assert_eq!(house.view(1).verdict, Verdict::Left);
    assert_eq!(house.view(1).because, told);
}

/// Field report D19: a planned restart that keeps its promise is told as nothing else.
#[tokio::test]
async fn an_agent_that_is_back_in_time_is_not_overdue() {
    let house = House::open(1);
    let agent = Actor::join(&house, hello(1)).await;
    agent.goodbye_for(MS * 400).await;
    house.verdict(1, Verdict::Left).await;
    let mut again = Actor::join(&house, crate::actor::fence(hello(1), 2, 1)).await;
    // Time has to pass here: what is to be shown is that nothing happens when it is up.
    tokio::time::sleep(MS * 700).await;
    again.ping(1, 0).await;
    again.pong().await;
    let told = house.agent(1).take_journal();
    let wrong = told.iter().any(|entry| {
        matches!(
            entry.what,
            Transition::Overdue { .. } | Transition::CauseSettled { .. }
        )
    });
    assert!(!wrong, "{told:?}");
    let closed = told.iter().filter_map(|entry| {
        let Transition::SessionClosed { reason, .. } = &entry.what else {
            return None;
        };
        Some(*reason)
    });
    assert_eq!(closed.collect::<Vec<_>>(), [CloseReason::Goodbye]);
}

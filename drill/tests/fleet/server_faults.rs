use std::time::Duration;

use fleetbeat_drill::stage::until;
use fleetbeat_proto::v1::{CloseReason, Verdict};
use nix::sys::signal::Signal;

use crate::fleet::{Fleet, SOON, agent_id, reasons};

const CROWD: u32 = 300;
const PAUSE: Duration = Duration::from_secs(20);
const BACK_WITHIN: Duration = Duration::from_mins(2);
/// `kill -9` loses at most 10 s of metrics.
const LOST_SECONDS: u64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_convicted_for_the_time_in_which_the_server_was_stopped() {
    let mut fleet = Fleet::start().await;
    // D is 8 s, so the agents give the server up meanwhile; with D of 62 s they wait for it.
    fleet.tune(&["--group", "impatient"], "2s", "3", "2s").await;
    let crowd = fleet
        .stage
        .start_crowd("paused", CROWD, &["impatient", "patient"])
        .unwrap();
    fleet.stage.start_agent("real", "impatient").unwrap();
    fleet.all_online(u64::from(CROWD) + 1, SOON).await;
    fleet.stage.server.signal(Signal::SIGSTOP).unwrap();
    tokio::time::sleep(PAUSE).await;
    fleet.stage.server.signal(Signal::SIGCONT).unwrap();
    fleet.all_online(u64::from(CROWD) + 1, BACK_WITHIN).await;
    let stalls = fleet
        .operator
        .status()
        .await
        .unwrap()
        .judge
        .unwrap()
        .stalls_total;
    assert!(stalls > 0, "the server did not notice that it was stopped");
    let swarm = crowd.leave().await.unwrap();
    let patient = swarm.agents.iter().filter(|agent| agent.group == "patient");
    let moved = patient.filter(|agent| agent.counts.sessions > 1).count();
    assert_eq!(
        moved, 0,
        "agents that had waited lost their sessions: {:?}",
        swarm.total
    );
    fleet.written(SOON).await;
    assert_eq!(
        fleet.ever_judged(Verdict::Offline).await,
        Vec::<String>::new()
    );
    let closes = fleet.ledger.closes().await.unwrap();
    assert_eq!(
        closes.get(&(CloseReason::MissedHeartbeats as i16)),
        None,
        "{closes:?}"
    );
    assert_eq!(fleet.ledger.duplicates().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_comes_back_to_lost_sessions_and_unknown_agents_without_duplicates() {
    let mut fleet = Fleet::start().await;
    fleet.tune(&["--fleet"], "2s", "5", "2s").await;
    let crowd = fleet
        .stage
        .start_crowd("orphan", CROWD, &["default"])
        .unwrap();
    fleet.stage.start_agent("absent", "default").unwrap();
    fleet.all_online(u64::from(CROWD) + 1, SOON).await;
    recorded_sessions(&fleet, u64::from(CROWD) + 1).await;
    let absent = fleet.operator.agent("absent").await.unwrap();
    fleet
        .stage
        .agent("absent")
        .unwrap()
        .signal(Signal::SIGSTOP)
        .unwrap();
    fleet.stage.server.kill().unwrap();
    fleet.stage.server.start().await.unwrap();
    let unknown = fleet.verdict("absent", Verdict::Unknown, SOON).await;
    assert_eq!(unknown.agent_id, absent.agent_id);
    fleet.all_online(CROWD.into(), BACK_WITHIN).await;
    fleet
        .stage
        .agent("absent")
        .unwrap()
        .signal(Signal::SIGCONT)
        .unwrap();
    fleet.all_online(u64::from(CROWD) + 1, BACK_WITHIN).await;
    let swarm = crowd.leave().await.unwrap();
    fleet
        .stage
        .agent("absent")
        .unwrap()
        .terminate(SOON)
        .await
        .unwrap();
    fleet.written(SOON).await;
    let sessions = fleet.ended_sessions(&absent, 2).await;
    assert_eq!(
        reasons(&sessions),
        [CloseReason::ServerLost, CloseReason::Goodbye]
    );
    assert_eq!(
        sessions[0].session_id.to_string(),
        absent.session_id.unwrap()
    );
    each_session_once(&fleet, u64::from(CROWD) + 1).await;
    at_most_ten_seconds_are_missing(&fleet, swarm.total.certain_pings()).await;
}

async fn recorded_sessions(fleet: &Fleet, agents: u64) {
    until("every session to be recorded", SOON, async || {
        Ok((fleet.ledger.open_sessions().await? == agents).then_some(()))
    })
    .await
    .unwrap();
}

async fn each_session_once(fleet: &Fleet, agents: u64) {
    let wanted = [
        (CloseReason::ServerLost as i16, agents),
        (CloseReason::Goodbye as i16, agents),
    ];
    until("every ending to be recorded", SOON, async || {
        Ok((fleet.ledger.open_sessions().await? == 0).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(fleet.ledger.closes().await.unwrap(), wanted.into());
    assert_eq!(fleet.ledger.duplicates().await.unwrap(), 0);
}

async fn at_most_ten_seconds_are_missing(fleet: &Fleet, sent: u64) {
    // The quickest pace is one beat per agent and 0.9·T.
    let allowed = u64::from(CROWD) * (LOST_SECONDS * 10 / 18 + 1);
    until("the beats to be recorded", SOON, async || {
        let recorded: u64 = fleet.ledger.beats_by_agent().await?.values().sum();
        Ok((recorded + allowed >= sent).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_server_sends_each_agent_away_once_though_their_connections_live_on() {
    let mut fleet = Fleet::start().await;
    fleet.tune(&["--fleet"], "2s", "3", "2s").await;
    let crowd = fleet
        .stage
        .start_crowd("drained", CROWD, &["default"])
        .unwrap();
    // It can't answer the BYE, so the server waits, and others want to come back meanwhile.
    fleet.stage.start_agent("stuck", "default").unwrap();
    fleet.all_online(u64::from(CROWD) + 1, SOON).await;
    fleet
        .stage
        .agent("stuck")
        .unwrap()
        .signal(Signal::SIGSTOP)
        .unwrap();
    assert!(fleet.stage.server.drain().await.unwrap().success());
    fleet.stage.server.start().await.unwrap();
    fleet.all_online(CROWD.into(), BACK_WITHIN).await;
    let swarm = crowd.leave().await.unwrap();
    assert_eq!(
        swarm.total.sessions,
        u64::from(CROWD) * 2,
        "{:?}",
        swarm.total
    );
    let closes = fleet.ledger.closes().await.unwrap();
    let drained = closes.get(&(CloseReason::ServerDrain as i16));
    assert_eq!(drained, Some(&(u64::from(CROWD) + 1)), "{closes:?}");
    assert_eq!(
        fleet.ever_judged(Verdict::Offline).await,
        Vec::<String>::new()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_id_survives_the_server_and_keeps_its_records_apart() {
    let mut fleet = Fleet::start().await;
    fleet.stage.start_agent("one", "default").unwrap();
    let before = fleet.verdict("one", Verdict::Online, SOON).await;
    assert!(fleet.stage.server.drain().await.unwrap().success());
    fleet.stage.server.start().await.unwrap();
    let after = fleet.verdict("one", Verdict::Online, BACK_WITHIN).await;
    assert_eq!(agent_id(&after), agent_id(&before));
    let sessions = fleet.ended_sessions(&after, 1).await;
    assert_eq!(reasons(&sessions), [CloseReason::ServerDrain]);
}

use std::time::Duration;

use fleetbeat_drill::clock;
use fleetbeat_proto::v1::{Agent, CloseReason, Verdict};
use nix::sys::signal::Signal;

use crate::fleet::{Fleet, SOON, agent_id, ms_between, reasons};

const T: Duration = Duration::from_secs(2);
const N: u32 = 3;
const W: Duration = Duration::from_secs(1);
const LATE_MS: i64 = 250;
const AGENTS: [&str; 5] = ["frozen-1", "frozen-2", "frozen-3", "frozen-4", "frozen-5"];
/// Agents that live on, so that the silence of five is not the silence of nearly everyone.
const CROWD: u32 = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_agent_is_suspect_then_offline_on_time_and_comes_back_as_itself() {
    let mut fleet = Fleet::start().await;
    fleet.tune(&["--fleet"], "2s", "3", "1s").await;
    let crowd = fleet
        .stage
        .start_crowd("living", CROWD, &["default"])
        .unwrap();
    for name in AGENTS {
        fleet.stage.start_agent(name, "default").unwrap();
    }
    fleet.all_online(u64::from(CROWD) + 5, SOON).await;
    let mut before = Vec::new();
    for name in AGENTS {
        before.push(fleet.operator.agent(name).await.unwrap());
        fleet
            .stage
            .agent(name)
            .unwrap()
            .signal(Signal::SIGSTOP)
            .unwrap();
    }
    let frozen_us = clock::wall_us();
    for name in AGENTS {
        let silent = fleet
            .verdict(name, Verdict::Offline, T * N + W + SOON)
            .await;
        verdicts_came_on_time(&fleet, &silent, frozen_us).await;
    }
    for (name, before) in AGENTS.iter().zip(&before) {
        fleet
            .stage
            .agent(name)
            .unwrap()
            .signal(Signal::SIGCONT)
            .unwrap();
        let back = fleet.verdict(name, Verdict::Online, SOON).await;
        assert_eq!(back.agent_id, before.agent_id);
        assert_ne!(back.session_id, before.session_id);
    }
    // Two more beats each, which come at the usual pace.
    tokio::time::sleep(T * 2).await;
    for (name, before) in AGENTS.iter().zip(&before) {
        fleet
            .stage
            .agent(name)
            .unwrap()
            .terminate(SOON)
            .await
            .unwrap();
        one_disconnect_and_no_burst(&fleet, before).await;
    }
    assert!(crowd.leave().await.unwrap().total.left);
    assert_eq!(fleet.ever_judged(Verdict::Offline).await, AGENTS);
}

async fn verdicts_came_on_time(fleet: &Fleet, silent: &Agent, frozen_us: i64) {
    let last = silent.last_seen_unix_us.unwrap();
    for (verdict, due) in [(Verdict::Suspect, T + W), (Verdict::Offline, T * N + W)] {
        let at = fleet.judged_at(&silent.name, verdict, frozen_us).await;
        let late = ms_between(last, at) - i64::try_from(due.as_millis()).unwrap();
        assert!(
            (0..=LATE_MS).contains(&late),
            "{} {verdict:?} came {late} ms late",
            silent.name
        );
    }
}

async fn one_disconnect_and_no_burst(fleet: &Fleet, agent: &Agent) {
    let sessions = fleet.ended_sessions(agent, 2).await;
    assert_eq!(
        reasons(&sessions),
        [CloseReason::MissedHeartbeats, CloseReason::Goodbye]
    );
    let back = &sessions[1];
    let lived_ms = ms_between(back.opened_us, back.closed_us.unwrap());
    // One beat at once, one at a point of [0, T), then gaps of at least 0.9·T.
    let most = 2 + lived_ms / (i64::try_from(T.as_millis()).unwrap() * 9 / 10);
    let beats = back.beats.unwrap();
    assert!(
        (1..=most).contains(&beats),
        "{beats} beats in {lived_ms} ms of {}",
        agent_id(agent)
    );
}

use std::path::Path;
use std::time::Duration;

use fleetbeat_drill::stage::until;
use fleetbeat_proto::v1::{Agent, CloseReason, Verdict};
use nix::sys::signal::Signal;

use crate::fleet::{Fleet, SOON, agent_id, reasons};

const D: Duration = Duration::from_secs(7);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goodbye_crash_silence_takeover_and_drain_each_give_their_own_reason_once() {
    let mut fleet = Fleet::start().await;
    fleet.tune(&["--fleet"], "2s", "3", "1s").await;
    let mut agents = Vec::new();
    for name in ["polite", "crashed", "silent", "replaced", "drained"] {
        fleet.stage.start_agent(name, "default").unwrap();
        agents.push(fleet.verdict(name, Verdict::Online, SOON).await);
    }
    fleet
        .stage
        .agent("polite")
        .unwrap()
        .terminate(SOON)
        .await
        .unwrap();
    fleet.stage.agent("crashed").unwrap().kill().unwrap();
    fleet
        .stage
        .agent("silent")
        .unwrap()
        .signal(Signal::SIGSTOP)
        .unwrap();
    take_over(&mut fleet, &agents[3]).await;
    fleet.verdict("polite", Verdict::Left, SOON).await;
    fleet.verdict("crashed", Verdict::Offline, D + SOON).await;
    fleet.verdict("silent", Verdict::Offline, D + SOON).await;
    let expected = [
        CloseReason::Goodbye,
        CloseReason::TransportError,
        CloseReason::MissedHeartbeats,
        CloseReason::Superseded,
    ];
    for (agent, reason) in agents.iter().zip(expected) {
        closed_once(&fleet, agent, reason).await;
    }
    assert!(fleet.stage.server.drain().await.unwrap().success());
    fleet.stage.server.start().await.unwrap();
    closed_once(&fleet, &agents[4], CloseReason::ServerDrain).await;
}

/// A frozen agent's state is started elsewhere: its next incarnation takes the session over, and the
/// end of the old stream takes nothing from it.
async fn take_over(fleet: &mut Fleet, old: &Agent) {
    fleet
        .stage
        .agent("replaced")
        .unwrap()
        .signal(Signal::SIGSTOP)
        .unwrap();
    copy(
        &fleet.stage.state_dir("replaced"),
        &fleet.stage.state_dir("successor"),
    );
    fleet.stage.start_agent("successor", "default").unwrap();
    let successor = until("the successor to take over", SOON, async || {
        let agent = fleet.operator.agent(&old.agent_id).await?;
        let taken = agent.session_id.is_some() && agent.session_id != old.session_id;
        Ok(taken.then_some(agent))
    });
    let successor = successor.await.unwrap();
    fleet.stage.agent("replaced").unwrap().kill().unwrap();
    closed_once(fleet, old, CloseReason::Superseded).await;
    let after = fleet.operator.agent(&old.agent_id).await.unwrap();
    assert_eq!(
        (after.session_id, after.verdict),
        (successor.session_id, Verdict::Online.into())
    );
}

/// The session that the agent had then ended with this reason, and one event says so.
async fn closed_once(fleet: &Fleet, agent: &Agent, reason: CloseReason) {
    let session = agent.session_id.as_ref().unwrap().parse().unwrap();
    let sessions = fleet.ended_sessions(agent, 1).await;
    let ended: Vec<_> = sessions
        .into_iter()
        .filter(|one| one.session_id == session)
        .collect();
    assert_eq!(
        reasons(&ended),
        [reason],
        "{} {}",
        agent.name,
        agent_id(agent)
    );
    let told = until("the event of the ending", SOON, async || {
        let told = fleet
            .ledger
            .events_of_session(session, "session_closed")
            .await?;
        Ok((told > 0).then_some(told))
    });
    assert_eq!(told.await.unwrap(), 1, "{}", agent.name);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

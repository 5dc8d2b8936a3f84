use std::time::Duration;

use fleetbeat_drill::stage::until;
use fleetbeat_drill::swarm::Report;
use fleetbeat_proto::v1::{CloseReason, Verdict};

use crate::fleet::{Fleet, SOON};

const AGENTS: u32 = 5_000;
const AT_WORK: Duration = Duration::from_mins(1);
const GATHERED_WITHIN: Duration = Duration::from_mins(1);
/// T + W: an agent that left more between two messages would be to blame itself.
const PROMISE: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_beat_of_five_thousand_agents_is_recorded_and_nobody_is_called_silent() {
    let fleet = Fleet::start().await;
    fleet.tune(&["--fleet"], "2s", "3", "2s").await;
    let crowd = fleet
        .stage
        .start_crowd("many", AGENTS, &["one", "two", "three"])
        .unwrap();
    fleet.all_online(AGENTS.into(), GATHERED_WITHIN).await;
    tokio::time::sleep(AT_WORK).await;
    let swarm = crowd.leave().await.unwrap();
    assert!(
        Duration::from_nanos(swarm.total.longest_gap_ns) < PROMISE,
        "{:?}",
        swarm.total
    );
    assert!(swarm.total.left, "{:?}", swarm.total);
    assert_eq!(
        (swarm.total.sessions, swarm.total.in_doubt),
        (AGENTS.into(), 0),
        "{:?}",
        swarm.total
    );
    until("as many beats in Postgres as were sent", SOON, async || {
        Ok((beats(&fleet).await >= swarm.total.pings).then_some(()))
    })
    .await
    .unwrap();
    each_agent_has_its_own(&fleet, &swarm).await;
    assert_eq!(
        fleet.ever_judged(Verdict::Suspect).await,
        Vec::<String>::new()
    );
    assert_eq!(
        fleet.ever_judged(Verdict::Offline).await,
        Vec::<String>::new()
    );
    let goodbyes = [(CloseReason::Goodbye as i16, u64::from(AGENTS))].into();
    assert_eq!(fleet.ledger.closes().await.unwrap(), goodbyes);
}

async fn beats(fleet: &Fleet) -> u64 {
    fleet.ledger.beats_by_agent().await.unwrap().values().sum()
}

async fn each_agent_has_its_own(fleet: &Fleet, swarm: &Report) {
    let recorded = fleet.ledger.beats_by_agent().await.unwrap();
    let sent = swarm
        .agents
        .iter()
        .map(|agent| (agent.agent_id, agent.counts.pings))
        .collect();
    assert_eq!(recorded, sent);
}

use std::time::Duration;

use fleetbeat_drill::stage::until;
use fleetbeat_drill::swarm::Report;
use fleetbeat_proto::v1::recorder_status::State;
use fleetbeat_proto::v1::{CloseReason, Verdict};

use crate::fleet::{Fleet, SOON, agent_id, reasons};

const CROWD: u32 = 300;
const AWAY: Duration = Duration::from_mins(1);
const CAUGHT_UP_WITHIN: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_lives_a_minute_without_postgres_and_everything_is_recorded_once_afterwards() {
    let mut fleet = Fleet::start_on_own_postgres().await;
    fleet.tune(&["--fleet"], "2s", "3", "1s").await;
    fleet.tune(&["--group", "quick"], "1s", "3", "500ms").await;
    let crowd = fleet
        .stage
        .start_crowd("steady", CROWD, &["default", "quick"])
        .unwrap();
    fleet.stage.start_agent("leaver", "default").unwrap();
    fleet.all_online(u64::from(CROWD) + 1, SOON).await;
    let leaver = fleet.operator.agent("leaver").await.unwrap();
    fleet.stage.postgres().unwrap().stop().await.unwrap();
    life_goes_on(&mut fleet).await;
    tokio::time::sleep(AWAY).await;
    backlog_is_visible(&fleet).await;
    fleet.all_online(u64::from(CROWD) + 1, SOON).await;
    fleet.stage.postgres().unwrap().resume().await.unwrap();
    fleet.written(CAUGHT_UP_WITHIN).await;
    let swarm = crowd.leave().await.unwrap();
    fleet
        .stage
        .agent("comer")
        .unwrap()
        .terminate(SOON)
        .await
        .unwrap();
    assert_eq!(
        reasons(&fleet.ended_sessions(&leaver, 1).await),
        [CloseReason::Goodbye]
    );
    once(&fleet, &swarm).await;
}

/// One agent leaves, one comes and is given what its group is known to have; a retune needs Postgres.
async fn life_goes_on(fleet: &mut Fleet) {
    fleet
        .stage
        .agent("leaver")
        .unwrap()
        .terminate(SOON)
        .await
        .unwrap();
    fleet.verdict("leaver", Verdict::Left, SOON).await;
    fleet.stage.start_agent("comer", "quick").unwrap();
    let comer = until("the comer to have its group's tuning", SOON, async || {
        let Ok(agent) = fleet.operator.agent("comer").await else {
            return Ok(None);
        };
        Ok((agent.applied.is_some() && agent.applied == agent.desired).then_some(agent))
    });
    let interval = comer
        .await
        .unwrap()
        .applied
        .unwrap()
        .tuning
        .unwrap()
        .interval_ns;
    assert_eq!(interval, Some(1_000_000_000));
    let retune = [
        "tune",
        "set",
        "--fleet",
        "--interval",
        "3s",
        "--reason",
        "Postgres is away",
    ];
    let refused = fleet.stage.cli(&retune).await.unwrap();
    assert!(!refused.status.success());
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("Postgres"), "{told}");
}

async fn backlog_is_visible(fleet: &Fleet) {
    let recorder = fleet.operator.status().await.unwrap().recorder.unwrap();
    assert_eq!(recorder.state(), State::Waiting);
    assert!(
        recorder.backlog_rows > 0 && recorder.backlog_age_ns > 0,
        "{recorder:?}"
    );
    let shown = fleet.stage.cli_json(&["status"]).await.unwrap();
    assert_eq!(shown["recorder"]["state"], "waiting");
    assert!(
        shown["recorder"]["backlog_rows"].as_u64().unwrap() > 0,
        "{shown}"
    );
    let metrics = fleet.stage.metrics().await.unwrap();
    let rows = metrics.total("fleetbeat_recorder_backlog_rows");
    assert!(
        rows.is_some_and(|rows| rows > 0.0),
        "{rows:?} among {:?}",
        metrics.names()
    );
}

async fn once(fleet: &Fleet, swarm: &Report) {
    assert_eq!(
        (swarm.total.sessions, swarm.total.in_doubt),
        (CROWD.into(), 0),
        "{:?}",
        swarm.total
    );
    let agents: Vec<_> = swarm.agents.iter().map(|agent| agent.agent_id).collect();
    until("as many beats in Postgres as were sent", SOON, async || {
        Ok((fleet.ledger.beats(&agents).await? >= swarm.total.pings).then_some(()))
    })
    .await
    .unwrap();
    let recorded = fleet.ledger.beats_by_agent().await.unwrap();
    for agent in &swarm.agents {
        assert_eq!(
            recorded[&agent.agent_id], agent.counts.pings,
            "{}",
            agent.name
        );
    }
    assert_eq!(fleet.ledger.duplicates().await.unwrap(), 0);
    assert_eq!(
        fleet.ever_judged(Verdict::Offline).await,
        Vec::<String>::new()
    );
    let comer = fleet.operator.agent("comer").await.unwrap();
    assert_eq!(
        fleet.ledger.sessions(agent_id(&comer)).await.unwrap().len(),
        1
    );
}

use std::time::Duration;

use fleetbeat_drill::stage::until;
use fleetbeat_proto::v1::Verdict;
use serde_json::Value;

use crate::fleet::{Fleet, SOON};

const CROWD: u32 = 200;
const AGENTS: u64 = CROWD as u64 + 1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_sessions_take_another_pace_at_once_and_nobody_reconnects_or_is_called_silent() {
    let mut fleet = Fleet::start().await;
    fleet.tune(&["--fleet"], "2s", "3", "500ms").await;
    let crowd = fleet
        .stage
        .start_crowd("tuned", CROWD, &["default"])
        .unwrap();
    fleet.stage.start_agent("real", "default").unwrap();
    fleet.all_online(AGENTS, SOON).await;
    let sessions = fleet.live_sessions().await;
    retune(&fleet, "500ms", Duration::from_secs(2)).await;
    has_pace(&fleet, Duration::from_millis(500), Duration::from_secs(5)).await;
    retune(&fleet, "5s", Duration::from_millis(500)).await;
    has_pace(&fleet, Duration::from_secs(5), Duration::from_secs(10)).await;
    assert_eq!(fleet.live_sessions().await, sessions);
    let swarm = crowd.leave().await.unwrap();
    // The tuning of the Welcome and two retunes.
    assert_eq!(
        (swarm.total.sessions, swarm.total.acks),
        (CROWD.into(), u64::from(CROWD) * 3)
    );
    fleet.written(SOON).await;
    assert_eq!(
        fleet.ever_judged(Verdict::Suspect).await,
        Vec::<String>::new()
    );
    assert_eq!(
        fleet.ever_judged(Verdict::Offline).await,
        Vec::<String>::new()
    );
}

/// Retunes everyone and waits one old interval, after which the pace must be the other.
async fn retune(fleet: &Fleet, interval: &str, old: Duration) {
    let told = fleet.tune(&["--fleet"], interval, "3", "500ms").await;
    let revision = told["revision"].as_u64().unwrap();
    let progress = &told["progress"];
    let counted = ["targets", "applied", "refused", "lost"].map(|key| progress[key].as_u64());
    assert_eq!(
        counted,
        [Some(AGENTS), Some(AGENTS), Some(0), Some(0)],
        "{progress}"
    );
    acks_are_recorded(fleet, revision).await;
    tokio::time::sleep(old).await;
}

async fn acks_are_recorded(fleet: &Fleet, revision: u64) {
    let live = fleet.operator.agents(Some(Verdict::Online)).await.unwrap();
    let applied = live.iter().filter(|agent| {
        agent
            .applied
            .as_ref()
            .is_some_and(|had| had.revision == revision)
    });
    assert_eq!(u64::try_from(applied.count()).unwrap(), AGENTS);
    until(
        "the revision of every agent in Postgres",
        SOON,
        async || Ok((fleet.ledger.applied(revision).await? == AGENTS).then_some(())),
    )
    .await
    .unwrap();
    let history: Value = fleet.stage.cli_json(&["tune", "history"]).await.unwrap();
    let newest = history.to_string();
    assert!(newest.contains("a test wants it"), "{newest}");
}

/// Gaps are drawn from [0.9·T, T], so the fleet sends one beat per agent and 0.95·T.
async fn has_pace(fleet: &Fleet, interval: Duration, over: Duration) {
    let before = beats(fleet).await;
    tokio::time::sleep(over).await;
    let sent = beats(fleet).await - before;
    let slowest = u128::from(AGENTS) * over.as_millis() / interval.as_millis();
    let (least, most) = (slowest * 9 / 10, slowest * 12 / 10);
    assert!(
        (least..=most).contains(&u128::from(sent)),
        "{sent} beats in {over:?} at T = {interval:?}"
    );
}

async fn beats(fleet: &Fleet) -> u64 {
    let status = fleet.operator.status().await.unwrap();
    status.lanes.iter().map(|lane| lane.beats_total).sum()
}

//! What befalls many agents at once.

use std::collections::BTreeSet;
use std::time::Duration;

use fleetbeat_drill::clock;
use fleetbeat_drill::relay::busiest;
use fleetbeat_drill::stage::{Place, until};
use fleetbeat_drill::swarm::MOST_PER_CONNECTION;
use fleetbeat_proto::v1::{CloseReason, Verdict};

use crate::scene::{SOON, Scene, Tuned, ms};

/// Field report D03: most of a fleet is away, which is no reason to doubt it, or to doubt the others.
#[tokio::test]
async fn most_of_a_swarm_is_convicted_on_time_when_it_falls_silent_and_the_others_are_left_alone() {
    const TUNED: Tuned = Tuned::seconds(2, 3, 1);
    const LATE_MS: i64 = 250;
    const CUT: u32 = 120;
    const SPARED: u32 = 80;
    let scene = Scene::here().await;
    scene.tune("", TUNED).await;
    let path = scene.relay(&[]).await;
    let place = Place::beside(path.address());
    let groups = &["default"];
    let cut = scene
        .stage
        .start_crowd_at(&place, "cut", CUT, groups, MOST_PER_CONNECTION)
        .unwrap();
    let spared = scene.stage.start_crowd("spared", SPARED, groups).unwrap();
    scene.online(u64::from(CUT + SPARED), SOON).await;
    let stopped_us = clock::wall_us();
    path.tell("both stop").unwrap();
    let offline = until("the silent to be offline", SOON, async || {
        let offline = scene.operator.agents(Some(Verdict::Offline)).await?;
        Ok((offline.len() == CUT as usize).then_some(offline))
    })
    .await
    .unwrap();
    let deadline_ms = i64::try_from(TUNED.deadline().as_millis()).unwrap();
    let late = offline.iter().map(|agent| {
        assert!(agent.verdict_since_unix_us > stopped_us, "{}", agent.name);
        ms(agent.verdict_since_unix_us - agent.last_seen_unix_us.unwrap()) - deadline_ms
    });
    let late: BTreeSet<_> = late.collect();
    eprintln!(
        "offline between {:?} and {:?} ms late",
        late.first(),
        late.last()
    );
    assert!(late.first() >= Some(&0) && late.last() <= Some(&LATE_MS));
    path.tell("heal").unwrap();
    scene.online(u64::from(CUT + SPARED), SOON * 2).await;
    let convicted = scene.ever(Verdict::Offline).await;
    assert!(
        convicted.iter().all(|name| name.starts_with("cut-")),
        "{convicted:?}"
    );
    assert_eq!(
        convicted.len(),
        CUT as usize,
        "somebody was convicted twice"
    );
    let suspected = scene.ever(Verdict::Suspect).await;
    assert!(
        suspected.iter().all(|name| name.starts_with("cut-")),
        "{suspected:?}"
    );
    let incidents = [
        scene.incidents("partial_silence").await,
        scene.incidents("mass_silence").await,
    ];
    assert_eq!(
        incidents,
        [1, 0],
        "one silence of many, and no doubt of the server's own"
    );
    cut.leave().await.unwrap();
    let spared = spared.leave().await.unwrap();
    assert_eq!(spared.total.sessions, u64::from(SPARED));
    let closes = scene.ledger.closes().await.unwrap();
    let missed = closes.get(&(CloseReason::MissedHeartbeats as i16));
    assert_eq!(missed, Some(&u64::from(CUT)), "{closes:?}");
}

/// Field report A08, hard case A7: agents whose flows were cut together do not come back together.
#[tokio::test]
async fn a_thousand_agents_cut_at_once_come_back_spread_out_and_nobody_is_called_offline() {
    const AGENTS: u32 = 1_000;
    const TUNED: Tuned = Tuned::seconds(20, 3, 2);
    /// A session that lived so long proved stable: its loss is no reason to back off.
    const STABLE_AFTER: Duration = Duration::from_mins(1);
    /// What Welcome tells 1,000 agents: 60 per second.
    const SPREAD: Duration = Duration::from_secs(17);
    let scene = Scene::here().await;
    scene.tune("", TUNED).await;
    let path = scene.relay(&[]).await;
    let place = Place::beside(path.address());
    let crowd = scene
        .stage
        .start_crowd_at(&place, "storm", AGENTS, &["default"], 1);
    let crowd = crowd.unwrap();
    scene.online(AGENTS.into(), SOON).await;
    tokio::time::sleep(STABLE_AFTER).await;
    let before = path.arrivals().len();
    let cut = clock::now();
    path.tell("cut reset").unwrap();
    until("everybody to be back", SPREAD + SOON, async || {
        let status = scene.operator.status().await?;
        let back = path.arrivals().len() - before >= AGENTS as usize;
        let online = status.verdicts.unwrap_or_default().online;
        Ok((back && online == u64::from(AGENTS)).then_some(()))
    })
    .await
    .unwrap();
    let took = cut.elapsed();
    let attempts = path.arrivals().split_off(before);
    let most = busiest(&attempts, Duration::from_secs(1));
    eprintln!(
        "{} attempts, at most {most} within 1 s, all back after {took:?}",
        attempts.len()
    );
    assert!(
        most < AGENTS as usize / 10,
        "{most} attempts within one second"
    );
    assert!(took < SPREAD + Duration::from_secs(5), "{took:?}");
    crowd.leave().await.unwrap();
    assert_eq!(scene.ever(Verdict::Offline).await, Vec::<String>::new());
}

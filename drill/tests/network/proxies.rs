//! Through the proxies that people put before a server, whose idle time-outs are four seconds.

use std::time::Duration;

use fleetbeat_drill::relay::busiest;
use fleetbeat_drill::stage::{Place, tuning, until};
use fleetbeat_proto::v1::{self, CloseReason, Verdict};
use nix::sys::signal::Signal;

use crate::proxy::{Kind, Proxy, connections_to};
use crate::scene::{SOON, Scene, Tuned, ms};

/// The proxies' patience.
const PATIENCE: Duration = Duration::from_secs(4);
/// Beats within the patience.
const BELOW: Tuned = Tuned::seconds(1, 5, 1);
/// Beats beyond it.
const ABOVE: Tuned = Tuned::seconds(10, 3, 5);

#[tokio::test]
async fn nginx_keeps_what_beats_within_its_patience_and_cuts_the_rest_without_a_false_verdict() {
    both_sides_of_the_patience(Kind::Nginx).await;
}

#[tokio::test]
async fn haproxy_keeps_what_beats_within_its_patience_and_cuts_the_rest_without_a_false_verdict() {
    both_sides_of_the_patience(Kind::HaproxyHttp).await;
}

#[tokio::test]
async fn haproxy_on_plain_tcp_keeps_what_beats_within_its_patience_and_cuts_the_rest() {
    both_sides_of_the_patience(Kind::HaproxyTcp).await;
}

/// Field reports A05, A06 and A07.
async fn both_sides_of_the_patience(kind: Kind) {
    let mut scene = Scene::here().await;
    let lane = scene.stage.server.endpoints().unwrap().lane;
    let Some(proxy) = Proxy::start(kind, lane).await else {
        return;
    };
    for (group, tuned) in [("below", BELOW), ("above", ABOVE)] {
        scene.tune(group, tuned).await;
    }
    lease(&scene, "leased").await;
    let place = Place::beside(proxy.address);
    for name in ["below", "leased", "above"] {
        scene.stage.start_agent_at(&place, name, name).unwrap();
    }
    let mut kept = Vec::new();
    for name in ["below", "leased"] {
        kept.push(scene.verdict(name, Verdict::Online, SOON).await);
    }
    let above = scene.verdict("above", Verdict::Online, SOON).await;
    let ended = until("three sessions that the proxy cut", SOON * 2, async || {
        let sessions = scene.sessions(&above).await;
        let ended: Vec<_> = sessions
            .into_iter()
            .filter(|s| s.closed_us.is_some())
            .collect();
        Ok((ended.len() >= 3).then_some(ended))
    })
    .await
    .unwrap();
    for before in kept {
        let after = scene.operator.agent(&before.name).await.unwrap();
        assert_eq!(after.session_id, before.session_id, "{}", before.name);
        assert_eq!(scene.verdicts(&before.name).await, [Verdict::Online]);
    }
    let verdicts = scene.verdicts("above").await;
    assert!(!verdicts.contains(&Verdict::Offline), "{verdicts:?}");
    for session in &ended {
        let age = ms(session.closed_us.unwrap() - session.opened_us);
        let reason = CloseReason::try_from(i32::from(session.close_reason.unwrap())).unwrap();
        eprintln!("{kind:?}: {reason:?} after {age} ms");
        assert_ne!(reason, CloseReason::MissedHeartbeats);
        // A second beat within the patience, and a third beyond it, take at most twice as long. The
        // proxies' clocks are coarse.
        let patience = PATIENCE.as_millis() - 100;
        assert!(
            (patience..patience * 2 + 1_000).contains(&age.unsigned_abs().into()),
            "{age} ms"
        );
    }
}

/// Beats within the patience, of which only each third is answered: so are the answers.
async fn lease(scene: &Scene, group: &str) {
    let leased = v1::Tuning {
        pong_every: Some(3),
        ..tuning(BELOW.t, BELOW.n, BELOW.w)
    };
    let told = scene
        .operator
        .retune(Some(group), leased, "a test wants it");
    told.await.unwrap();
}

/// Hard case B3: neighbours on one connection of a proxy live on when one of them is convicted.
#[tokio::test]
async fn agents_that_share_a_proxys_connection_are_spared_when_one_of_them_is_convicted() {
    const NAMES: [&str; 5] = ["one", "two", "three", "four", "frozen"];
    let mut scene = Scene::here().await;
    let lane = scene.stage.server.endpoints().unwrap().lane;
    let Some(proxy) = Proxy::start(Kind::HaproxyHttp, lane).await else {
        return;
    };
    scene.tune("", BELOW).await;
    let place = Place::beside(proxy.address);
    let mut before = Vec::new();
    for name in NAMES {
        scene.stage.start_agent_at(&place, name, "default").unwrap();
        before.push(scene.verdict(name, Verdict::Online, SOON).await);
    }
    let shared = connections_to(lane.port());
    assert!(
        shared < NAMES.len(),
        "{shared} connections for {} agents",
        NAMES.len()
    );
    let frozen = scene.stage.agent("frozen").unwrap();
    frozen.signal(Signal::SIGSTOP).unwrap();
    scene
        .verdict("frozen", Verdict::Offline, BELOW.deadline() + SOON)
        .await;
    // Two more beats of everybody.
    tokio::time::sleep(BELOW.t * 2).await;
    for before in &before[..4] {
        let after = scene.operator.agent(&before.name).await.unwrap();
        assert_eq!(
            after.session_id, before.session_id,
            "{} lost its session",
            before.name
        );
    }
    scene
        .stage
        .agent("frozen")
        .unwrap()
        .signal(Signal::SIGCONT)
        .unwrap();
    scene.verdict("frozen", Verdict::Online, SOON).await;
    assert_eq!(scene.ever(Verdict::Offline).await, ["frozen"]);
}

/// Field report A08 by the death of a proxy: everybody is back, spread out, and nobody was offline.
#[tokio::test]
async fn agents_behind_a_proxy_that_is_restarted_come_back_spread_out() {
    const AGENTS: u32 = 300;
    const TUNED: Tuned = Tuned::seconds(3, 10, 3);
    let scene = Scene::here().await;
    let lane = scene.stage.server.endpoints().unwrap().lane;
    let Some(mut proxy) = Proxy::start(Kind::HaproxyHttp, lane).await else {
        return;
    };
    scene.tune("", TUNED).await;
    let place = Place::beside(proxy.address);
    let crowd = scene
        .stage
        .start_crowd_at(&place, "behind", AGENTS, &["default"], 1);
    let crowd = crowd.unwrap();
    scene.online(AGENTS.into(), SOON).await;
    // The first agents were welcomed into a small fleet; a Pong tells them that it has grown.
    tokio::time::sleep(TUNED.t).await;
    let first = openings(&scene).await.len();
    proxy.restart().await;
    until("everybody to be back", SOON, async || {
        let online = scene
            .operator
            .status()
            .await?
            .verdicts
            .unwrap_or_default()
            .online;
        let back = openings(&scene).await.len() >= first + AGENTS as usize;
        Ok((back && online == u64::from(AGENTS)).then_some(()))
    })
    .await
    .unwrap();
    let returned = openings(&scene).await.split_off(first);
    let most = busiest(&returned, Duration::from_secs(1));
    let took = returned[returned.len() - 1].saturating_sub(returned[0]);
    eprintln!("at most {most} of {AGENTS} came back within 1 s, all within {took:?}");
    assert!(
        most < AGENTS as usize / 2,
        "{most} came back within one second"
    );
    crowd.leave().await.unwrap();
    assert_eq!(scene.ever(Verdict::Offline).await, Vec::<String>::new());
}

/// When sessions opened, in order, since the first of them.
async fn openings(scene: &Scene) -> Vec<Duration> {
    let opened = scene.ledger.openings().await.unwrap();
    let first = opened.first().copied().unwrap_or_default();
    let since = opened
        .iter()
        .map(|at| Duration::from_micros((at - first).unsigned_abs()));
    since.collect()
}

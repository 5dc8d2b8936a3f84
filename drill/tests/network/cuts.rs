//! Paths that lose packets, all or some of them, one way or both.

use std::time::Duration;

use fleetbeat_drill::clock;
use fleetbeat_drill::skip::skip;
use fleetbeat_drill::stage::until;
use fleetbeat_proto::v1::{Agent, CloseReason, Verdict};

use crate::scene::{SOON, Scene, Tuned};
use crate::world::{World, no_discipline, on_a_network};

const TUNED: Tuned = Tuned::seconds(1, 6, 1);
/// Longest step of the backoff after so short an absence, and the time-out of the attempt before it.
const BACK_WITHIN: Duration = Duration::from_secs(12);

/// Hard case A2, field reports A11, A13 and A14.
#[test]
fn a_path_cut_either_way_or_both_is_found_on_time_and_its_agent_comes_back_as_itself() {
    // All of them are cut at once: with N = 5 four agents owe too little for a mass silence.
    const TUNED: Tuned = Tuned::seconds(1, 5, 1);
    let hosts = ["up", "down", "both", "unplugged"];
    on_a_network(&hosts, async |world| {
        let mut scene = Scene::on_server_host().await;
        scene.tune("", TUNED).await;
        scene
            .inhabit(world, &hosts.map(|host| (host, "default")))
            .await;
        let mut before = Vec::new();
        for host in hosts {
            before.push(scene.operator.agent(host).await.unwrap());
        }
        let descriptors = hosts.map(|host| descriptors(&mut scene, host));
        let cut_us = clock::wall_us();
        world.cut_up("up");
        world.cut_down("down");
        world.cut("both");
        world.unplug("unplugged");
        for host in hosts {
            scene.convicted_on_time(host, TUNED, cut_us).await;
        }
        for host in ["up", "down", "both"] {
            world.heal(host);
        }
        world.plug("unplugged");
        for (host, before) in hosts.iter().zip(&before) {
            comes_back_as_itself(&scene, before).await;
            assert_eq!(
                scene.endings(before, 1).await,
                [CloseReason::MissedHeartbeats],
                "{host}"
            );
        }
        for (host, before) in hosts.iter().zip(descriptors) {
            nothing_is_left_open(&mut scene, host, before).await;
        }
    });
}

async fn comes_back_as_itself(scene: &Scene, before: &Agent) {
    let back = scene
        .verdict(&before.name, Verdict::Online, BACK_WITHIN)
        .await;
    assert_eq!(back.agent_id, before.agent_id);
    assert_ne!(back.session_id, before.session_id);
}

fn descriptors(scene: &mut Scene, agent: &str) -> usize {
    let pid = scene.stage.agent(agent).unwrap().pid();
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count()
}

async fn nothing_is_left_open(scene: &mut Scene, agent: &str, before: usize) {
    until(
        "the agent's descriptors to be as they were",
        SOON,
        async || Ok((descriptors(scene, agent) <= before).then_some(())),
    )
    .await
    .unwrap();
}

/// Requirement S31's lost packets: a fifth of them each way, which TCP repairs well within D.
#[test]
fn lost_packets_slow_heartbeats_down_and_convict_nobody() {
    const PATIENT: Tuned = Tuned::seconds(1, 20, 1);
    let hosts = ["lossy-1", "lossy-2"];
    on_a_network(&hosts, async |world| {
        let mut scene = Scene::on_server_host().await;
        scene.tune("", PATIENT).await;
        scene
            .inhabit(world, &hosts.map(|host| (host, "default")))
            .await;
        let mut before = Vec::new();
        for host in hosts {
            before.push(scene.operator.agent(host).await.unwrap());
            world.lose(host, 20);
        }
        // The fault itself takes time.
        tokio::time::sleep(Duration::from_secs(30)).await;
        let dropped = world.dropped();
        assert!(dropped >= 20, "{dropped} packets were lost");
        for (host, before) in hosts.iter().zip(&before) {
            let after = scene.operator.agent(host).await.unwrap();
            assert_eq!(
                after.session_id, before.session_id,
                "{host} lost its session"
            );
            let rtt = Duration::from_nanos(after.rtt_p95_ns.unwrap());
            eprintln!("{host}: {dropped} packets lost in all, P95 of the round trip {rtt:?}");
            assert!(
                rtt >= Duration::from_millis(200),
                "no retransmission in {rtt:?}"
            );
        }
        assert_eq!(scene.ever(Verdict::Offline).await, Vec::<String>::new());
    });
}

/// Field reports A27 and D10.
#[test]
fn a_host_that_moves_to_another_network_is_the_same_agent_at_another_address() {
    on_a_network(&["laptop"], async |world| {
        let mut scene = Scene::on_server_host().await;
        scene.tune("", TUNED).await;
        scene.inhabit(world, &[("laptop", "default")]).await;
        let before = scene.operator.agent("laptop").await.unwrap();
        let moved = clock::now();
        world.change_address("laptop");
        let within = TUNED.deadline() + BACK_WITHIN;
        let after = until("the agent at its other address", within, async || {
            let agent = scene.operator.agent("laptop").await?;
            Ok(agent.address.starts_with("10.78.").then_some(agent))
        })
        .await
        .unwrap();
        eprintln!("laptop: back {:?} after it moved", moved.elapsed());
        assert_eq!(after.agent_id, before.agent_id);
        assert_eq!(scene.operator.agents(None).await.unwrap().len(), 1);
        let endings = scene.endings(&before, 1).await;
        eprintln!("laptop: the session before ended by {endings:?}");
        until("both addresses in its history", SOON, async || {
            let history = scene.operator.history("laptop").await?;
            let mut networks: Vec<_> = history.sessions.iter().map(|s| &s.address[..5]).collect();
            networks.sort_unstable();
            Ok((networks == ["10.77", "10.78"]).then_some(()))
        })
        .await
        .unwrap();
    });
}

/// Hard case A2: after the path has healed, TCP's backed-off retransmission brings the next byte up to
/// as late again as the path was away.
#[test]
fn the_tail_of_a_cut_convicts_only_where_the_deadline_is_shorter_than_cut_and_tail() {
    const STRICT: Tuned = Tuned::seconds(1, 6, 1);
    const WIDE: Tuned = Tuned::seconds(1, 20, 1);
    const WIDEST: Tuned = Tuned::seconds(3, 20, 3);
    let hosts = [("strict", "strict"), ("wide", "wide"), ("widest", "widest")];
    on_a_network(&hosts.map(|(host, _)| host), async |world| {
        let mut scene = Scene::on_server_host().await;
        for (group, tuned) in [("strict", STRICT), ("wide", WIDE), ("widest", WIDEST)] {
            scene.tune(group, tuned).await;
        }
        scene.inhabit(world, &hosts).await;
        let mut before = Vec::new();
        for (host, _) in hosts {
            before.push(scene.operator.agent(host).await.unwrap());
            world.cut(host);
        }
        let (cut, cut_us) = (clock::now(), clock::wall_us());
        let after = |seconds| tokio::time::Instant::from(cut + Duration::from_secs(seconds));
        scene.convicted_on_time("strict", STRICT, cut_us).await;
        tokio::time::sleep_until(after(8)).await;
        world.heal("strict");
        world.heal("wide");
        heard_again(&scene, "wide", WIDE, cut_us).await;
        tokio::time::sleep_until(after(20)).await;
        world.heal("widest");
        heard_again(&scene, "widest", WIDEST, cut_us).await;
        comes_back_as_itself(&scene, &before[0]).await;
        for before in &before[1..] {
            let after = scene.operator.agent(&before.name).await.unwrap();
            assert_eq!(after.session_id, before.session_id, "{}", before.name);
        }
        assert_eq!(scene.ever(Verdict::Offline).await, ["strict"]);
    });
}

/// Waits for the first message after the cut.
async fn heard_again(scene: &Scene, agent: &str, tuned: Tuned, cut_us: i64) {
    // A message under way when the path was cut may have come a moment later.
    let later = cut_us + 1_000_000;
    let heard = until("a message after the cut", tuned.deadline(), async || {
        let heard = scene.operator.agent(agent).await?.last_seen_unix_us;
        Ok(heard.filter(|heard| *heard > later))
    })
    .await
    .unwrap();
    eprintln!(
        "{agent}: heard {} ms after the cut began",
        (heard - cut_us) / 1_000
    );
}

/// Field report D08: what an agent cannot be told does not count as told, though it still beats.
#[test]
fn an_agent_that_hears_nothing_is_given_up_by_the_deadline_and_its_retune_is_not_delivered() {
    const OTHER: Tuned = Tuned::seconds(2, 3, 1);
    on_a_network(&["deaf"], async |world| {
        let mut scene = Scene::on_server_host().await;
        scene.tune("", TUNED).await;
        scene.inhabit(world, &[("deaf", "default")]).await;
        let before = scene.operator.agent("deaf").await.unwrap();
        let cut_us = clock::wall_us();
        world.cut_down("deaf");
        let told = scene.tune_within("", OTHER, "2s").await;
        let told = told.map_or_else(
            |error| error.to_string(),
            |told| told["progress"].to_string(),
        );
        eprintln!("deaf: {told}");
        let applied = scene.operator.agent("deaf").await.unwrap().applied.unwrap();
        assert_eq!(Some(&applied), before.applied.as_ref(), "{told}");
        // Both tunings are tolerated until the agent has answered; D is the same.
        until("the agent to give up", SOON, async || {
            let log = scene.stage.agent("deaf")?.log().to_owned();
            let log = std::fs::read_to_string(log)?;
            Ok(log.contains("Session ended").then_some(()))
        })
        .await
        .unwrap();
        let silent = scene.verdict("deaf", Verdict::Offline, SOON).await;
        let late = silent.verdict_since_unix_us - cut_us;
        eprintln!(
            "deaf: offline {} ms after the cut, {}",
            late / 1_000,
            silent.because
        );
        world.heal("deaf");
        let back = scene.verdict("deaf", Verdict::Online, BACK_WITHIN).await;
        assert_eq!(back.agent_id, before.agent_id);
        let revision = back.desired.unwrap().revision;
        until("the agent to have the other tuning", SOON, async || {
            let applied = scene.operator.agent("deaf").await?.applied;
            Ok((applied.is_some_and(|had| had.revision == revision)).then_some(()))
        })
        .await
        .unwrap();
        scene.endings(&before, 1).await;
    });
}

/// Requirement S31 by the kernel's own emulator, where there is one.
#[test]
fn an_emulated_link_with_delay_and_loss_convicts_nobody() {
    const PATIENT: Tuned = Tuned::seconds(1, 20, 1);
    if let Some(missing) = no_discipline("netem") {
        return skip(&missing);
    }
    on_a_network(&["emulated"], async |world: &mut World| {
        let mut scene = Scene::on_server_host().await;
        scene.tune("", PATIENT).await;
        scene.inhabit(world, &[("emulated", "default")]).await;
        let before = scene.operator.agent("emulated").await.unwrap();
        world.emulate_down("emulated", &["delay", "300ms", "100ms", "loss", "10%"]);
        // The fault itself takes time.
        tokio::time::sleep(Duration::from_secs(20)).await;
        let after = scene.operator.agent("emulated").await.unwrap();
        assert_eq!(after.session_id, before.session_id);
        let rtt = Duration::from_nanos(after.rtt_median_ns.unwrap());
        assert!(rtt >= Duration::from_millis(200), "{rtt:?}");
        assert_eq!(scene.ever(Verdict::Offline).await, Vec::<String>::new());
    });
}

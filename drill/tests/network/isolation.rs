//! A server that is cut off from everyone cannot tell their silence from its own.

use std::time::Duration;

use fleetbeat_drill::stage::Place;
use fleetbeat_drill::swarm::MOST_PER_CONNECTION;
use fleetbeat_proto::v1::Verdict;

use crate::scene::{SOON, Scene, Tuned};
use crate::world::{SERVER, on_a_network};

/// Hard cases A2 and A3, field report D03: shorter and longer than the hold may last. Nobody is called
/// offline, and all come back within their longest backoff.
#[test]
fn a_server_that_is_cut_off_from_its_whole_fleet_for_a_while_calls_nobody_offline() {
    const AGENTS: u32 = 100;
    const TUNED: Tuned = Tuned::seconds(2, 3, 1);
    /// Longer than D, shorter than the bound of a hold, and longer than that.
    const CUTS: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(45)];
    const LONGEST_BACKOFF: Duration = Duration::from_secs(39);
    on_a_network(&["fleet"], async |world| {
        let scene = Scene::here().await;
        scene.tune("", TUNED).await;
        // It stands on the server's host: what its kernel sees of the path, the server's would.
        let path = scene.relay_at(&format!("{SERVER}:0"), &[]).await;
        let place = Place {
            namespace: Some(world.namespace("fleet")),
            ..Place::beside(path.address())
        };
        let crowd = scene
            .stage
            .start_crowd_at(&place, "fleet", AGENTS, &["default"], MOST_PER_CONNECTION)
            .unwrap();
        scene.online(AGENTS.into(), SOON).await;
        for cut in CUTS {
            // Beats before the cut show what is owed.
            tokio::time::sleep(TUNED.deadline()).await;
            world.cut("fleet");
            tokio::time::sleep(cut).await;
            let status = scene.operator.status().await.unwrap();
            let verdicts = status.verdicts.unwrap_or_default();
            eprintln!("after {cut:?}: {verdicts:?}");
            assert_eq!((verdicts.online, verdicts.offline), (0, 0), "{verdicts:?}");
            world.heal("fleet");
            scene.online(AGENTS.into(), LONGEST_BACKOFF + SOON).await;
        }
        assert_eq!(scene.ever(Verdict::Offline).await, Vec::<String>::new());
        assert_eq!(scene.incidents("mass_silence").await, CUTS.len());
        crowd.leave().await.unwrap();
    });
}

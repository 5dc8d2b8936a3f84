use std::time::Duration;

use tokio::time::Instant;

use crate::fake::{Fake, revised};
use crate::faketime::Wall;
use crate::host::Host;

/// Field reports B10 and B11: a leap second, an hour back, two hours on and ten years on change neither
/// the rhythm nor a single round trip.
#[tokio::test]
async fn steps_of_the_wall_clock_change_nothing_in_a_session() {
    let host = Host::new();
    let Some(wall) = Wall::at(host.file("wall"), "+0") else {
        return;
    };
    let mut fake = Fake::start().await;
    let mut command = host.command(&["--server", &fake.url()]);
    wall.put_on(&mut command);
    let agent = host.logged(command);
    let (mut peer, _) = fake.welcome(revised(0, 400, 20, 400)).await;
    let mut sequence = 0;
    let mut trips = 0;
    for offset in ["+0", "-1s", "-3600s", "+2h", "+10y", "+0"] {
        wall.shift(offset);
        for _ in 0..5 {
            let before = Instant::now();
            let ping = peer.ping().await;
            let gap = before.elapsed();
            sequence += 1;
            assert_eq!(ping.seq, sequence, "{offset}: one session, no PING twice");
            assert!(gap <= Duration::from_millis(900), "{offset}: {gap:?}");
            if let Some(trip) = ping.rtt_ns {
                trips += 1;
                assert!(trip < 1_000_000_000, "{offset}: a round trip of {trip} ns");
            }
            peer.answer(&ping, Duration::ZERO).await;
        }
    }
    assert!(trips >= 25, "{trips} round trips");
    assert!(!agent.log().contains("panicked"), "{}", agent.log());
    let year = year_of(&agent.log());
    assert!(year > 2000, "the log has its own clock: {year}");
}

/// The year of the first line.
fn year_of(log: &str) -> u32 {
    log.split('-')
        .next()
        .and_then(|year| year.parse().ok())
        .unwrap_or(0)
}

//! Rates before and after a change.

use fleetbeat_liveness::report::{Finding, Watched, compare};
use rand::RngExt;

use crate::given::dice;

fn watched(events: u32, agent_days: f64) -> Watched {
    Watched { events, agent_days }
}

#[test]
fn difference_is_told_where_the_counts_carry_it() {
    for (before, after, finding) in [
        ((20, 10.0), (2, 10.0), Finding::Fewer),
        ((2, 10.0), (20, 10.0), Finding::More),
        ((20, 10.0), (18, 10.0), Finding::NoDifference),
        // Twice the events in twice the time.
        ((10, 10.0), (20, 20.0), Finding::NoDifference),
        ((3, 10.0), (0, 10.0), Finding::TooLittle),
        ((0, 10.0), (0, 10.0), Finding::TooLittle),
        ((5, 0.0), (5, 10.0), Finding::TooLittle),
    ] {
        let (told, _) = compare(watched(before.0, before.1), watched(after.0, after.1));
        assert_eq!(told, finding, "{before:?} {after:?}");
    }
    // Of 6 events all on one side: 2·(1/2)^6.
    let (finding, chance) = compare(watched(6, 1.0), watched(0, 1.0));
    assert_eq!(finding, Finding::Fewer);
    assert!((chance.expect("watched") - 0.031_25).abs() < 1e-9);
}

/// A test that claims 5 % claims no more.
#[test]
fn difference_is_rarely_told_where_there_is_none() {
    let mut rng = dice(5);
    let mut draw = |days: f64| {
        let events = (0..1_000).filter(|_| rng.random_bool(days * 0.02)).count();
        watched(u32::try_from(events).expect("small"), days)
    };
    let told = (0..1_000)
        .map(|_| compare(draw(1.0), draw(2.0)).0)
        .filter(|finding| matches!(finding, Finding::More | Finding::Fewer))
        .count();
    assert!(told <= 70, "{told} of 1,000");
}

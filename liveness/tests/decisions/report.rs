//! Rates before and after a change.

use fleetbeat_liveness::report::{Finding, Watched, compare};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::given::dice;

/// Events that came alone.
fn watched(events: u32, agent_days: f64) -> Watched {
    Watched {
        events,
        squares: u64::from(events),
        open: 0,
        agent_days,
    }
}

/// Outages that each disconnected so many at once.
fn outages(sizes: &[u32], agent_days: f64) -> Watched {
    Watched {
        events: sizes.iter().sum(),
        squares: sizes.iter().map(|n| u64::from(*n).pow(2)).sum(),
        open: 0,
        agent_days,
    }
}

/// How many of 1,000 comparisons tell a difference.
fn told(mut draw: impl FnMut(&mut StdRng) -> (Watched, Watched)) -> usize {
    let mut rng = dice(5);
    (0..1_000)
        .map(|_| draw(&mut rng))
        .map(|(before, after)| compare(before, after).finding)
        .filter(|finding| matches!(finding, Finding::More | Finding::Fewer))
        .count()
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
        let told = compare(watched(before.0, before.1), watched(after.0, after.1));
        assert_eq!(told.finding, finding, "{before:?} {after:?}");
    }
    // Of 6 events all on one side: 2·(1/2)^6.
    let told = compare(watched(6, 1.0), watched(0, 1.0));
    assert_eq!(told.finding, Finding::Fewer);
    assert!((told.chance.expect("watched") - 0.031_25).abs() < 1e-9);
    assert!((told.together - 1.0).abs() < 1e-12);
}

/// A revision is not to blame for one cut of a path, nor to be praised for its absence.
#[test]
fn outage_of_a_thousand_is_one_event() {
    let (calm, cut) = (watched(0, 100.0), outages(&[1_000], 100.0));
    assert_eq!(compare(calm, cut).finding, Finding::TooLittle);
    assert_eq!(compare(cut, calm).finding, Finding::TooLittle);
    // Beside it as many came alone on either side: still no difference.
    let mut lone_and_cut = vec![1; 1_000];
    lone_and_cut.push(1_000);
    let told = compare(watched(1_000, 100.0), outages(&lone_and_cut, 100.0));
    assert_eq!(told.finding, Finding::NoDifference, "{told:?}");
    // Ten cuts of a hundred against none are a difference.
    let told = compare(watched(0, 100.0), outages(&[100; 10], 100.0));
    assert_eq!(told.finding, Finding::More);
    assert!((told.together - 100.0).abs() < 1e-9);
}

/// Who is still away may be dead or may return, and what depends on that is not said.
#[test]
fn difference_that_depends_on_who_is_still_away_is_not_told() {
    let open = |events, open| Watched {
        open,
        ..watched(events, 10.0)
    };
    for (before, after, finding) in [
        ((20, 0), (2, 0), Finding::Fewer),
        ((20, 0), (2, 3), Finding::Fewer),
        ((20, 0), (2, 15), Finding::TooLittle),
        ((2, 0), (20, 30), Finding::More),
        ((2, 15), (20, 0), Finding::TooLittle),
        ((0, 0), (0, 50), Finding::TooLittle),
    ] {
        let told = compare(open(before.0, before.1), open(after.0, after.1));
        assert_eq!(told.finding, finding, "{before:?} {after:?}");
    }
}

/// A test that claims 5 % claims no more.
#[test]
fn difference_is_rarely_told_where_there_is_none() {
    let lone = |rng: &mut StdRng, days: f64| {
        let events = (0..1_000).filter(|_| rng.random_bool(days * 0.02)).count();
        watched(u32::try_from(events).expect("small"), days)
    };
    let wrong = told(|rng| (lone(rng, 1.0), lone(rng, 2.0)));
    assert!(wrong <= 70, "{wrong} of 1,000");
}

/// Nor does it when each outage disconnects many; and it still finds four times as many outages.
#[test]
fn outages_that_come_as_often_are_rarely_told_apart_and_many_more_of_them_are() {
    let some = |rng: &mut StdRng, often: f64| {
        let n = (0..1_000).filter(|_| rng.random_bool(often)).count();
        let hit: Vec<u32> = (0..n).map(|_| rng.random_range(1..=50)).collect();
        outages(&hit, 1.0)
    };
    let wrong = told(|rng| (some(rng, 0.02), some(rng, 0.02)));
    assert!(wrong <= 70, "{wrong} of 1,000");
    let found = told(|rng| (some(rng, 0.02), some(rng, 0.08)));
    assert!(found >= 900, "{found} of 1,000");
}

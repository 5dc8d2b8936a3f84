use std::time::Duration;

use fleetbeat_liveness::backoff::{
    Backoff, Params, Patience, TOLD_MOST, absence_grace, reconnect_spread, tolerable,
};
use proptest::prelude::*;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::given::{dice, millis, secs};

fn within(delay: Duration, least: Duration, most: Duration) {
    assert!(
        least <= delay && delay <= most,
        "{delay:?} is not in {least:?} … {most:?}"
    );
}

/// ± 30 %.
fn about(delay: Duration, base: Duration) {
    within(delay, base * 7 / 10, base * 13 / 10);
}

/// S17, S18, invariant 20: 1 s doubling to 30 s, then only a probe each minute.
#[test]
fn connect_failures_grow_the_delay_and_then_open_the_breaker() {
    for seed in 0..200 {
        let mut rng = dice(seed);
        let mut backoff = Backoff::new(Params::default());
        for base in [1, 2, 4, 8, 16, 30, 30, 30, 30] {
            about(backoff.connect_failed(&mut rng), secs(base));
            assert!(!backoff.breaker_open());
        }
        for _ in 0..3 {
            about(backoff.connect_failed(&mut rng), secs(60));
            assert!(backoff.breaker_open());
        }
        backoff.stable();
        assert!(!backoff.breaker_open());
        about(backoff.connect_failed(&mut rng), secs(1));
    }
}

#[test]
fn jitter_comes_after_the_cap() {
    let mut rng = dice(1);
    let mut backoff = Backoff::new(Params::default());
    let delays: Vec<_> = (0..1000).map(|_| backoff.at_cap(&mut rng)).collect();
    assert!(delays.iter().any(|delay| *delay > secs(38)));
    assert!(delays.iter().any(|delay| *delay < secs(22)));
    for delay in delays {
        about(delay, secs(30));
    }
}

/// Vectors J02, J03: both essays' jitter at the cap.
#[test]
fn the_jitter_of_each_essay_spans_its_range_at_the_cap() {
    for (jitter_percent, least, most) in [(30, 21, 39), (50, 15, 45)] {
        let params = Params {
            jitter_percent,
            ..Params::default()
        };
        let mut rng = dice(3);
        let mut backoff = Backoff::new(params);
        let delays: Vec<_> = (0..2_000).map(|_| backoff.at_cap(&mut rng)).collect();
        for delay in &delays {
            within(*delay, secs(least), secs(most));
        }
        let (shortest, longest) = (delays.iter().min(), delays.iter().max());
        assert!(shortest < Some(&secs(least + 1)), "{shortest:?}");
        assert!(longest > Some(&secs(most - 1)), "{longest:?}");
    }
}

/// Vector J08: ten waits of the growth are 181 s. The tenth failure opens the breaker, so that the waits
/// before it are nine, and its own is the first probe.
#[test]
fn ten_failures_without_jitter_open_the_breaker_after_two_and_a_half_minutes() {
    let params = Params {
        jitter_percent: 0,
        ..Params::default()
    };
    let mut rng = dice(4);
    let mut backoff = Backoff::new(params);
    let nine: Duration = (0..9).map(|_| backoff.connect_failed(&mut rng)).sum();
    assert_eq!((nine, backoff.breaker_open()), (secs(181 - 30), false));
    assert_eq!(backoff.connect_failed(&mut rng), secs(60));
    assert!(backoff.breaker_open());
}

/// B5: an agent that is refused as it is comes back seldom, also when the connection fails next.
#[test]
fn a_refusal_leaves_the_growth_at_its_cap() {
    let mut rng = dice(2);
    let mut backoff = Backoff::new(Params::default());
    backoff.at_cap(&mut rng);
    about(backoff.connect_failed(&mut rng), secs(30));
}

/// S18: a server that answers is available, whatever it answers.
#[test]
fn a_server_that_names_a_window_closes_the_breaker() {
    let mut rng = dice(3);
    let mut backoff = Backoff::new(Params::default());
    for _ in 0..10 {
        backoff.connect_failed(&mut rng);
    }
    backoff.told((secs(1), secs(2)), &mut rng);
    assert!(!backoff.breaker_open());
}

/// S18: a broken connection is not an unavailable peer.
#[test]
fn a_session_that_came_about_closes_the_breaker() {
    let mut rng = dice(1);
    let mut backoff = Backoff::new(Params::default());
    for _ in 0..10 {
        backoff.connect_failed(&mut rng);
    }
    assert!(backoff.breaker_open());
    backoff.session_lost(secs(5), secs(1), &mut rng);
    assert!(!backoff.breaker_open());
}

#[test]
fn a_session_that_did_not_last_keeps_the_growth_going() {
    let mut rng = dice(1);
    let mut backoff = Backoff::new(Params::default());
    for base in [1, 2, 4, 8, 16, 30, 30] {
        about(
            backoff.session_lost(Duration::ZERO, secs(59), &mut rng),
            secs(base),
        );
    }
    let lasted = backoff.session_lost(secs(5), secs(60), &mut rng);
    within(lasted, Duration::ZERO, secs(5));
    about(backoff.connect_failed(&mut rng), secs(1));
}

/// B5: the server's window is obeyed, within reason.
#[test]
fn what_the_server_tells_is_obeyed_up_to_an_hour() {
    for seed in 0..200 {
        let mut rng = dice(seed);
        let mut backoff = Backoff::new(Params::default());
        within(
            backoff.told((secs(300), secs(360)), &mut rng),
            secs(300),
            secs(360),
        );
        within(
            backoff.told((Duration::ZERO, Duration::MAX), &mut rng),
            Duration::ZERO,
            TOLD_MOST,
        );
        assert_eq!(backoff.told((Duration::MAX, secs(1)), &mut rng), TOLD_MOST);
        let spread = backoff.session_lost(Duration::MAX, secs(3600), &mut rng);
        within(spread, Duration::ZERO, TOLD_MOST);
        assert_eq!(backoff.told((secs(9), secs(8)), &mut rng), secs(9));
    }
}

/// A7: with the numbers of the hard case, and the cap that keeps short deadlines from false verdicts.
#[test]
fn the_spread_follows_the_sessions_within_its_limits() {
    let d = secs(62);
    assert_eq!(reconnect_spread(10, 60, d), secs(1));
    within(
        reconnect_spread(1_000, 60, d),
        millis(16_600),
        millis(16_700),
    );
    assert_eq!(reconnect_spread(50_000, 60, d), secs(31));
    assert_eq!(reconnect_spread(50_000, 60, secs(600)), secs(60));
    assert_eq!(reconnect_spread(50_000, 60, millis(900)), millis(450));
    assert_eq!(reconnect_spread(u64::MAX, 0, d), secs(31));
    assert_eq!(reconnect_spread(50_000, 60, Duration::MAX), secs(60));
    assert_eq!(tolerable(secs(60), secs(7)), millis(3_500));
}

/// A7: 1,000 agents cut together at D = 62 s: under a tenth of them in any one second, and no herd.
#[test]
fn a_fleet_cut_together_does_not_return_together() {
    let mut rng = dice(7);
    let spread = reconnect_spread(1_000, 60, secs(62));
    let mut per_second = [0; 17];
    for _ in 0..1_000 {
        let mut backoff = Backoff::new(Params::default());
        let delay = backoff.session_lost(spread, secs(3600), &mut rng);
        per_second[usize::try_from(delay.as_secs()).expect("small")] += 1;
    }
    assert!(
        per_second.iter().all(|count| *count < 100),
        "{per_second:?}"
    );
    assert!(
        per_second[..16].iter().all(|count| *count > 20),
        "{per_second:?}"
    );
}

/// When an agent that lost its session at zero reaches a server that answers again from `back` on.
fn returns(back: Duration, spread: Duration, rng: &mut StdRng) -> Duration {
    let mut backoff = Backoff::new(Params::default());
    let mut now = backoff.session_lost(spread, secs(3600), rng);
    while now < back {
        now += backoff.connect_failed(rng);
    }
    now
}

/// A6: however long the server was away, an agent that lives is back before anybody calls it offline.
#[test]
fn every_agent_is_back_before_the_grace_after_absence_ends() {
    let mut rng = dice(8);
    let deadline = secs(62);
    let grace = absence_grace(5_000, 1_000, deadline);
    assert_eq!(grace, secs(78 + 40 + 5 + 62));
    for _ in 0..5_000 {
        let back = secs(rng.random_range(1..1200));
        let away = returns(back, secs(31), &mut rng).saturating_sub(back);
        assert!(away + secs(5) <= grace.saturating_sub(deadline), "{away:?}");
    }
}

#[test]
fn a_rate_of_zero_is_no_division_by_zero() {
    assert_eq!(absence_grace(10, 0, secs(2)), secs(78 + 40 + 10 + 2));
    assert!(absence_grace(u64::MAX, 0, Duration::MAX) == Duration::MAX);
}

proptest! {
    #[test]
    fn no_sequence_of_endings_gives_a_delay_beyond_what_was_asked_for(
        seed in any::<u64>(),
        endings in prop::collection::vec((0..5_u8, 0..10_000_u64, 0..10_000_u64), 1..100),
    ) {
        let mut rng = dice(seed);
        let mut backoff = Backoff::new(Params::default());
        for (ending, a, b) in endings {
            let (delay, most) = match ending {
                0 => (backoff.connect_failed(&mut rng), secs(78)),
                1 => (backoff.session_lost(secs(a), secs(b), &mut rng), secs(a).max(secs(39))),
                2 => (backoff.told((secs(a), secs(b)), &mut rng), secs(a.max(b))),
                3 => (backoff.at_cap(&mut rng), secs(39)),
                _ => { backoff.stable(); (Duration::ZERO, Duration::ZERO) }
            };
            prop_assert!(delay <= most, "{:?} > {:?}", delay, most);
        }
    }
}

/// Field report D14: a server that needs 8 s is reached, and a fast one soon found dead again.
#[test]
fn patience_grows_with_each_time_out_and_starts_again_with_a_session() {
    let mut patience = Patience::default();
    for expected in [5, 10, 20, 40, 40] {
        assert_eq!(patience.current(), secs(expected));
        patience.ran_out();
    }
    for _ in 0..100 {
        patience.ran_out();
    }
    assert_eq!(patience.current(), Patience::MOST);
    patience.paid_off();
    assert_eq!(patience.current(), Patience::FIRST);
}

use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_liveness::beat::{Beats, Promise};
use proptest::prelude::*;
use rand::rngs::StdRng;

use crate::given::{at, dice, millis, secs};

const T: Duration = Duration::from_secs(20);

/// An agent that was welcomed at `now` and has sent its first PING.
fn beating(interval: Duration, now: Moment, rng: &mut StdRng) -> Beats {
    let mut beats = Beats::new(interval);
    beats.welcomed(now);
    beats.ping_sent(now, rng);
    beats
}

#[test]
fn nothing_is_due_without_a_session() {
    let mut beats = Beats::new(T);
    assert_eq!(beats.due(), Moment::FAR);
    beats.retuned(secs(5), at(1), &mut dice(1));
    assert_eq!((beats.due(), beats.interval()), (Moment::FAR, secs(5)));
    beats.welcomed(at(2));
    beats.ended();
    assert_eq!((beats.due(), beats.interval()), (Moment::FAR, secs(5)));
}

/// A8: the path is proven both ways at once, whatever else is sent meanwhile.
#[test]
fn the_first_ping_is_due_with_the_welcome() {
    let mut beats = Beats::new(T);
    beats.welcomed(at(7));
    assert_eq!(beats.due(), at(7));
    beats.message_sent(at(7), &mut dice(1));
    beats.retuned(secs(60), at(7), &mut dice(1));
    assert_eq!(beats.due(), at(7));
}

/// Shares of the draws that fall into each tenth of `range`.
fn tenths(draws: &[Duration], range: Duration) -> [usize; 10] {
    let mut tenths = [0; 10];
    for draw in draws {
        let tenth = draw.as_nanos() * 10 / range.as_nanos();
        tenths[usize::try_from(tenth).expect("below ten")] += 1;
    }
    tenths
}

/// 10,000 draws: a tenth holds 1,000 ± 30, so 5 deviations are allowed.
fn assert_uniform(draws: &[Duration], range: Duration) {
    assert_eq!(draws.len(), 10_000);
    let tenths = tenths(draws, range);
    assert!(
        tenths.iter().all(|count| (850..1150).contains(count)),
        "{tenths:?}"
    );
}

/// A8, S17: the second PING lies anywhere in [0, T).
#[test]
fn a_fleet_welcomed_together_does_not_beat_in_step() {
    let mut rng = dice(1);
    let draws: Vec<_> = (0..10_000)
        .map(|_| beating(T, at(5), &mut rng).due().since(at(5)))
        .collect();
    assert_uniform(&draws, T);
}

/// Invariant 1: after one push to all, acknowledged by all at once, the next PINGs lie anywhere in
/// [0, T′), for a longer T as for a shorter one.
#[test]
fn a_fleet_retuned_together_does_not_beat_in_step() {
    for interval in [secs(2), secs(300)] {
        let mut rng = dice(2);
        let draws: Vec<_> = (0..10_000)
            .map(|_| {
                let mut beats = beating(T, at(0), &mut rng);
                let second = beats.due();
                beats.ping_sent(second, &mut rng);
                beats.retuned(interval, at(21), &mut rng);
                beats.message_sent(at(21), &mut rng);
                beats.due().since(at(21))
            })
            .collect();
        assert_uniform(&draws, interval);
    }
}

#[test]
fn later_gaps_are_drawn_from_the_last_tenth_of_the_interval() {
    let mut rng = dice(3);
    let draws: Vec<_> = (0..10_000)
        .map(|_| {
            let mut beats = beating(T, at(0), &mut rng);
            let second = beats.due();
            beats.ping_sent(second, &mut rng);
            beats
                .due()
                .since(second)
                .checked_sub(secs(18))
                .expect("at least 0.9 T")
        })
        .collect();
    assert_uniform(&draws, secs(2));
}

/// Invariant 11: a shorter interval does not wait out the longer one.
#[test]
fn a_retune_takes_effect_at_once() {
    let mut rng = dice(4);
    let mut beats = beating(secs(3600), at(0), &mut rng);
    beats.retuned(millis(500), at(1), &mut rng);
    assert!(beats.due().since(at(1)) < millis(500));
}

/// A rollout that changes its mind faster than the interval leaves the beat alive: PINGs keep coming
/// within two of the shorter intervals.
#[test]
fn retunes_in_quick_succession_do_not_put_the_ping_off() {
    for seed in 0..200 {
        let mut rng = dice(seed);
        let mut beats = beating(secs(3600), at(0), &mut rng);
        let mut now = at(1);
        for _ in 0..1_000 {
            beats.retuned(secs(1), now, &mut rng);
            if beats.due() <= now + millis(10) {
                break;
            }
            now = now + millis(10);
        }
        assert!(beats.due() <= at(3), "{:?}", beats.due());
    }
}

/// A9, S16: other messages make PINGs rarer, never absent.
#[test]
fn a_busy_stream_still_pings_every_second_interval() {
    let mut rng = dice(5);
    let mut beats = beating(T, at(0), &mut rng);
    let second = beats.due();
    beats.ping_sent(second, &mut rng);
    let mut now = second;
    while now + secs(1) < beats.due() {
        now = now + secs(1);
        beats.message_sent(now, &mut rng);
    }
    let gap = beats.due().since(second);
    assert!(gap > T && gap <= T * 2, "{gap:?}");
}

/// Moments are draws from what the schedule allows: wake-ups come on time.
#[derive(Debug, Clone)]
enum Happens {
    /// The next PING is waited for.
    Ping,
    /// Another message goes out at this share (of 1000) of the time until the next PING.
    Message(u32),
    /// A retune arrives there, and is acknowledged.
    Retune(u32, Duration),
}

fn happens() -> impl Strategy<Value = Happens> {
    let interval = (300..60_000_u64).prop_map(Duration::from_millis);
    prop_oneof![
        3 => Just(Happens::Ping),
        4 => (0..=1000_u32).prop_map(Happens::Message),
        1 => (0..=1000_u32, interval).prop_map(|(share, interval)| Happens::Retune(share, interval)),
    ]
}

fn later(now: Moment, beats: &Beats, share: u32) -> Moment {
    now + beats.due().since(now) * share / 1000
}

proptest! {
    /// Invariant 1: T is a promise, under any mix of messages and retunes.
    /// A11: a halved interval holds from the last PING on, and a longer one from the next.
    #[test]
    fn a_pace_brings_the_next_ping_forward_and_keeps_phases_apart(seed in any::<u64>()) {
        let mut rng = dice(seed);
        let mut beats = beating(T, at(3), &mut rng);
        let first = beats.due();
        beats.paced(T / 2, first, &mut rng);
        prop_assert_eq!(beats.due(), first, "a uniform point is left where it is");
        beats.paced(T, first, &mut rng);
        beats.ping_sent(first, &mut rng);
        beats.paced(T / 2, first, &mut rng);
        let gap = beats.due().since(first);
        prop_assert!(T * 9 / 20 <= gap && gap <= T / 2, "{gap:?}");
        let due = beats.due();
        beats.paced(T, first, &mut rng);
        prop_assert_eq!(beats.due(), due);
        beats.ping_sent(due, &mut rng);
        let late = due + T * 3 / 4;
        beats.paced(T / 2, late, &mut rng);
        prop_assert_eq!(beats.due(), late, "it is due already");
    }

    #[test]
    fn no_gap_exceeds_the_interval_and_no_two_pings_are_two_intervals_apart(
        seed in any::<u64>(),
        happenings in prop::collection::vec(happens(), 1..200),
    ) {
        let mut rng = dice(seed);
        let (mut now, mut pinged) = (at(3), at(3));
        let mut beats = beating(T, now, &mut rng);
        // Longest interval in force since the last PING.
        let mut longest = T;
        for happens in happenings {
            let sent = now;
            let promised = beats.interval();
            match happens {
                Happens::Ping => {
                    now = beats.due();
                    prop_assert!(now.since(pinged) <= longest * 2);
                    beats.ping_sent(now, &mut rng);
                    (pinged, longest) = (now, promised);
                }
                Happens::Message(share) => {
                    now = later(now, &beats, share);
                    beats.message_sent(now, &mut rng);
                }
                Happens::Retune(share, interval) => {
                    now = later(now, &beats, share);
                    beats.retuned(interval, now, &mut rng);
                    beats.message_sent(now, &mut rng);
                    longest = longest.max(interval);
                }
            }
            prop_assert!(now.since(sent) <= promised);
            prop_assert!(beats.due() >= now);
        }
    }
}

#[test]
fn what_was_promised_is_counted_in_whole_intervals_over_every_retune() {
    let mut promise = Promise::new(at(100), secs(20));
    assert_eq!(promise.owed(at(100)), 1);
    assert_eq!(promise.owed(at(119)), 1);
    assert_eq!(promise.owed(at(161)), 4);
    promise.retuned(at(161), secs(20));
    assert_eq!(promise.owed(at(180)), 5, "the same T changes nothing");
    promise.retuned(at(195), secs(2));
    assert_eq!(promise.owed(at(196)), 5);
    assert_eq!(promise.owed(at(205)), 10);
    assert_eq!((promise.missed(secs(62)), promise.missed(secs(1))), (31, 0));
}

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_liveness::wheel::{Slot, TICK, Wheel};
use proptest::prelude::*;

use crate::given::{at, at_millis, secs};

/// Everything that is due, however many calls it takes.
fn drain(wheel: &mut Wheel<u32>, now: Moment, limit: usize) -> Vec<(Slot, u32)> {
    let mut out = Vec::new();
    while wheel.expire(now, limit, &mut out) {}
    out
}

fn keys(expired: &[(Slot, u32)]) -> Vec<u32> {
    expired.iter().map(|(_, key)| *key).collect()
}

#[test]
fn a_deadline_rounds_up_to_the_tick_and_never_expires_early() {
    let mut wheel = Wheel::new();
    let deadline = at_millis(25);
    wheel.insert(1, deadline);
    assert_eq!(drain(&mut wheel, at_millis(29), 10), []);
    assert_eq!(wheel.next_due(), Some(at_millis(30)));
    assert_eq!(keys(&drain(&mut wheel, at_millis(30), 10)), [1]);
}

#[test]
fn an_expired_entry_stays_until_it_is_rescheduled_or_removed() {
    let mut wheel = Wheel::new();
    let slot = wheel.insert(1, at(1));
    drain(&mut wheel, at(2), 10);
    assert_eq!(
        (wheel.len(), wheel.next_due(), wheel.get(slot)),
        (1, None, Some(1))
    );
    assert!(wheel.reschedule(slot, at(3)));
    assert_eq!(keys(&drain(&mut wheel, at(3), 10)), [1]);
    assert_eq!(wheel.remove(slot), Some(1));
    assert!(wheel.is_empty());
}

#[test]
fn a_passed_deadline_is_due_at_once() {
    let mut wheel = Wheel::new();
    drain(&mut wheel, at(1000), 10);
    wheel.insert(1, at(5));
    assert_eq!(keys(&drain(&mut wheel, at(1000), 10)), [1]);
}

/// A4: a deadline an hour ahead is shortened to seconds.
#[test]
fn a_shortened_deadline_is_found_in_time() {
    let mut wheel = Wheel::new();
    let slot = wheel.insert(1, at(3600));
    drain(&mut wheel, at(100), 10);
    wheel.reschedule(slot, at(107));
    assert_eq!(drain(&mut wheel, at_millis(106_999), 10), []);
    assert_eq!(keys(&drain(&mut wheel, at(107), 10)), [1]);
}

/// A4: an agent that flaps leaves nothing behind, however far its deadline.
#[test]
fn removed_entries_leave_nothing_behind() {
    let mut wheel = Wheel::new();
    for key in 0..10_000 {
        let slot = wheel.insert(key, at(10_800));
        assert_eq!(wheel.remove(slot), Some(key));
    }
    assert_eq!((wheel.len(), wheel.next_due()), (0, None));
    assert_eq!(drain(&mut wheel, at(20_000), 10), []);
}

/// A4: a stale slot does not touch the entry that took its place.
#[test]
fn a_stale_slot_is_ignored() {
    let mut wheel = Wheel::new();
    let stale = wheel.insert(1, at(5));
    wheel.remove(stale);
    let slot = wheel.insert(2, at(5));
    assert_ne!(stale, slot);
    assert!(!wheel.reschedule(stale, at(1)));
    assert_eq!((wheel.remove(stale), wheel.get(stale)), (None, None));
    assert_eq!(keys(&drain(&mut wheel, at(5), 10)), [2]);
}

/// Invariant 7: expiry goes in bounded batches, and a mass death is told in full.
#[test]
fn a_pass_looks_at_no_more_than_its_limit() {
    let mut wheel = Wheel::new();
    for key in 0..1_200 {
        wheel.insert(key, at(60));
    }
    let mut out = Vec::new();
    assert!(wheel.expire(at(60), 500, &mut out));
    assert_eq!(out.len(), 500);
    assert!(wheel.expire(at(60), 500, &mut out));
    assert!(!wheel.expire(at(60), 500, &mut out));
    assert_eq!(keys(&out), (0..1_200).collect::<Vec<_>>());
}

#[test]
fn parking_again_counts_towards_the_limit() {
    let mut wheel = Wheel::new();
    for key in 0..30 {
        wheel.insert(key, at(86_400));
    }
    let mut out = Vec::new();
    let passes = (1..100).find(|_| !wheel.expire(at(100), 10, &mut out));
    assert_eq!((passes, out.len()), (Some(3), 0));
}

#[derive(Debug, Clone)]
enum Does {
    Insert(Duration),
    Remove(usize),
    /// Towards the past when the flag is set.
    Reschedule(usize, Duration, bool),
    Advance(Duration),
    /// One bounded pass at the present time.
    Pass(usize),
}

/// From nothing to a day.
fn any_distance() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..50_000_000_u64).prop_map(Duration::from_nanos),
        (0..5_000_u64).prop_map(Duration::from_millis),
        (0..200_u64).prop_map(Duration::from_secs),
        (0..86_400_u64).prop_map(Duration::from_secs),
    ]
}

fn does() -> impl Strategy<Value = Does> {
    let which = || 0..1000_usize;
    prop_oneof![
        4 => any_distance().prop_map(Does::Insert),
        2 => which().prop_map(Does::Remove),
        3 => (which(), any_distance(), prop::bool::weighted(0.2))
            .prop_map(|(which, distance, past)| Does::Reschedule(which, distance, past)),
        3 => any_distance().prop_map(Does::Advance),
        2 => (1..6_usize).prop_map(Does::Pass),
    ]
}

/// The naive wheel: every deadline in a map.
#[derive(Default)]
struct Naive {
    armed: BTreeMap<u32, Moment>,
    slots: Vec<(Slot, u32)>,
    removed: Vec<Slot>,
}

impl Naive {
    fn due(&self, now: Moment) -> BTreeSet<u32> {
        let due = self
            .armed
            .iter()
            .filter(|(_, deadline)| tick_end(**deadline) <= now);
        due.map(|(key, _)| *key).collect()
    }

    fn pick(&self, which: usize) -> Option<(usize, Slot, u32)> {
        let at = which.checked_rem(self.slots.len())?;
        Some((at, self.slots[at].0, self.slots[at].1))
    }
}

/// Start of the first tick that is not before the deadline.
fn tick_end(deadline: Moment) -> Moment {
    let tick = u64::try_from(TICK.as_nanos()).expect("small");
    Moment::from_nanos(deadline.as_nanos().div_ceil(tick) * tick)
}

/// Every entry that came out was armed and due, none twice; the model forgets their deadlines.
fn settle(naive: &mut Naive, out: &[(Slot, u32)], now: Moment) -> Result<(), TestCaseError> {
    for entry in out {
        prop_assert!(naive.slots.contains(entry));
        let deadline = naive.armed.remove(&entry.1);
        prop_assert!(
            deadline.is_some_and(|deadline| deadline <= now),
            "{deadline:?} at {now:?}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_wheel_agrees_with_a_map_of_deadlines(
        start in prop_oneof![Just(0), any::<u32>().prop_map(u64::from)],
        steps in prop::collection::vec(does(), 1..120),
    ) {
        let mut now = at_millis(start);
        let mut wheel = Wheel::new();
        let mut naive = Naive::default();
        let mut fresh = 0;
        for step in steps {
            match step {
                Does::Insert(distance) => {
                    let slot = wheel.insert(fresh, now + distance);
                    naive.armed.insert(fresh, now + distance);
                    naive.slots.push((slot, fresh));
                    fresh += 1;
                }
                Does::Remove(which) => if let Some((at, slot, key)) = naive.pick(which) {
                    prop_assert_eq!(wheel.remove(slot), Some(key));
                    naive.slots.swap_remove(at);
                    naive.armed.remove(&key);
                    naive.removed.push(slot);
                },
                Does::Reschedule(which, distance, past) => {
                    if let Some((_, slot, key)) = naive.pick(which) {
                        let deadline = if past { now.before(distance) } else { now + distance };
                        prop_assert!(wheel.reschedule(slot, deadline));
                        naive.armed.insert(key, deadline);
                    }
                }
                Does::Advance(distance) => {
                    now = now + distance;
                    let due = naive.due(now);
                    let out = drain(&mut wheel, now, 7);
                    settle(&mut naive, &out, now)?;
                    let out: BTreeSet<_> = keys(&out).into_iter().collect();
                    prop_assert!(out.is_superset(&due));
                }
                Does::Pass(limit) => {
                    let due = naive.due(now);
                    let mut out = Vec::new();
                    let more = wheel.expire(now, limit, &mut out);
                    prop_assert!(out.len() <= limit);
                    prop_assert!(more || out.len() >= due.len());
                    settle(&mut naive, &out, now)?;
                }
            }
            prop_assert_eq!(wheel.len(), naive.slots.len());
            prop_assert_eq!(wheel.next_due().is_some(), !naive.armed.is_empty());
            let first = naive.armed.values().map(|deadline| tick_end(*deadline)).min();
            prop_assert!(wheel.next_due() <= first.map(|first| first.max(now)));
            for stale in &naive.removed {
                prop_assert_eq!(wheel.get(*stale), None);
            }
        }
        let last = now + secs(200_000);
        let out = drain(&mut wheel, last, 7);
        settle(&mut naive, &out, last)?;
        prop_assert!(naive.armed.is_empty());
    }
}

use std::time::Duration;

use fleetbeat_liveness::histogram::{BUCKETS, bucket};
use fleetbeat_liveness::rollout::guard::{Against, Side};
use fleetbeat_liveness::rollout::{
    Change, Evidence, OnLittle, Phase, Plan, Push, Rollout, Size, Split, Standing, State,
};
use fleetbeat_liveness::rollout::{Guard, Guards};
use proptest::prelude::*;
use rand::RngExt;

use crate::given::{dice, secs};

type Id = [u8; 16];

fn members(n: u32) -> Vec<Id> {
    (0..n).map(|i| u128::from(i).to_be_bytes()).collect()
}

fn plan(sizes: &[Size], seed: u64) -> Plan {
    let soak = secs(120);
    Plan {
        seed,
        candidate: 2,
        last_good: 1,
        phases: sizes
            .iter()
            .map(|size| Phase { size: *size, soak })
            .collect(),
        looks: 3,
        guards: Guards::default(),
        on_little: OnLittle::Advance,
    }
}

fn steps() -> Plan {
    let sizes = [Size::Count(3), Size::Percent(10), Size::Percent(100)];
    plan(&sizes, 7)
}

/// Both sides alike, with so many disconnects of the candidate.
fn evidence(disconnects: u32) -> Evidence {
    let mut rtt = vec![0; BUCKETS];
    rtt[bucket(20_000_000)] = 10_000;
    let old = Side {
        members: 2_000,
        member_hours: 1_000.0,
        disconnects: 100,
        reconnects: 100,
        rtt,
    };
    let candidate = Side {
        disconnects,
        ..old.clone()
    };
    Evidence {
        candidate,
        old,
        against: Against::Rest,
    }
}

/// Drives a rollout with the same evidence every 20 s; everybody in `acking` acknowledges.
fn drive(rollout: &mut Rollout, connected: &[Id], acking: bool, evidence: &Evidence) -> Vec<Split> {
    let push = |now, revision| Push {
        now,
        connected,
        revision,
    };
    let mut splits = Vec::new();
    let mut note = |change: &Change| {
        if let Change::Split(split) = change {
            splits.push(*split);
        }
    };
    note(
        &rollout
            .start(push(Duration::ZERO, 10))
            .expect("a planned rollout"),
    );
    for tick in 1..100 {
        let revision = rollout.progress.revision;
        for agent in connected.iter().filter(|_| acking) {
            rollout.tell(agent, revision, Standing::Applied);
        }
        if let Some(change) = rollout.observe(push(secs(tick * 20), 10 + tick), evidence) {
            note(&change);
        }
    }
    splits
}

fn any_size() -> impl Strategy<Value = Size> {
    prop_oneof![
        (1_u32..=100).prop_map(Size::Percent),
        (1_u32..=60).prop_map(Size::Count),
    ]
}

proptest! {
    /// Hard case C6: whatever the sizes and whoever is connected, nobody who had the candidate loses it
    /// by an advance, and a count is met exactly.
    #[test]
    fn each_phase_is_a_superset_of_the_one_before(
        sizes in prop::collection::vec(any_size(), 1..6),
        seed in any::<u64>(),
        n in 0_u32..200,
    ) {
        let everyone = members(200);
        let sizes: Vec<Size> = sizes.into_iter().chain([Size::Percent(100)]).collect();
        let mut rollout = Rollout::new(plan(&sizes, seed)).expect("a valid plan");
        let connected = members(n);
        let splits = drive(&mut rollout, &connected, true, &evidence(100));
        prop_assert_eq!(splits.len(), sizes.len());
        for pair in splits.windows(2) {
            for agent in &everyone {
                prop_assert!(!pair[0].includes(agent) || pair[1].includes(agent));
            }
        }
        if let Size::Count(count) = sizes[0] {
            let reached = connected.iter().filter(|agent| splits[0].includes(agent)).count();
            prop_assert_eq!(reached, usize::try_from(count.min(n)).expect("small"));
        }
        prop_assert!(everyone.iter().all(|agent| splits[splits.len() - 1].includes(agent)));
        prop_assert_eq!(&rollout.progress.state, &State::Completed);
    }

    /// Hard case C6: answers arrive in any order, twice, late, from others and for other revisions, and
    /// the owner restarts from the stored value between any two of them: the same value comes out.
    #[test]
    fn order_and_restarts_change_nothing(
        told in prop::collection::vec((0_u32..60, 9_u64..12, 0_u8..4), 0..200),
        shuffle in any::<u64>(),
    ) {
        let connected = members(50);
        let push = |now, revision| Push { now, connected: &connected, revision };
        let everyone = plan(&[Size::Percent(50), Size::Percent(100)], 3);
        let mut straight = Rollout::new(everyone).expect("a valid plan");
        straight.start(push(Duration::ZERO, 10)).expect("planned");
        let mut shuffled = straight.clone();
        let standing = |n: u8| match n {
            0 => Standing::Waiting,
            1 => Standing::Applied,
            2 => Standing::Refused,
            _ => Standing::Left,
        };
        for (agent, revision, n) in &told {
            straight.tell(&u128::from(*agent).to_be_bytes(), *revision, standing(*n));
        }
        let mut rng = dice(shuffle);
        let mut order = told.clone();
        for at in (1..order.len()).rev() {
            order.swap(at, rng.random_range(0..=at));
        }
        for (agent, revision, n) in order.iter().chain(&order) {
            let stored = (shuffled.plan.clone(), shuffled.progress.clone());
            shuffled = Rollout { plan: stored.0, progress: stored.1 };
            shuffled.tell(&u128::from(*agent).to_be_bytes(), *revision, standing(*n));
        }
        prop_assert_eq!(&straight, &shuffled);
        for tick in 1..20 {
            let now = push(secs(tick * 20), 10 + tick);
            let stored = shuffled.clone();
            let once = shuffled.observe(now, &evidence(100));
            // The transaction failed: the stored value decides again.
            let mut again = stored;
            let looks = |rollout: &Rollout| (rollout.progress.phase, rollout.progress.looks);
            prop_assert_eq!(again.is_due(now.now), looks(&again) != looks(&shuffled));
            prop_assert_eq!(&once, &again.observe(now, &evidence(100)));
            prop_assert_eq!(&once, &straight.observe(now, &evidence(100)));
            shuffled = again;
        }
        prop_assert_eq!(straight, shuffled);
    }

    /// Hard case C6: after the halt nothing that can be called gives the candidate to anybody.
    #[test]
    fn a_bad_candidate_reaches_nobody_after_its_halt(calls in prop::collection::vec(0_u8..5, 0..40)) {
        let connected = members(1_000);
        let mut rollout = Rollout::new(steps()).expect("a valid plan");
        let splits = drive(&mut rollout, &connected, true, &evidence(1_000));
        prop_assert_eq!(splits.len(), 1);
        let reached = connected.iter().filter(|agent| splits[0].includes(agent)).count();
        prop_assert_eq!(reached, 3);
        prop_assert!(matches!(rollout.progress.state, State::RolledBack(_)));
        for (at, call) in calls.into_iter().enumerate() {
            let now = secs(10_000 + 20 * u64::try_from(at).expect("small"));
            let push = Push { now, connected: &connected, revision: 99 };
            let change = match call {
                0 => rollout.start(push).ok(),
                1 => rollout.observe(push, &evidence(0)),
                2 => rollout.resume(push).ok().flatten(),
                3 => rollout.abort().ok(),
                _ => rollout.pause().ok().map(|()| Change::Paused),
            };
            prop_assert_eq!(change, None);
            prop_assert_eq!(rollout.progress.split, None);
        }
    }
}

/// Hard case C6: nobody is connected, so nobody answers: every phase still ends when its soak is over.
#[test]
fn offline_members_are_never_waited_for() {
    let mut rollout = Rollout::new(steps()).expect("a valid plan");
    let splits = drive(&mut rollout, &[], false, &evidence(100));
    assert_eq!(splits.len(), 3);
    assert_eq!(rollout.progress.state, State::Completed);
}

#[test]
fn a_cohort_that_does_not_acknowledge_halts_its_phase() {
    let connected = members(100);
    let mut rollout =
        Rollout::new(plan(&[Size::Percent(50), Size::Percent(100)], 1)).expect("valid");
    let splits = drive(&mut rollout, &connected, false, &evidence(100));
    assert_eq!(splits.len(), 1);
    let State::RolledBack(finding) = &rollout.progress.state else {
        panic!("{:?}", rollout.progress.state);
    };
    assert_eq!(finding.guard, Guard::Unacked);
}

#[test]
fn a_joiner_does_not_count_and_who_left_stays_left() {
    let connected = members(10);
    let mut rollout = Rollout::new(plan(&[Size::Percent(100)], 1)).expect("valid");
    let push = Push {
        now: Duration::ZERO,
        connected: &connected,
        revision: 10,
    };
    rollout.start(push).expect("planned");
    let joiner = u128::from(11_u32).to_be_bytes();
    rollout.tell(&joiner, 10, Standing::Refused);
    rollout.tell(&connected[0], 10, Standing::Left);
    rollout.tell(&connected[0], 10, Standing::Applied);
    assert!(!rollout.progress.cohort.contains_key(&joiner));
    assert_eq!(rollout.progress.cohort[&connected[0]], Standing::Left);
}

#[test]
fn an_outage_of_the_owner_is_not_soak_time() {
    let connected = members(100);
    let mut rollout = Rollout::new(steps()).expect("a valid plan");
    let push = |now| Push {
        now,
        connected: &connected,
        revision: 10,
    };
    rollout.start(push(Duration::ZERO)).expect("planned");
    assert_eq!(rollout.observe(push(secs(86_400)), &evidence(100)), None);
    assert_eq!(rollout.progress.soaked, secs(30));
    // What the owner calls unwatched counts for nothing.
    rollout.skip(secs(90_000));
    assert_eq!(rollout.observe(push(secs(90_001)), &evidence(100)), None);
    assert_eq!(rollout.progress.soaked, secs(31));
    // A wall clock that was set back.
    assert_eq!(rollout.observe(push(secs(5)), &evidence(100)), None);
    assert_eq!(rollout.progress.soaked, secs(31));
}

#[test]
fn too_little_evidence_pauses_where_the_plan_says_so_and_the_operator_goes_on() {
    let connected = members(5);
    let mut rollout = Rollout::new(Plan {
        on_little: OnLittle::Pause,
        ..steps()
    })
    .expect("valid");
    let splits = drive(&mut rollout, &connected, true, &evidence(100));
    assert_eq!((splits.len(), &rollout.progress.state), (1, &State::Paused));
    let push = Push {
        now: secs(9_999),
        connected: &connected,
        revision: 20,
    };
    let change = rollout.resume(push).expect("paused");
    assert!(matches!(change, Some(Change::Split(_))), "{change:?}");
    assert_eq!((rollout.progress.phase, rollout.progress.revision), (1, 20));
    assert_eq!(rollout.abort(), Ok(Change::LastGood));
    assert!(rollout.supersede(30).is_err());
}

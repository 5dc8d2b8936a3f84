use std::time::Duration;

use fleetbeat_liveness::deafness::{Deafness, GRACE_MOST};
use fleetbeat_liveness::hearing::{Counts, Hearing, owed_per_s};
use fleetbeat_liveness::hold::{Change, Hold, Leave};
use fleetbeat_liveness::outage::Outage;
use fleetbeat_liveness::verdict::{Next, next};
use fleetbeat_liveness::{Expectation, Limits, Moment};
use proptest::prelude::*;

use crate::given::{at, at_millis, millis, secs, tuning};

/// A fleet of which so many speak: every second each sends its share.
struct Fleet {
    hold: Hold,
    counts: Counts,
    sent: f64,
    now: u64,
    changes: Vec<(u64, Change)>,
}

fn default() -> Expectation {
    tuning(20, 3, 2).expectation()
}

impl Fleet {
    /// Agents with T = 20 s, N = 3, W = 2 s.
    fn of(agents: u32) -> Self {
        Self {
            hold: Hold::new(),
            counts: Counts {
                owed_per_s: f64::from(agents) * owed_per_s(secs(20)),
                owed_afar_per_s: f64::from(agents) * owed_per_s(secs(20)),
                ..Counts::default()
            },
            sent: 0.0,
            now: 0,
            changes: Vec::new(),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive number"
    )]
    fn live(&mut self, seconds: u64, speaking: u32) {
        for _ in 0..seconds {
            self.now += 1;
            self.sent += f64::from(speaking) * owed_per_s(secs(20));
            self.counts.heard = self.sent as u64;
            self.counts.afar = self.counts.heard;
            let change = self.hold.sample(at(self.now), self.counts);
            self.changes.extend(change.map(|change| (self.now, change)));
        }
    }

    fn ask(&mut self) -> Leave {
        let heard = at(self.now.saturating_sub(62));
        let (leave, change) = self.hold.ask(at(self.now), heard, &default());
        self.changes.extend(change.map(|change| (self.now, change)));
        leave
    }
}

/// A3: after a total cut the first deadline begins a hold; what half of the fleet sends ends it.
#[test]
fn a_fleet_that_falls_silent_together_is_held_until_half_of_it_is_back() {
    let mut fleet = Fleet::of(1_000);
    fleet.live(300, 1_000);
    fleet.live(62, 0);
    assert_eq!(fleet.ask(), Leave::Wait);
    fleet.live(10, 0);
    assert_eq!(fleet.ask(), Leave::Wait);
    fleet.live(25, 1_000);
    assert_eq!(fleet.ask(), Leave::Judge);
    let [
        (362, Change::Began { evidence, until }),
        (373, Change::Heard { since }),
        (392, recovered),
    ] = fleet.changes[..]
    else {
        panic!("{:?}", fleet.changes)
    };
    assert_eq!(since, at(300), "when the last message came");
    assert_eq!(recovered, Change::Recovered { since });
    assert_eq!(until, at(362 + 62));
    assert!(evidence.share.heard < 1.0 && evidence.share.owed > 2_000.0);
}

/// A3: what is released is not massacred: the tail of the retransmissions has its grace.
#[test]
fn the_end_of_a_hold_is_followed_by_the_grace_of_its_silence() {
    let mut fleet = Fleet::of(1_000);
    fleet.live(300, 1_000);
    fleet.live(62, 0);
    fleet.ask();
    fleet.live(25, 1_000);
    let mut deafness = Deafness::new();
    for (now, change) in &fleet.changes {
        if let Change::Heard { since } | Change::Recovered { since } = change {
            deafness.deaf(*since, at(*now));
        }
    }
    let grace = deafness.grace_for(Moment::ZERO).unwrap();
    assert!(grace >= at(387) + secs(40).min(GRACE_MOST));
    let silent = next(
        at(387),
        at(300),
        &Limits::of_agent(&default(), None),
        Some(grace),
    );
    assert!(!matches!(silent, Next::Convict));
}

/// A3: the bound is max(D, 30 s), and a server that heard nobody at all says that it does not know.
#[test]
fn past_the_bound_a_server_that_heard_nobody_does_not_know() {
    let mut fleet = Fleet::of(1_000);
    fleet.live(300, 1_000);
    fleet.live(62, 0);
    fleet.ask();
    fleet.live(61, 0);
    assert!(matches!(fleet.ask(), Leave::Wait));
    fleet.live(1, 0);
    let passed = Change::Passed {
        heard_somebody: false,
    };
    assert_eq!(fleet.changes.last(), Some(&(424, passed)));
    fleet.live(3_600, 0);
    assert_eq!(fleet.ask(), Leave::Unknown);
    // The kernel gives up the sessions: what they owe says nothing any more.
    fleet.counts.owed_per_s = 0.0;
    fleet.live(3_600, 0);
    assert_eq!(fleet.ask(), Leave::Unknown);
    fleet.counts.afar += 1;
    let heard = fleet.hold.sample(at(fleet.now + 1), fleet.counts);
    assert_eq!(heard, Some(Change::Heard { since: at(300) }));
    assert_eq!(fleet.ask(), Leave::Judge);
}

/// A3: what came before the hold proves nothing: one agent that died by itself began it while the last
/// messages before the cut were still in its look-back.
#[test]
fn only_what_is_heard_during_the_hold_shows_that_the_server_hears() {
    let mut fleet = Fleet::of(1_000);
    fleet.live(300, 1_000);
    fleet.live(33, 0);
    assert_eq!(fleet.ask(), Leave::Wait);
    fleet.live(62, 0);
    let passed = Change::Passed {
        heard_somebody: false,
    };
    assert_eq!(fleet.changes.last(), Some(&(395, passed)));
    assert_eq!(fleet.ask(), Leave::Unknown);
}

/// A3: an agent on the server's own host proves no network, unless the whole fleet lives there; and a fleet
/// that is heard again ends the hold, whoever it is.
#[test]
fn an_agent_of_the_servers_own_host_proves_no_network() {
    for (owed_afar_per_s, leave) in [(50.0, Leave::Unknown), (0.0, Leave::Judge)] {
        let mut fleet = Fleet::of(1_000);
        fleet.live(300, 1_000);
        fleet.counts.owed_afar_per_s = owed_afar_per_s;
        let afar = fleet.counts.afar;
        let alone = |fleet: &mut Fleet, seconds: u64| {
            for _ in 0..seconds {
                fleet.now += 1;
                fleet.counts.heard += u64::from(fleet.now.is_multiple_of(19));
                fleet.counts.afar = afar;
                let change = fleet.hold.sample(at(fleet.now), fleet.counts);
                fleet
                    .changes
                    .extend(change.map(|change| (fleet.now, change)));
            }
        };
        alone(&mut fleet, 62);
        assert_eq!(fleet.ask(), Leave::Wait);
        alone(&mut fleet, 63);
        assert_eq!(fleet.ask(), leave);
        fleet.sent = 1e6;
        fleet.live(40, 1_000);
        assert_eq!(fleet.ask(), Leave::Judge);
        assert!(!fleet.hold.holds());
    }
}

/// A3, D06: a real mass death is held no longer than the bound, and the next one is measured anew.
#[test]
fn a_real_mass_death_is_judged_at_the_bound_by_a_server_that_hears() {
    let mut fleet = Fleet::of(1_000);
    fleet.live(300, 1_000);
    fleet.live(62, 100);
    assert!(matches!(fleet.ask(), Leave::Wait));
    fleet.live(62, 100);
    let passed = Change::Passed {
        heard_somebody: true,
    };
    assert_eq!(fleet.changes.last(), Some(&(424, passed)));
    assert_eq!(fleet.ask(), Leave::Judge);
    fleet.counts.owed_per_s /= 10.0;
    fleet.live(60, 100);
    assert_eq!(fleet.ask(), Leave::Judge);
    fleet.live(300, 0);
    assert!(matches!(fleet.ask(), Leave::Wait));
}

/// A3: fewer than 20 owed messages prove nothing: T = 20 s and N = 3 owe 40/19 each.
#[test]
fn small_fleets_are_never_held() {
    let mut fleet = Fleet::of(9);
    fleet.live(300, 9);
    fleet.live(62, 0);
    assert_eq!(fleet.ask(), Leave::Judge);
    let mut fleet = Fleet::of(10);
    fleet.live(300, 10);
    fleet.live(62, 0);
    assert!(matches!(fleet.ask(), Leave::Wait));
}

/// D03: six of ten cut off are judged in time, and one outage tells it.
#[test]
fn a_cut_of_most_but_not_nearly_all_is_told_and_not_held() {
    let mut fleet = Fleet::of(1_000);
    let mut outage = Outage::new(0.8);
    fleet.live(300, 1_000);
    for speaking in [1_000, 400] {
        for _ in 0..100 {
            fleet.live(1, speaking);
            outage.sample(at(fleet.now), fleet.counts);
        }
    }
    assert_eq!(fleet.ask(), Leave::Judge);
    let evidence = outage.missed(default().look_back).expect("it is out");
    assert!((evidence.share.heard / evidence.share.owed - 0.4).abs() < 0.02);
    assert_eq!(outage.missed(default().look_back), None, "told once");
    // D06: those that are convicted owe nothing, and the outage ends by itself.
    fleet.counts.owed_per_s *= 0.4;
    let ended = (0..100).find(|_| {
        fleet.live(1, 400);
        outage.sample(at(fleet.now), fleet.counts)
    });
    assert!(ended.is_some());
}

proptest! {
    /// Thinning moves no share by more than the fineness says, at any age.
    #[test]
    fn what_was_heard_long_ago_is_known_about_as_finely_as_its_age(
        rates in proptest::collection::vec((1_u64..4_000, 0_u64..2_000), 20..60),
        look_back in 1_u64..400_000,
    ) {
        let mut hearing = Hearing::new(64);
        let (mut now, mut heard) = (0, 0);
        let mut exact = vec![(0, 0)];
        for (steps, per_step) in rates {
            for _ in 0..steps {
                now += 100;
                heard += per_step;
                hearing.sample(at_millis(now), Counts { heard, ..Counts::default() });
                exact.push((now, heard));
            }
        }
        let from = now.saturating_sub(look_back);
        let slack = (look_back / 32).max(200);
        let at_or_before = |moment: u64| {
            let index = exact.partition_point(|(at, _)| *at <= moment).max(1);
            exact[index - 1].1
        };
        let share = hearing.over(millis(look_back));
        let least = heard - at_or_before(from.saturating_add(slack).min(now));
        let most = heard - at_or_before(from.saturating_sub(slack));
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let (least, most) = (least as f64, most as f64);
        prop_assert!((least - 0.5..=most + 0.5).contains(&share.heard),
            "{} is not in {least}..={most}", share.heard);
    }
}

#[test]
fn what_is_owed_follows_the_mean_gap() {
    let per_s = owed_per_s(secs(20));
    assert!((per_s * 19.0 - 1.0).abs() < 1e-9);
    let mut hearing = Hearing::new(64);
    let counts = Counts {
        owed_per_s: per_s,
        ..Counts::default()
    };
    hearing.sample(at(0), counts);
    hearing.sample(at(190), counts);
    assert!((hearing.over(Duration::from_secs(95)).owed - 5.0).abs() < 1e-9);
}

/// Found by simulation: a judge that slept counted what came at the beginning of its sleep as if it had come
/// all along, and called agents offline although nobody had been heard for long.
#[test]
fn a_sampler_that_slept_knows_when_the_last_message_came() {
    let mut hearing = Hearing::new(64);
    let counts = |heard, heard_at| Counts {
        heard,
        heard_at: at(heard_at),
        ..Counts::default()
    };
    hearing.sample(at(10), counts(0, 0));
    hearing.sample(at(20), counts(100, 11));
    let share = hearing.over(Duration::from_secs(5));
    assert!(share.heard.abs() < 1e-9, "{share:?}");
    assert!((hearing.over(Duration::from_secs(10)).heard - 100.0).abs() < 1e-9);
}

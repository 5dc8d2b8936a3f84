use fleetbeat_liveness::grounds::Heard;

use super::*;
use crate::clock::Hands;
use crate::registry::{Kind, Known, Transition};

/// So many agents in one group; T = 20 s, N = 3, W = 2 s.
struct Fleet {
    registry: Arc<Registry>,
    /// The registry's clock, where it goes with the seconds lived.
    hands: Option<&'static Hands>,
    bench: Bench,
    sessions: Vec<Arc<Session>>,
    began: Moment,
    second: u64,
    nominated: u64,
}

impl Fleet {
    /// Groups by name with how many agents each has.
    fn of(groups: &[(&str, u8)]) -> Self {
        Self::with(Clock::start(), None, groups)
    }

    /// As [`Self::of`], of a registry that lives by the same seconds.
    fn by_hand(groups: &[(&str, u8)]) -> Self {
        let hands: &'static Hands = Box::leak(Box::default());
        Self::with(Clock::by_hand(hands), Some(hands), groups)
    }

    fn with(clock: Clock, hands: Option<&'static Hands>, groups: &[(&str, u8)]) -> Self {
        let rates = Rates {
            admission_per_s: hands.map_or(Rates::default().admission_per_s, |_| 60),
            ..Rates::default()
        };
        let registry = Arc::new(Registry::new(clock, 1, rates));
        let mut sessions = Vec::new();
        for (group, agents) in groups {
            for _ in 0..*agents {
                let number = u8::try_from(sessions.len() + 1).unwrap();
                sessions.push(join(&registry, number, group));
            }
        }
        Self {
            bench: Bench::new(Arc::clone(&registry)),
            began: registry.clock().now(),
            registry,
            hands,
            sessions,
            second: 0,
            nominated: 0,
        }
    }

    fn now(&self) -> Moment {
        self.began + Duration::from_secs(self.second)
    }

    /// Lives for so many seconds; each agent that `speaks` beats every 19 s.
    fn live(&mut self, seconds: u64, speaks: impl Fn(usize) -> bool) {
        for _ in 0..seconds {
            self.second += 1;
            let now = self.now();
            if let Some(hands) = self.hands {
                hands.set(now);
            }
            self.registry.lanes()[0].ticked(now, now);
            for (number, session) in self.sessions.iter().enumerate() {
                let turn = (self.second + number as u64).is_multiple_of(19);
                if turn && speaks(number) && session.heard(now, Heard::CheckReply) {
                    self.registry.heard_again(session, None);
                }
                if turn && speaks(number) {
                    session.beat(now, None);
                }
            }
            self.nominated += self.bench.pass(now).nominated;
            self.convict();
        }
    }

    /// What the lane does with nominations.
    fn convict(&self) {
        for session in &self.sessions {
            if session.nominated().is_some() {
                let silent = CloseReason::MissedHeartbeats;
                self.registry.end(session, silent, "silent", None);
            }
        }
    }

    fn verdicts(&self, verdict: Verdict) -> usize {
        let agents = self.registry.agents();
        agents
            .iter()
            .filter(|a| a.watch().verdict == verdict)
            .count()
    }

    /// Silences that were told since the last call.
    fn silences(&self) -> usize {
        let agents = self.registry.agents();
        let entries = agents.iter().flat_map(|agent| agent.take_journal());
        entries
            .filter(|entry| matches!(entry.what, Transition::Silence(_)))
            .count()
    }

    fn kinds(&self) -> Vec<Kind> {
        let open = self.registry.incidents().open();
        open.iter().map(|incident| incident.kind).collect()
    }
}

fn join(registry: &Registry, number: u8, group: &str) -> Arc<Session> {
    let opening = opening_of(number, group);
    registry.open(opening).unwrap().session
}

fn opening_of(number: u8, group: &str) -> Opening {
    Opening {
        facts: Facts {
            group: group.to_owned(),
            address: format!("192.0.2.{number}:7"),
            ..Facts::default()
        },
        ..Opening::trial([number; 16])
    }
}

/// HARD-CASES A3: the hold, its bound, what is said after it, and how it ends.
#[test]
fn a_server_that_hears_nobody_holds_its_verdicts_and_then_says_that_it_does_not_know() {
    let mut fleet = Fleet::of(&[("edge", 60)]);
    fleet.live(100, |_| true);
    fleet.live(80, |_| false);
    assert_eq!((fleet.nominated, fleet.verdicts(Verdict::Suspect)), (0, 60));
    assert_eq!(fleet.kinds(), [Kind::MassSilence]);
    assert!(fleet.registry.held_since().is_some());
    fleet.live(50, |_| false);
    assert_eq!(fleet.verdicts(Verdict::Unknown), 60, "past max(D, 30 s)");
    assert_eq!(
        (fleet.nominated, fleet.kinds()),
        (0, vec![Kind::MassSilence])
    );

    let back = join(&fleet.registry, 200, "edge");
    fleet.sessions.push(back);
    fleet.live(2, |number| number == 60);
    assert_eq!(fleet.registry.held_since(), None);
    assert_eq!(
        fleet.kinds(),
        [Kind::VerdictsLate],
        "the mass silence is over"
    );
    fleet.live(50, |number| number == 60);
    assert_eq!(fleet.nominated, 0, "the tail of the silence has its grace");
    fleet.live(20, |number| number == 60);
    assert_eq!(fleet.nominated, 60, "silent for good");
}

/// HARD-CASES A3, field report D03: who comes back during the hold was never offline.
#[test]
fn a_fleet_that_comes_back_during_the_hold_was_never_offline() {
    let mut fleet = Fleet::of(&[("edge", 60)]);
    fleet.live(100, |_| true);
    fleet.live(80, |_| false);
    fleet.live(40, |number| number < 50);
    assert_eq!((fleet.verdicts(Verdict::Online), fleet.nominated), (50, 0));
    assert!(!fleet.kinds().contains(&Kind::MassSilence));
    fleet.live(70, |number| number < 50);
    assert_eq!(fleet.nominated, 10, "the others after their grace");
}

/// HARD-CASES A2, E4: a silence for which verdicts were held says nothing about the agents; that of one agent,
/// while the others speak, does.
#[test]
fn silences_that_verdicts_were_held_for_are_not_recorded() {
    let mut fleet = Fleet::by_hand(&[("edge", 60)]);
    fleet.live(100, |_| true);
    fleet.live(45, |number| number > 0);
    fleet.live(25, |_| true);
    assert_eq!(fleet.silences(), 1, "of the one that was silent alone");
    fleet.live(80, |_| false);
    assert!(fleet.registry.held_since().is_some());
    fleet.live(40, |_| true);
    assert_eq!(fleet.verdicts(Verdict::Online), 60);
    assert_eq!(fleet.silences(), 0, "of those that the server did not hear");
    fleet.live(80, |number| number < 5);
    assert!(fleet.registry.held_since().is_some());
    fleet.live(40, |_| true);
    assert_eq!(fleet.verdicts(Verdict::Online), 60);
    assert_eq!(fleet.silences(), 0, "of those that it heard too few of");
}

/// HARD-CASES A2, E4: nor do those of agents that come with a new Hello after it, and have to wait for their turn.
#[test]
fn silences_of_agents_that_are_put_off_after_a_hold_are_not_recorded() {
    let mut fleet = Fleet::by_hand(&[("edge", 60)]);
    fleet.live(100, |_| true);
    fleet.live(80, |_| false);
    assert!(fleet.registry.held_since().is_some());
    fleet.silences();
    let again = |fleet: &Fleet, number: u8| {
        let opening = Opening {
            fence: Fence {
                incarnation: 1,
                connection: 2 + fleet.second,
            },
            ..opening_of(number, "edge")
        };
        fleet.registry.open(opening).is_ok()
    };
    assert!(
        (51..=60).all(|number| again(&fleet, number)),
        "during the hold"
    );
    // These take the other places of this second, and are heard.
    for number in 101..=150 {
        let first = join(&fleet.registry, number, "edge");
        first.heard(fleet.now(), Heard::Hello);
    }
    assert!((1..=30).all(|number| !again(&fleet, number)), "put off");
    fleet.live(1, |_| false);
    assert!((31..=50).all(|number| again(&fleet, number)), "after it");
    assert!((1..=30).all(|number| again(&fleet, number)), "seated later");
    assert_eq!(fleet.silences(), 0);
}

/// HARD-CASES A3: the silence of one group is told once, and judged in time because others are heard.
#[test]
fn the_silence_of_a_group_is_one_incident_and_its_verdicts_are_in_time() {
    let mut fleet = Fleet::of(&[("edge", 60), ("core", 60)]);
    fleet.live(100, |_| true);
    fleet.live(85, |number| number >= 60);
    assert_eq!(fleet.nominated, 60);
    assert_eq!(fleet.kinds(), [Kind::GroupSilence]);
    assert_eq!(fleet.registry.held_since(), None);
}

/// HARD-CASES A3, field report D06: what most of the fleet does is told once, and ends by itself when
/// those that are gone are owed no more.
#[test]
fn the_loss_of_most_is_one_incident_that_ends_by_itself() {
    let mut fleet = Fleet::of(&[("edge", 100), ("core", 100)]);
    fleet.live(100, |_| true);
    fleet.live(70, |number| number % 5 < 2);
    assert_eq!(fleet.kinds(), [Kind::PartialSilence]);
    fleet.live(20, |number| number % 5 < 2);
    assert_eq!(fleet.nominated, 120);
    fleet.live(60, |number| number % 5 < 2);
    assert_eq!(fleet.kinds(), []);
}

/// HARD-CASES A3, A6: a server that starts into a broken network hears nobody, and calls nobody offline before
/// it heard somebody and gave the others their time.
#[test]
fn a_server_that_heard_nobody_since_its_start_calls_nobody_offline() {
    let mut fleet = Fleet::of(&[]);
    let restored = |fleet: &Fleet| {
        for number in 1..=30 {
            let known = Known {
                id: Uuid::from_bytes([number; 16]),
                facts: Facts::default(),
                fence: Fence {
                    incarnation: 1,
                    connection: 1,
                },
                verdict: Verdict::Online,
                since: time::OffsetDateTime::UNIX_EPOCH,
                last_seen: None,
                applied: None,
                refused: None,
            };
            let decide_at = fleet.now() + Duration::from_mins(1);
            fleet.registry.restore(known, decide_at);
        }
    };
    restored(&fleet);
    fleet.live(600, |_| false);
    assert_eq!(fleet.verdicts(Verdict::Unknown), 30);
    assert_eq!(fleet.kinds(), [Kind::MassSilence]);
    let back = join(&fleet.registry, 200, "edge");
    back.heard(fleet.now(), Heard::Hello);
    fleet.sessions.push(back);
    fleet.live(100, |_| true);
    assert_eq!(fleet.kinds(), []);
    assert_eq!(fleet.verdicts(Verdict::Unknown), 30, "the longest retry");
    fleet.live(100, |_| true);
    assert_eq!(fleet.verdicts(Verdict::Offline), 30);
}

/// HARD-CASES A3: small fleets are never held.
#[test]
fn nine_agents_are_too_few_to_doubt_the_server() {
    let mut fleet = Fleet::of(&[("edge", 9)]);
    fleet.live(100, |_| true);
    fleet.live(85, |_| false);
    assert_eq!(fleet.nominated, 9);
}

/// Field report D19: who left may well be back, as long as the server cannot show that it hears.
#[test]
fn nobody_is_overdue_before_the_server_hears_again() {
    let mut fleet = Fleet::of(&[("edge", 60)]);
    fleet.live(100, |_| true);
    let left = Arc::clone(&fleet.sessions[0]);
    let within = fleet.now().since(fleet.registry.clock().now()) + Duration::from_secs(80);
    fleet.registry.leave(&left, "an update", Some(within));
    let overdue = |fleet: &Fleet| {
        let clock = fleet.registry.clock();
        let view = left.agent.view(clock.now(), clock.wall());
        view.because.starts_with("overdue")
    };
    fleet.live(100, |_| false);
    assert_eq!(fleet.kinds(), [Kind::MassSilence]);
    assert!(!overdue(&fleet), "20 s past what it told");
    fleet.live(40, |number| number > 0);
    assert!(!overdue(&fleet), "it has the time of a grace");
    fleet.live(60, |number| number > 0);
    assert!(overdue(&fleet));
}

/// Invariant 6: agents whose connections broke before they could be silent are missed as one.
#[test]
fn the_loss_of_all_connections_of_a_group_is_one_incident() {
    let mut fleet = Fleet::of(&[("edge", 60), ("core", 180)]);
    fleet.live(100, |_| true);
    for session in &fleet.sessions[..60] {
        let broke = CloseReason::TransportError;
        fleet.registry.end(session, broke, "broke", None);
    }
    fleet.live(50, |number| number >= 60);
    assert_eq!(fleet.kinds(), [Kind::GroupSilence]);
    fleet.live(20, |number| number >= 60);
    assert_eq!(fleet.verdicts(Verdict::Offline), 60);
    assert_eq!(fleet.kinds(), [Kind::GroupSilence]);
    fleet.live(45, |number| number >= 60);
    assert_eq!(fleet.kinds(), []);
}

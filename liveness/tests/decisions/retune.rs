use fleetbeat_liveness::retune::{Answer, Effect, Outcome, Retune};
use fleetbeat_liveness::{Expectation, Revised, Tuning};
use proptest::prelude::*;

use crate::given::{any_tuning, secs, tuning};

fn revised(revision: u64, tuning: Tuning) -> Revised {
    Revised { revision, tuning }
}

fn applied(push: Revised) -> Answer {
    let outcome = Outcome::Applied;
    Answer {
        revision: push.revision,
        hash: push.hash(),
        outcome,
        in_force: Some(push),
    }
}

fn refused(push: Revised, in_force: Option<Revised>) -> Answer {
    let outcome = Outcome::Refused;
    Answer {
        revision: push.revision,
        hash: push.hash(),
        outcome,
        in_force,
    }
}

/// C1: the schedule of an aborted rollout. A agreed; B pushed and delivered; C pushed before B's ack
/// arrives, and held up: the agent runs B, which must be tolerated until C is answered.
#[test]
fn a_third_tuning_in_flight_convicts_nobody() {
    let (a, b, c) = (tuning(2, 3, 1), tuning(60, 3, 1), tuning(3, 3, 1));
    let (b, c) = (revised(2, b), revised(3, c));
    let mut retune = Retune::new(revised(1, a));
    retune.push(b);
    retune.push(c);
    assert_eq!(retune.answer(applied(b)), Effect::Superseded);
    assert_eq!(retune.expectation().offline_after, secs(181));
    assert_eq!(retune.waiting(), Some(&c));

    let expectation = c.tuning.expectation();
    assert_eq!(retune.answer(applied(c)), Effect::Settled { expectation });
    assert_eq!(retune.expectation(), expectation);
    assert_eq!((retune.applied(), retune.waiting()), (&c, None));
}

#[test]
fn a_push_is_tolerated_before_it_can_be_seen() {
    let mut retune = Retune::new(revised(1, tuning(60, 1, 5)));
    let raised = retune.push(revised(2, tuning(20, 5, 2)));
    assert_eq!(
        (raised.suspect_after, raised.offline_after),
        (secs(65), secs(102))
    );
    assert_eq!(retune.expectation(), raised);
}

/// A10: an agent that does not know of the lease yet still gets each answer it waits for.
#[test]
fn pings_are_answered_as_often_as_the_least_patient_candidate_needs() {
    let lease =
        |pong_every| Tuning::new(secs(20), 3, secs(2), pong_every).expect("within the bounds");
    let mut retune = Retune::new(revised(1, lease(5)));
    retune.push(revised(2, lease(2)));
    let newest = revised(3, lease(10));
    retune.push(newest);
    assert_eq!(retune.pong_every(), 2);
    retune.answer(applied(newest));
    assert_eq!(retune.pong_every(), 10);
}

#[test]
fn after_a_refusal_what_the_agent_runs_counts() {
    let (a, b, c) = (tuning(2, 3, 1), tuning(60, 3, 1), tuning(3, 3, 1));
    let (a, b, c) = (revised(1, a), revised(2, b), revised(3, c));
    let mut retune = Retune::new(a);
    retune.push(b);
    retune.push(c);
    let expectation = b.tuning.expectation();
    assert_eq!(
        retune.answer(refused(c, Some(b))),
        Effect::Settled { expectation }
    );
    assert_eq!((retune.applied(), retune.waiting()), (&b, None));
}

#[test]
fn a_refusal_that_does_not_say_what_runs_lowers_nothing() {
    let (a, b) = (revised(1, tuning(60, 3, 1)), revised(2, tuning(3, 3, 1)));
    let mut retune = Retune::new(a);
    let expectation = retune.push(b);
    assert_eq!(
        retune.answer(refused(b, None)),
        Effect::Settled { expectation }
    );
    assert_eq!((retune.applied(), retune.waiting()), (&a, None));
}

#[test]
fn answers_to_nothing_change_nothing() {
    let a = revised(1, tuning(20, 3, 2));
    let b = revised(2, tuning(60, 3, 2));
    let mut retune = Retune::new(a);
    assert_eq!(retune.answer(applied(a)), Effect::Unknown);
    let raised = retune.push(b);
    assert_eq!(
        retune.answer(applied(revised(7, tuning(3, 3, 1)))),
        Effect::Unknown
    );
    assert_eq!(retune.expectation(), raised);
    assert_eq!(retune.waiting(), Some(&b));
}

#[test]
fn a_repeated_answer_is_counted_once() {
    let b = revised(2, tuning(60, 3, 2));
    let mut retune = Retune::new(revised(1, tuning(20, 3, 2)));
    retune.push(b);
    assert!(matches!(retune.answer(applied(b)), Effect::Settled { .. }));
    assert_eq!(retune.answer(applied(b)), Effect::Superseded);
}

#[test]
fn the_same_values_under_an_older_revision_answer_the_older_push() {
    let (older, newer) = (revised(2, tuning(60, 3, 2)), revised(3, tuning(60, 3, 2)));
    let mut retune = Retune::new(revised(1, tuning(20, 3, 2)));
    retune.push(older);
    retune.push(newer);
    assert_eq!(retune.answer(applied(older)), Effect::Superseded);
    assert_eq!(retune.waiting(), Some(&newer));
}

/// C3: an equal revision with other values is another push; the stream orders them.
#[test]
fn the_same_revision_with_other_values_is_another_push() {
    let (old, new) = (revised(2, tuning(60, 3, 2)), revised(2, tuning(3, 3, 1)));
    let mut retune = Retune::new(revised(1, tuning(20, 3, 2)));
    retune.push(old);
    retune.push(new);
    assert_eq!(retune.answer(applied(old)), Effect::Superseded);
    assert_eq!(retune.waiting(), Some(&new));
    assert!(matches!(
        retune.answer(applied(new)),
        Effect::Settled { .. }
    ));
}

/// What may happen between a server and an agent. Indices pick among what is under way.
#[derive(Debug, Clone)]
enum Happens {
    Push(Tuning),
    /// A push under way reaches the agent, in any order; it may stay under way and arrive again.
    Arrive {
        which: usize,
        refuse: bool,
        again: bool,
    },
    /// An answer under way reaches the server, likewise.
    Answer {
        which: usize,
        again: bool,
    },
    LosePush(usize),
    LoseAnswer(usize),
}

fn happenings() -> impl Strategy<Value = Vec<Happens>> {
    let which = || 0..8_usize;
    let happens = prop_oneof![
        3 => any_tuning().prop_map(Happens::Push),
        4 => (which(), prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(which, refuse, again)| Happens::Arrive { which, refuse, again }),
        3 => (which(), any::<bool>()).prop_map(|(which, again)| Happens::Answer { which, again }),
        1 => which().prop_map(Happens::LosePush),
        1 => which().prop_map(Happens::LoseAnswer),
    ];
    prop::collection::vec(happens, 1..60)
}

/// An agent that keeps its promise: having received a push, it ignores every older one and answers the
/// same one the same way.
struct Agent {
    seen: u64,
    answered: Option<Answer>,
    runs: Revised,
}

impl Agent {
    fn receive(&mut self, push: Revised, refuse: bool) -> Option<Answer> {
        if push.revision < self.seen {
            return None;
        }
        if push.revision > self.seen {
            self.seen = push.revision;
            self.runs = if refuse { self.runs } else { push };
            let answer = if refuse {
                refused(push, Some(self.runs))
            } else {
                applied(push)
            };
            self.answered = Some(answer);
        }
        self.answered
    }
}

/// Keeps every tuning that was sent, where the real one keeps a maximum.
struct Naive {
    settled: Revised,
    sent: Vec<Revised>,
    newest: Option<Revised>,
}

impl Naive {
    fn answer(&mut self, answer: Answer) {
        if self
            .newest
            .is_some_and(|newest| newest.revision == answer.revision)
        {
            self.settled = answer.in_force.expect("the agent always says");
            self.newest = None;
            self.sent.clear();
        }
    }

    fn expectation(&self) -> Expectation {
        let sent = self.sent.iter().map(|push| push.tuning.expectation());
        sent.fold(
            self.settled.tuning.expectation(),
            Expectation::component_max,
        )
    }

    fn pong_every(&self) -> u32 {
        let sent = self.sent.iter().map(|push| push.tuning.pong_every());
        sent.fold(self.settled.tuning.pong_every(), u32::min)
    }
}

fn take<T: Copy>(under_way: &mut Vec<T>, which: usize, keep: bool) -> Option<T> {
    let at = which.checked_rem(under_way.len())?;
    Some(if keep {
        under_way[at]
    } else {
        under_way.swap_remove(at)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// C1, invariant 10: no order of loss, delay, duplication or reordering, with any number of tunings
    /// in flight, makes the server expect more than what the agent runs promises.
    #[test]
    fn no_schedule_makes_the_server_less_patient_than_the_agent_needs(
        first in any_tuning(),
        happenings in happenings(),
    ) {
        let first = revised(1, first);
        let mut retune = Retune::new(first);
        let mut naive = Naive { settled: first, sent: Vec::new(), newest: None };
        let mut agent = Agent { seen: 1, answered: None, runs: first };
        let mut revision = 1;
        let (mut pushes, mut answers) = (Vec::new(), Vec::new());
        for happens in happenings {
            match happens {
                Happens::Push(tuning) => {
                    revision += 1;
                    let push = revised(revision, tuning);
                    retune.push(push);
                    naive.sent.push(push);
                    naive.newest = Some(push);
                    pushes.push(push);
                }
                Happens::Arrive { which, refuse, again } => {
                    let push = take(&mut pushes, which, again);
                    answers.extend(push.and_then(|push| agent.receive(push, refuse)));
                }
                Happens::Answer { which, again } => {
                    if let Some(answer) = take(&mut answers, which, again) {
                        retune.answer(answer);
                        naive.answer(answer);
                    }
                }
                Happens::LosePush(which) => { take(&mut pushes, which, false); }
                Happens::LoseAnswer(which) => { take(&mut answers, which, false); }
            }
            let expects = retune.expectation();
            let needs = agent.runs.tuning.expectation();
            prop_assert_eq!(expects, expects.component_max(needs));
            prop_assert!(retune.pong_every() <= agent.runs.tuning.pong_every());
            prop_assert_eq!(expects, naive.expectation());
            prop_assert_eq!(retune.pong_every(), naive.pong_every());
            prop_assert_eq!(*retune.applied(), naive.settled);
            prop_assert_eq!(retune.waiting().copied(), naive.newest);
        }
    }
}

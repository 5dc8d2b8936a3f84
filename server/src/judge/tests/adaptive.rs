//! Silence under adaptive tunings: HARD-CASES A11.

use std::task::{Context, Poll, Waker};

use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::grounds::Heard;
use fleetbeat_proto::v1::from_server::Message;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

impl Trial {
    /// An agent of D = 62 s in adaptive mode that has beaten 20 times with this round trip.
    fn adaptive(trip: Duration) -> Self {
        let tuning = Tuning::default().with_adaptive(true).unwrap();
        let registry = Arc::new(Registry::new(Clock::start(), 2, Rates::default()));
        let applied = Revised {
            revision: 0,
            tuning,
        };
        let session = open(&registry, 1, Some(applied));
        for _ in 0..20 {
            session.beat(session.last_heard(), Some(trip));
        }
        let bench = Bench::new(Arc::clone(&registry));
        Self {
            registry,
            bench,
            session,
        }
    }

    /// Looks after this silence; returns whether a CHECK went and whether it was nominated.
    fn look(&mut self, silence: Duration) -> (bool, bool) {
        let now = self.later(silence);
        self.tick(&[0, 1], now);
        let nominated = self.bench.pass(now).nominated > 0;
        (self.checked(), nominated)
    }

    fn checked(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let mut checked = false;
        while let Poll::Ready(Some(sent)) =
            self.session
                .outbox
                .poll_next(&mut cx, Moment::default, |_| ())
        {
            checked |= matches!(sent.message, Some(Message::Check(_)));
        }
        checked
    }
}

#[test]
fn a_silent_agent_is_asked_at_the_first_lapse_and_nominated_at_the_second() {
    let mut trial = Trial::adaptive(5 * SECOND);
    assert_eq!(trial.look(21 * SECOND), (false, false));
    assert_eq!(trial.look(23 * SECOND), (true, false), "suspect");
    assert_eq!(trial.verdict(), Verdict::Suspect);
    assert_eq!(trial.look(61 * SECOND), (false, false));
    assert_eq!(trial.look(63 * SECOND), (true, false), "J = D = 62 s");
    assert_eq!(trial.look(81 * SECOND), (false, false));
    assert_eq!(trial.look(83 * SECOND), (false, true), "J + 4·P = 82 s");
}

#[test]
fn no_silence_outlasts_twice_the_deadline() {
    let mut trial = Trial::adaptive(40 * SECOND);
    assert_eq!(trial.look(23 * SECOND), (true, false));
    assert_eq!(trial.look(123 * SECOND), (false, false));
    assert_eq!(trial.look(125 * SECOND), (false, true), "2·D = 124 s");
}

/// An answer at the second lapse saves the session as one at D does.
#[test]
fn an_agent_that_answers_between_the_lapses_is_online() {
    let mut trial = Trial::adaptive(5 * SECOND);
    trial.look(23 * SECOND);
    assert_eq!(trial.look(63 * SECOND), (true, false));
    let answered = trial.later(70 * SECOND);
    if trial.session.heard(answered, Heard::CheckReply) {
        trial.registry.heard_again(&trial.session, None);
    }
    assert_eq!(trial.verdict(), Verdict::Online);
    assert_eq!(trial.look(20 * SECOND), (false, false));
}

/// A5: the session of an agent on a slow path broke; it has as long to come back.
#[test]
fn an_agent_whose_session_broke_has_the_patience_that_its_round_trips_asked_for() {
    let mut trial = Trial::adaptive(5 * SECOND);
    let broke = CloseReason::TransportError;
    trial.registry.end(&trial.session, broke, "broke", None);
    for (silence, verdict) in [(81, Verdict::Suspect), (83, Verdict::Offline)] {
        let now = trial.later(SECOND * silence);
        trial.tick(&[0, 1], now);
        trial.bench.pass(now);
        assert_eq!(trial.verdict(), verdict, "after {silence} s");
    }
}

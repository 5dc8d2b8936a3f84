use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::fence::{Fence, InstanceId};
use fleetbeat_liveness::moment::Moment;
use fleetbeat_proto::v1::CloseReason;
use uuid::Uuid;

use crate::clock::{Clock, Hands};
use crate::registry::{Opening, Quieted, Rates, Registry, Session, Transition};

/// A registry on the default tuning: T + W = 22 s, D = 62 s.
struct Trial {
    hands: &'static Hands,
    registry: Registry,
    second: u64,
}

impl Trial {
    fn begin(admission_per_s: u64) -> Self {
        let hands: &'static Hands = Box::leak(Box::default());
        let rates = Rates {
            admission_per_s,
            ..Rates::default()
        };
        let registry = Registry::new(Clock::by_hand(hands), 1, rates);
        let mut trial = Self {
            hands,
            registry,
            second: 0,
        };
        trial.later(100);
        trial
    }

    fn later(&mut self, seconds: u64) {
        self.second += seconds;
        let now = Moment::ZERO + Duration::from_secs(self.second);
        self.hands.set(now);
        let wall = i64::try_from(self.second).unwrap();
        self.hands.set_wall(wall * 1_000_000);
        self.registry.lanes()[0].ticked(now, now);
    }

    /// Agent `n` says Hello; `None` when it is put off.
    fn hello(&self, n: u8, instance: u8, connection: u64) -> Option<Arc<Session>> {
        let opening = Opening {
            instance: InstanceId([instance; 16]),
            fence: Fence {
                incarnation: u64::from(instance),
                connection,
            },
            ..Opening::trial([n; 16])
        };
        self.registry
            .open(opening)
            .ok()
            .map(|opened| opened.session)
    }

    /// Silences of agent `n` that were told since the last call: how each ended, and its length in seconds.
    fn silences(&self, n: u8) -> Vec<(Quieted, u64)> {
        let agent = self.registry.get(Uuid::from_bytes([n; 16])).unwrap();
        let told = agent.take_journal().into_iter();
        told.filter_map(|entry| {
            if let Transition::Silence(quiet) = entry.what {
                Some((quiet.ended, quiet.gap.as_secs()))
            } else {
                None
            }
        })
        .collect()
    }
}

/// What agent 1 is recorded with when its session ends for `reason` and it is back 30 s after its last word.
fn back_after(reason: CloseReason) -> Vec<(Quieted, u64)> {
    let mut trial = Trial::begin(1_000);
    let session = trial.hello(1, 1, 1).unwrap();
    trial.later(1);
    trial.registry.end(&session, reason, "", None);
    trial.later(29);
    trial.hello(1, 1, 2).unwrap();
    let told = trial.silences(1);
    told.into_iter()
        .filter(|(ended, _)| *ended != Quieted::Open)
        .collect()
}

/// Hard case E4: who was told to go away, and when to come again, was not silent.
#[test]
fn only_agents_that_were_not_sent_away_are_silent_until_they_return() {
    for reason in [
        CloseReason::MissedHeartbeats,
        CloseReason::TransportError,
        CloseReason::PeerGaveUp,
    ] {
        let told = back_after(reason);
        assert_eq!(told, [(Quieted::Returned, 30)], "{reason:?}");
    }
    for reason in [
        CloseReason::SlowConsumer,
        CloseReason::ProtocolError,
        CloseReason::AuthRevoked,
        CloseReason::ServerDrain,
        CloseReason::Shed,
        CloseReason::Goodbye,
    ] {
        assert_eq!(back_after(reason), [], "{reason:?}");
    }
}

/// Hard case E4: a silence ends at the next Hello, also at one that has to wait for its turn; once.
#[test]
fn silence_ends_with_the_hello_that_is_put_off() {
    for (instance, ended) in [(1, Quieted::Returned), (2, Quieted::Died)] {
        let mut trial = Trial::begin(1);
        let session = trial.hello(1, 1, 1).unwrap();
        trial.later(1);
        let broke = CloseReason::TransportError;
        trial.registry.end(&session, broke, "broke", None);
        trial.later(29);
        while trial
            .hello(2, 1, trial.registry.session_count() + 7)
            .is_some()
        {}
        assert!(trial.hello(1, instance, 2).is_none());
        assert_eq!(trial.silences(1), [(ended, 30)]);
        trial.later(30);
        assert!(trial.hello(1, instance, 3).is_some());
        assert_eq!(trial.silences(1), [], "it was told");
    }
}

/// Hard case E4: a takeover that the server did not see coming ends a silence as well.
#[test]
fn silence_ends_with_the_session_that_takes_over() {
    let mut trial = Trial::begin(1_000);
    let _older = trial.hello(1, 1, 1).unwrap();
    trial.later(30);
    trial.hello(1, 1, 2).unwrap();
    assert_eq!(trial.silences(1), [(Quieted::Returned, 30)]);
    trial.later(30);
    trial.hello(1, 2, 1).unwrap();
    assert_eq!(trial.silences(1), [(Quieted::Died, 30)]);
}

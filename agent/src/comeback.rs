//! When to try again, from how the last attempt or session ended.

use std::time::Duration;

use fleetbeat_liveness::backoff::{Backoff, Params};
use fleetbeat_liveness::fence::Fence;
use fleetbeat_proto::v1::CloseReason;
use rand::Rng;

use crate::session::{Cause, Ending, Told};

/// Somebody else runs with this identity: stay away and leave the operator time to look.
const PARK: (Duration, Duration) = (Duration::from_mins(5), Duration::from_secs(390));
/// Whatever a server says, attempts are never closer than this.
const LEAST: Duration = Duration::from_millis(100);

/// What to do before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub wait: Duration,
    /// Take an incarnation above this one first.
    pub above: Option<Fence>,
}

/// The retry state of the agent.
#[derive(Debug)]
pub struct Comeback<R> {
    backoff: Backoff,
    rng: R,
    /// The floor that the attempt under way was raised above.
    raised: Option<Fence>,
}

impl<R: Rng> Comeback<R> {
    pub fn new(rng: R) -> Self {
        Self {
            backoff: Backoff::new(Params::default()),
            rng,
            raised: None,
        }
    }

    /// No stream came about.
    pub fn after_failure(&mut self) -> Duration {
        self.backoff.connect_failed(&mut self.rng)
    }

    /// The server counts as unavailable and is only probed.
    pub fn probing(&self) -> bool {
        self.backoff.breaker_open()
    }

    /// A stream ended, with or without a session on it.
    pub fn after(&mut self, ending: &Ending) -> Plan {
        let raised = self.raised.take();
        if let Cause::Told(told) = ending.cause
            && let Some(floor) = told.floor
            && !told.floor_beyond_reach()
            && raised.is_none_or(|raised| floor > raised)
        {
            self.raised = Some(floor);
            return Plan {
                wait: raised.map_or(Duration::ZERO, |_| self.growing(Duration::ZERO)),
                above: Some(floor),
            };
        }
        let wait = match ending.cause {
            Cause::Told(told) => self.after_bye(told, ending),
            // However long it lasted: the next one would end the same way.
            Cause::Calmed => self.growing(ending.spread),
            Cause::ServerSilent
            | Cause::Broken
            | Cause::Unanswered
            | Cause::Slept
            | Cause::Goodbye => self.after_loss(ending),
        };
        Plan { wait, above: None }
    }

    fn after_loss(&mut self, ending: &Ending) -> Duration {
        match ending.lived {
            Some(lived) => self
                .backoff
                .session_lost(ending.spread, lived, &mut self.rng),
            None => self.after_failure(),
        }
    }

    fn growing(&mut self, spread: Duration) -> Duration {
        self.backoff
            .session_lost(spread, Duration::ZERO, &mut self.rng)
    }

    fn after_bye(&mut self, told: Told, ending: &Ending) -> Duration {
        if ending
            .lived
            .is_some_and(|lived| lived >= self.backoff.params().stable_after)
        {
            self.backoff.stable();
        }
        let reason = if told.floor_beyond_reach() {
            CloseReason::Superseded
        } else {
            told.reason
        };
        match (reason, told.window) {
            (CloseReason::Superseded | CloseReason::DuplicateIdentity, window) => {
                let (least, most) = window.unwrap_or(PARK);
                let window = (least.max(PARK.0), most.max(PARK.1));
                self.backoff.told(window, &mut self.rng)
            }
            (CloseReason::ProtocolError | CloseReason::AuthRevoked, _) => {
                self.backoff.at_cap(&mut self.rng)
            }
            (CloseReason::SlowConsumer, _) => self.growing(Duration::ZERO),
            (
                CloseReason::Unspecified
                | CloseReason::Goodbye
                | CloseReason::MissedHeartbeats
                | CloseReason::TransportError
                | CloseReason::PeerGaveUp
                | CloseReason::ServerDrain
                | CloseReason::Shed
                | CloseReason::ServerLost,
                Some(window),
            ) => self.backoff.told(window, &mut self.rng).max(LEAST),
            (
                CloseReason::Unspecified
                | CloseReason::Goodbye
                | CloseReason::MissedHeartbeats
                | CloseReason::TransportError
                | CloseReason::PeerGaveUp
                | CloseReason::ServerDrain
                | CloseReason::Shed
                | CloseReason::ServerLost,
                None,
            ) => self.after_loss(ending),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fleetbeat_liveness::fence::Fence;
    use fleetbeat_proto::v1::CloseReason;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::{Cause, Comeback, Ending, LEAST, Plan, Told};

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_mins(1);

    fn comeback(seed: u64) -> Comeback<StdRng> {
        Comeback::new(StdRng::seed_from_u64(seed))
    }

    fn ending(cause: Cause, lived: Option<Duration>) -> Ending {
        Ending {
            cause,
            paused: None,
            detail: String::new(),
            lived,
            spread: Duration::from_secs(8),
        }
    }

    fn bye(reason: CloseReason, window: Option<(Duration, Duration)>) -> Ending {
        let told = Told {
            reason,
            window,
            floor: None,
        };
        ending(Cause::Told(told), Some(MINUTE * 10))
    }

    #[track_caller]
    fn always(ending: &Ending, least: Duration, most: Duration) {
        for seed in 0..200 {
            let plan = comeback(seed).after(ending);
            assert!((least..=most).contains(&plan.wait), "{ending:?}: {plan:?}");
            assert_eq!(plan.above, None);
        }
    }

    #[test]
    fn a_lost_session_returns_within_the_spread_that_welcome_told() {
        for cause in [Cause::Broken, Cause::ServerSilent, Cause::Slept] {
            always(
                &ending(cause, Some(MINUTE * 10)),
                Duration::ZERO,
                SECOND * 8,
            );
        }
    }

    #[test]
    fn each_bye_is_obeyed_as_the_contract_says() {
        let window = Some((SECOND * 40, SECOND * 50));
        for reason in [
            CloseReason::ServerDrain,
            CloseReason::Shed,
            CloseReason::MissedHeartbeats,
        ] {
            always(&bye(reason, window), SECOND * 40, SECOND * 50);
            always(&bye(reason, None), Duration::ZERO, SECOND * 8);
        }
        for reason in [CloseReason::ProtocolError, CloseReason::AuthRevoked] {
            always(&bye(reason, window), SECOND * 21, SECOND * 39);
        }
        for reason in [CloseReason::Superseded, CloseReason::DuplicateIdentity] {
            always(&bye(reason, None), MINUTE * 5, MINUTE * 7);
            always(&bye(reason, window), MINUTE * 5, MINUTE * 7);
            let longer = Some((MINUTE * 20, MINUTE * 21));
            always(&bye(reason, longer), MINUTE * 20, MINUTE * 21);
        }
        always(
            &bye(CloseReason::SlowConsumer, window),
            SECOND * 7 / 10,
            SECOND * 13 / 10,
        );
    }

    #[test]
    fn a_slow_consumer_backs_off_exponentially() {
        let mut comeback = comeback(1);
        let slow = ending(
            Cause::Told(Told {
                reason: CloseReason::SlowConsumer,
                window: None,
                floor: None,
            }),
            Some(SECOND),
        );
        let waits: Vec<_> = (0..8).map(|_| comeback.after(&slow).wait).collect();
        assert!(waits[7] >= SECOND * 21, "{waits:?}");
    }

    /// Field report A10: also after sessions that lasted, and never more than one attempt a second.
    #[test]
    fn an_agent_whose_heartbeats_are_rejected_backs_off_and_hammers_nobody() {
        for seed in 0..200 {
            let mut comeback = comeback(seed);
            let calmed = ending(Cause::Calmed, Some(MINUTE * 10));
            for base in [1, 2, 4, 8, 16, 30, 30] {
                let wait = comeback.after(&calmed).wait;
                let most = (SECOND * base * 13 / 10).max(calmed.spread);
                let expected = SECOND * base * 7 / 10..=most;
                assert!(expected.contains(&wait), "{base} s: {wait:?}");
            }
        }
    }

    /// Hard case A7, field report A10: one proxy can reject the heartbeats of a whole fleet at once.
    #[test]
    fn a_fleet_whose_heartbeats_are_rejected_returns_over_the_spread() {
        let calmed = ending(Cause::Calmed, Some(MINUTE * 10));
        let waits = (0..1_000).map(|seed| comeback(seed).after(&calmed).wait);
        let early = waits.filter(|wait| *wait < SECOND * 2).count();
        assert!((150..350).contains(&early), "{early} of 1000 in 2 s of 8");
    }

    #[test]
    fn no_window_of_a_server_makes_a_tight_loop_or_an_exile() {
        let now = Some((Duration::ZERO, Duration::ZERO));
        always(&bye(CloseReason::Shed, now), LEAST, LEAST);
        let never = Some((Duration::MAX, Duration::MAX));
        always(&bye(CloseReason::Shed, never), LEAST, MINUTE * 60);
    }

    /// A server that knows a later incarnation than the agent's.
    fn stale(incarnation: u64) -> (Ending, Fence) {
        let floor = Fence {
            incarnation,
            connection: 3,
        };
        let told = Told {
            reason: CloseReason::Superseded,
            window: None,
            floor: Some(floor),
        };
        (ending(Cause::Told(told), None), floor)
    }

    #[test]
    fn a_stale_fence_is_raised_once_and_at_once() {
        let (stale, floor) = stale(40);
        let mut comeback = comeback(1);
        let once = Plan {
            wait: Duration::ZERO,
            above: Some(floor),
        };
        assert_eq!(comeback.after(&stale), once);
        assert!(comeback.after(&stale).wait >= MINUTE * 5);
        assert_eq!(comeback.after(&stale), once);
    }

    /// Hard case D1: each server knows another floor of an agent whose host came back from a snapshot.
    #[test]
    fn a_floor_above_the_one_passed_is_passed_too_after_growing_waits() {
        let mut comeback = comeback(1);
        for (incarnation, base) in [(40, 0), (45, 1), (47, 2)] {
            let (stale, floor) = stale(incarnation);
            let plan = comeback.after(&stale);
            let expected = SECOND * base * 7 / 10..=SECOND * base * 13 / 10;
            assert!(expected.contains(&plan.wait), "{incarnation}: {plan:?}");
            assert_eq!(plan.above, Some(floor));
        }
        let (lower, _) = stale(46);
        assert!(comeback.after(&lower).wait >= MINUTE * 5);
    }

    #[test]
    fn a_floor_that_cannot_be_passed_raises_nothing_and_keeps_the_agent_away() {
        let most = i64::MAX.unsigned_abs();
        for incarnation in [1 << 62, most - 1, most, u64::MAX - 1, u64::MAX] {
            let told = Told {
                reason: CloseReason::Shed,
                window: Some((Duration::ZERO, SECOND)),
                floor: Some(Fence {
                    incarnation,
                    connection: 1,
                }),
            };
            always(&ending(Cause::Told(told), None), MINUTE * 5, MINUTE * 7);
        }
    }

    #[test]
    fn attempts_that_fail_grow_apart_until_they_only_probe() {
        let mut comeback = comeback(7);
        let failed = ending(Cause::Broken, None);
        let first = comeback.after(&failed).wait;
        assert!(
            (SECOND * 7 / 10..=SECOND * 13 / 10).contains(&first),
            "{first:?}"
        );
        for _ in 0..20 {
            assert!(comeback.after_failure() <= MINUTE * 13 / 10);
        }
        assert!(comeback.probing());
        assert!(comeback.after_failure() >= MINUTE * 7 / 10);
    }
}

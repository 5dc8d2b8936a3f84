use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_proto::{free_text, nanos, v1};

use crate::clock::Pause;

/// Fences from this incarnation on are never passed: no number of starts leads there, and a server that
/// records 63 bits still has to have room for every later start.
const BEYOND: u64 = 1 << 62;

/// How a session, or the attempt to open one, ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub cause: Cause,
    /// This process could not run just before.
    pub paused: Option<Pause>,
    /// At most 255 bytes, for people.
    pub detail: String,
    /// Time since Welcome; `None` when there was none.
    pub lived: Option<Duration>,
    /// What Welcome said to spread the return over.
    pub spread: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Nothing arrived from the server for too long.
    ServerSilent,
    /// The stream or its connection broke, or the server broke the contract.
    Broken,
    /// The server, or a proxy before it, took the heartbeats for abuse.
    Calmed,
    /// The server did not welcome this agent in time.
    Unanswered,
    /// The server said Bye.
    Told(Told),
    /// The host was suspended for longer than the server waits.
    Slept,
    /// The agent left by itself.
    Goodbye,
}

/// The server's Bye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    pub reason: v1::CloseReason,
    /// Earliest and latest time for the next attempt, counted from receipt.
    pub window: Option<(Duration, Duration)>,
    /// A fence that this agent has to pass.
    pub floor: Option<Fence>,
}

impl Told {
    pub fn from_wire(bye: &v1::Bye) -> Self {
        let least = bye.retry_after_min_ns.map(Duration::from_nanos);
        let most = bye.retry_after_max_ns.map(Duration::from_nanos);
        Self {
            reason: bye.reason(),
            window: least.or(most).map(|either| {
                let least = least.unwrap_or(Duration::ZERO);
                (least, most.unwrap_or(either).max(least))
            }),
            floor: bye.stale_floor.map(|floor| Fence {
                incarnation: floor.incarnation,
                connection: floor.connection,
            }),
        }
    }

    /// Nothing this agent could take passes the floor: the server's record of it is damaged.
    #[must_use]
    pub fn floor_beyond_reach(&self) -> bool {
        self.floor.is_some_and(|floor| floor.incarnation >= BEYOND)
    }
}

impl Ending {
    /// The account of it for the next Hello, `away` later.
    #[must_use]
    pub fn account(&self, away: Duration) -> v1::LastEnding {
        use v1::last_ending::Cause as Wire;
        let (cause, bye) = match self.cause {
            Cause::ServerSilent => (Wire::ServerSilent, v1::CloseReason::Unspecified),
            Cause::Broken | Cause::Calmed | Cause::Unanswered => {
                (Wire::TransportError, v1::CloseReason::Unspecified)
            }
            Cause::Told(told) => (Wire::Bye, told.reason),
            Cause::Slept => (Wire::Suspend, v1::CloseReason::Unspecified),
            Cause::Goodbye => (Wire::Goodbye, v1::CloseReason::Unspecified),
        };
        let suspended = matches!(self.paused, Some(Pause::Suspended(_))) && self.by_silence();
        let cause = if suspended { Wire::Suspend } else { cause };
        v1::LastEnding {
            cause: cause.into(),
            bye: bye.into(),
            session_age_ns: nanos(self.lived.unwrap_or_default()),
            away_ns: nanos(away),
            detail: self.told(),
        }
    }

    /// Whether a pause of this process explains it.
    fn by_silence(&self) -> bool {
        match self.cause {
            Cause::ServerSilent | Cause::Broken | Cause::Slept => true,
            Cause::Told(told) => told.reason == v1::CloseReason::MissedHeartbeats,
            Cause::Calmed | Cause::Unanswered | Cause::Goodbye => false,
        }
    }

    /// The detail, behind the pause that explains it.
    pub(crate) fn told(&self) -> String {
        match self.paused.filter(|_| self.by_silence()) {
            Some(pause) => free_text(&format!("{pause}: {}", self.detail)),
            None => self.detail.clone(),
        }
    }

    /// The reason as logs carry it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.cause {
            Cause::ServerSilent => "server_silent",
            Cause::Broken => "transport_error",
            Cause::Calmed => "peer_rejected_heartbeats",
            Cause::Unanswered => "no_welcome",
            Cause::Told(told) => told.reason.word(),
            Cause::Slept => "suspend",
            Cause::Goodbye => "goodbye",
        }
    }
}

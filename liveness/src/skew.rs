//! How far an agent's wall clock is from the server's.
//!
//! It is compared once, when Hello arrives, and only to be shown: no deadline reads it. What a Hello
//! took to arrive looks like a clock that is behind, so the time that the server itself may have left it
//! unread is allowed on that side.

use std::fmt;
use std::time::Duration;

use crate::span::Span;

/// A difference up to this is the way of a Hello through a slow network.
pub const TOLERATED: Duration = Duration::from_secs(5);

/// The agent's clock against the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skew {
    Ahead(Duration),
    Behind(Duration),
}

impl Skew {
    /// `None` when the clocks agree as far as anybody can tell. Times are microseconds since the Unix
    /// epoch; `unread` is how long the Hello may have waited on the server.
    #[must_use]
    pub fn of(agent_us: i64, server_us: i64, unread: Duration) -> Option<Self> {
        let apart = Duration::from_micros(agent_us.abs_diff(server_us));
        if agent_us > server_us {
            (apart > TOLERATED).then_some(Self::Ahead(apart))
        } else {
            (apart > TOLERATED.saturating_add(unread)).then_some(Self::Behind(apart))
        }
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ahead(by) => write!(f, "its clock is {} ahead of the server's", Span(*by)),
            Self::Behind(by) => write!(f, "its clock is {} behind the server's", Span(*by)),
        }
    }
}

//! What silence means.

use std::fmt;

use crate::adaptive::Limits;
use crate::moment::Moment;

/// What the server can say about an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    Online,
    /// Silent for `T + W`, or its session ended without Goodbye.
    Suspect,
    /// Silent for D.
    Offline,
    /// Said goodbye.
    Left,
    /// The server was away or deaf, so nobody can say.
    Unknown,
}

impl Verdict {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Suspect => "suspect",
            Self::Offline => "offline",
            Self::Left => "left",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What to do about an agent that was last heard some time ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Heard recently enough; look again then.
    Wait { until: Moment },
    /// Silent for `suspect_after`; look again then.
    Suspect { next: Moment },
    /// Silent for `check_after`, which only adaptive mode tells from the end of patience: suspect, and to
    /// be asked; look again then.
    Check { next: Moment },
    /// Silent for `offline_after`, and no grace is left: nominate it for conviction.
    Convict,
}

/// Judges the silence of one agent. `last_heard` is the receipt of its last valid message on the same
/// clock as `now`. A grace delays conviction, never suspicion.
#[must_use]
pub fn next(now: Moment, last_heard: Moment, limits: &Limits, grace_until: Option<Moment>) -> Next {
    let suspect_at = last_heard + limits.suspect_after;
    let check_at = last_heard + limits.check_after;
    let offline_at = last_heard + limits.offline_after;
    let convict_at = grace_until.map_or(offline_at, |grace| offline_at.max(grace));
    let adaptive = check_at < offline_at;
    if now < suspect_at {
        Next::Wait { until: suspect_at }
    } else if adaptive && now < check_at {
        Next::Suspect { next: check_at }
    } else if now >= convict_at {
        Next::Convict
    } else if adaptive {
        Next::Check { next: convict_at }
    } else {
        Next::Suspect { next: convict_at }
    }
}

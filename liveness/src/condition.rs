//! What is the case with an agent beside its verdict.

use std::fmt;

/// A flag beside the verdict. It begins and ends, and never changes what silence means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// The heartbeat's session lives, the agent does not do all that it should.
    Degraded,
    /// It loses its sessions again and again.
    Flapping,
    /// Two agents run under one identity.
    Duplicate,
    /// Its wall clock differs from the server's.
    ClockSkew,
}

impl Condition {
    pub const ALL: [Self; 4] = [
        Self::Degraded,
        Self::Flapping,
        Self::Duplicate,
        Self::ClockSkew,
    ];

    /// The word of the glossary, as it stands in Postgres, in metrics and on screens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Degraded => "degraded",
            Self::Flapping => "flapping",
            Self::Duplicate => "duplicate",
            Self::ClockSkew => "clock_skew",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

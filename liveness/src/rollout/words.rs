//! What guards found, as people read it.

use std::fmt;
use std::time::Duration;

use super::guard::{Against, Answer, Finding, Guard, Need};
use crate::span::Span;

impl Guard {
    /// `disconnects`, `reconnects`, `rtt`, `refusals`, `unacked`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disconnects => "disconnects",
            Self::Reconnects => "reconnects",
            Self::Rtt => "rtt",
            Self::Refusals => "refusals",
            Self::Unacked => "unacked",
        }
    }

    /// A value of this guard with its unit.
    fn value(self, value: f64) -> String {
        match self {
            Self::Disconnects | Self::Reconnects => format!("{value:.2} per member-hour"),
            Self::Rtt => Span(Duration::try_from_secs_f64(value).unwrap_or_default()).to_string(),
            Self::Refusals | Self::Unacked => format!("{:.1} %", value * 100.0),
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Disconnects => "disconnects",
            Self::Reconnects => "reconnects",
            Self::Rtt => "round trips (p99)",
            Self::Refusals => "refusals",
            Self::Unacked => "members that did not acknowledge or left",
        }
    }
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rest => "of the rest over the same time",
            Self::Before => "of the same members before",
        })
    }
}

/// `disconnects 14.20 per member-hour against 0.10 per member-hour of the rest over the same time`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (guard, what) = (self.guard, self.guard.what());
        match self.answer {
            Answer::Fine => write!(f, "{what} no worse"),
            Answer::Worse { candidate, old } => write!(
                f,
                "{what} {} against {} {}",
                guard.value(candidate),
                guard.value(old),
                self.against
            ),
            Answer::OverLimit { candidate, limit } => write!(
                f,
                "{what} {}, above the limit of {}",
                guard.value(candidate),
                guard.value(limit)
            ),
            Answer::TooLittle(need) => write!(f, "little evidence of {what}, {need}"),
        }
    }
}

/// `it takes 20 members on each side`.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MemberHours(hours) => {
                write!(f, "it takes {hours:.1} member-hours without any event")
            }
            Self::Members(members) => write!(f, "it takes {members} members on each side"),
            Self::Cohort(members) => write!(f, "it takes a cohort of {members} that acknowledge"),
            Self::Time => f.write_str("the time to acknowledge is not over"),
        }
    }
}

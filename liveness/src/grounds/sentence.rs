//! The sentence that grounds make, for a person at three in the morning.

use std::fmt;
use std::time::Duration;

use super::{Grounds, Heard, Silence, Trigger};
use crate::span::Span;

/// Below this the server's own lag is nothing to speak of when others are late.
const LAG_WORTH_TELLING: Duration = Duration::from_millis(50);

impl fmt::Display for Grounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.trigger {
            Trigger::Opened { fence } => write!(f, "session {fence} opened"),
            Trigger::HeardAgain { after } => {
                f.write_str("heard again")?;
                if let Some(silence) = &self.silence {
                    write!(f, ": {}", silence.last)?;
                }
                write!(f, " after {} of silence", Span(*after))
            }
            Trigger::Silent { limit } => {
                self.silent(f, *limit)?;
                self.circumstances(f)
            }
            Trigger::Ended { fence, how } => {
                write!(f, "session {fence} ended: {how}")?;
                self.aside(f)
            }
            Trigger::Left { how, back_within } => {
                write!(f, "said goodbye: {how}")?;
                match back_within {
                    Some(within) => write!(f, ", means to be back within {}", Span(*within)),
                    None => Ok(()),
                }
            }
            Trigger::NotBack { limit, how } => {
                f.write_str("did not come back; ")?;
                self.silent(f, *limit)?;
                write!(f, "; its session had ended: {how}")?;
                self.circumstances(f)
            }
            Trigger::ServerDeaf { stall, how } => {
                write!(f, "the server had been deaf for {}; {how}", Span(*stall))?;
                self.aside(f)
            }
            Trigger::LaneDeaf { lane } => {
                write!(f, "lane {lane} of the server does not read its sockets")?;
                self.aside(f)
            }
            Trigger::ServerAway => f.write_str("the server was away and has not heard of it since"),
            Trigger::AwayTooLong => {
                f.write_str("did not come back after the server had been away")?;
                self.aside(f)
            }
            Trigger::StayedAway { doubt } => {
                write!(
                    f,
                    "did not come back although it had time to; before: {doubt}"
                )?;
                self.aside(f)
            }
            Trigger::Overdue { how, within } => write!(
                f,
                "overdue: said goodbye ({how}), meant to be back within {}, and is not",
                Span(*within)
            ),
            Trigger::Doubt { because } => {
                f.write_str(because)?;
                self.aside(f)
            }
        }
    }
}

impl Grounds {
    fn silent(&self, f: &mut fmt::Formatter<'_>, limit: Duration) -> fmt::Result {
        let Some(silence) = &self.silence else {
            return write!(f, "silent for longer than {}", Span(limit));
        };
        let (last, age, limit) = (silence.last, Span(silence.age), Span(limit));
        write!(f, "last message ({last}) {age} before, deadline {limit}; ")?;
        match silence.missed {
            0 => f.write_str("no heartbeat was due since"),
            1 => f.write_str("1 heartbeat expected, none arrived"),
            missed => write!(f, "{missed} heartbeats expected, none arrived"),
        }
    }

    /// What else was the case when silence was judged.
    fn circumstances(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(silence) = &self.silence {
            silence.evidence(f)?;
            silence.strain(f)?;
        }
        if !self.held.is_zero() {
            write!(f, "; the verdict was held back for {}", Span(self.held))?;
        }
        let late = self.judged_late().unwrap_or_default();
        write!(f, "; server lag {}", Span(self.lane_lag.max(late)))
    }

    /// The last message, where the verdict rests on something else.
    fn aside(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(silence) = &self.silence {
            write!(
                f,
                "; last message ({}) {} before",
                silence.last,
                Span(silence.age)
            )?;
            silence.strain(f)?;
        }
        if self.lane_lag > LAG_WORTH_TELLING {
            write!(f, "; server lag {}", Span(self.lane_lag))?;
        }
        Ok(())
    }
}

impl Silence {
    fn evidence(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.evidence {
            Some(evidence) => write!(f, "; {evidence}"),
            None => Ok(()),
        }
    }

    /// The agent's own account of how it fared.
    fn strain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.agent_lag.is_zero() {
            write!(f, "; it had told a lag of {} itself", Span(self.agent_lag))?;
        }
        match self.agent_queue {
            0 => Ok(()),
            1 => f.write_str("; 1 message waited inside it"),
            waiting => write!(f, "; {waiting} messages waited inside it"),
        }
    }
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hello => f.write_str("Hello"),
            Self::Ping(seq) => write!(f, "PING {seq}"),
            Self::CheckReply => f.write_str("CheckReply"),
            Self::TuningAck => f.write_str("TuningAck"),
            Self::ProbeReport => f.write_str("ProbeReport"),
            Self::Goodbye => f.write_str("Goodbye"),
            Self::Other => f.write_str("a message of a later version"),
        }
    }
}

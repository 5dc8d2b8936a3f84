//! Whether an agent that beats does what it should besides.
//!
//! The beat loop may run while the agent itself is stuck: its own account in PING (lag of its loop,
//! messages that wait inside it) and a push that stays unanswered show that. One bad PING is a busy
//! moment; three in a row are a state, and it ends with three good ones.

use std::time::Duration;

use crate::span::Span;

/// PINGs in a row that begin or end it.
const IN_A_ROW: u8 = 3;
/// Lag of the agent's own loop that is too much.
pub const LAG_MOST: Duration = Duration::from_secs(1);
/// Messages that may wait inside an agent when it makes a PING: the one before it. Agents hold back only
/// the newest of each kind, so that even one that is stuck tells of few.
pub const QUEUE_MOST: u32 = 1;
/// A push is answered at once; one that is not within this time, while beats arrive, is stuck.
pub const ANSWER_WITHIN: Duration = Duration::from_mins(1);

/// The agent's account over its last PINGs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Strain {
    strained: bool,
    /// PINGs in a row that say the opposite.
    against: u8,
}

impl Strain {
    /// Takes the account of one PING. True when that began or ended the strain.
    pub fn beat(&mut self, lag: Duration, queue: u32) -> bool {
        let bad = lag > LAG_MOST || queue > QUEUE_MOST;
        if bad == self.strained {
            self.against = 0;
            return false;
        }
        self.against += 1;
        if self.against < IN_A_ROW {
            return false;
        }
        self.against = 0;
        self.strained = bad;
        true
    }

    #[must_use]
    pub fn strained(&self) -> bool {
        self.strained
    }
}

/// What keeps an agent that beats from being whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Degraded {
    /// No PING for longer than D although other messages arrive: so long.
    pub beatless: Option<Duration>,
    /// Its PINGs tell of too much lag or of messages that wait.
    pub strained: bool,
    /// A push has waited too long for its answer: so long.
    pub unanswered: Option<Duration>,
    /// Its state directory cannot be written.
    pub volatile_state: bool,
}

impl Degraded {
    /// Why it is degraded, `None` when it is not.
    #[must_use]
    pub fn because(&self) -> Option<String> {
        let mut reasons = Vec::new();
        if let Some(age) = self.beatless {
            let age = Span(age);
            reasons.push(format!("no PING for {age} while other messages arrive"));
        }
        if self.strained {
            reasons
                .push("alive, not progressing: its PINGs tell of lag or waiting messages".into());
        }
        if let Some(age) = self.unanswered {
            let age = Span(age);
            reasons.push(format!(
                "alive, not progressing: a tuning has waited {age} for its answer"
            ));
        }
        if self.volatile_state {
            reasons.push("its state directory cannot be written".into());
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

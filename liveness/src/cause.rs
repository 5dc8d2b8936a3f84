//! Why a session was really lost, settled when the agent returns.
//!
//! A close reason says what the server saw; the cause says what happened, from what only the returned
//! agent can show: a new boot, a new process, its own account of the ending, and the ages at which its
//! sessions are cut.

mod ages;

use std::fmt;
use std::time::Duration;

use crate::span::Span;

pub use ages::{Ages, Cut, Pattern};

/// What ended a session that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The process ended without Goodbye and was started again.
    Crash,
    /// The host was booted again.
    HostRestart,
    /// The process lived on: the connection between was lost.
    Path,
    /// The same, again and again at one age: something between has a time-out.
    MiddleboxSuspected,
    /// The host was suspended.
    Suspend,
    Unknown,
}

impl Cause {
    pub const ALL: [Self; 6] = [
        Self::Crash,
        Self::HostRestart,
        Self::Path,
        Self::MiddleboxSuspected,
        Self::Suspend,
        Self::Unknown,
    ];

    /// The word of the glossary.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::HostRestart => "host_restart",
            Self::Path => "path",
            Self::MiddleboxSuspected => "middlebox_suspected",
            Self::Suspend => "suspend",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a lost session ended, as the server saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The stream or its connection broke.
    Broke,
    /// Nothing arrived for D.
    Silent,
    /// The agent said that it gives the server up.
    GaveUp,
    /// A newer session of the agent came before anything was noticed.
    Replaced,
    /// The agent did not read.
    SlowConsumer,
}

/// The agent's own account of the ending, as its next Hello tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Account {
    ServerSilent,
    TransportError,
    /// The server had said Bye.
    Told,
    Suspend,
    Goodbye,
}

/// What is compared when the agent returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Return {
    pub loss: Loss,
    /// Another instance returned: the process was started again. `None` when nobody can tell.
    pub restarted: Option<bool>,
    /// Boot ids of both sessions are known and differ.
    pub booted: bool,
    /// `None` when the agent gave none, as after a restart.
    pub account: Option<Account>,
    /// The server itself had been deaf, so that the agent may have left for that.
    pub server_deaf: bool,
}

/// The cause with the sentence that explains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    pub cause: Cause,
    pub because: String,
}

/// Settles the cause. `ages` holds the endings before, and this one when the path is to blame.
#[must_use]
pub fn settle(back: Return, cut: Cut, ages: &mut Ages) -> Settled {
    let settled = |cause, because: &str| Settled {
        cause,
        because: because.to_owned(),
    };
    if back.booted {
        return settled(Cause::HostRestart, "the host has booted since");
    }
    if back.account == Some(Account::Suspend) {
        return settled(Cause::Suspend, "the host was suspended, says the agent");
    }
    if back.restarted == Some(true) {
        let because = "another process of the agent came back, and the one before said no goodbye";
        return settled(Cause::Crash, because);
    }
    if back.server_deaf {
        let because = "the server itself had been deaf, so the agent is not to blame";
        return settled(Cause::Unknown, because);
    }
    if back.restarted.is_none() {
        return settled(
            Cause::Unknown,
            "nobody knows whether the process is the same",
        );
    }
    if back.loss == Loss::SlowConsumer {
        let because = "the same process came back, which had not read what it was sent";
        return settled(Cause::Unknown, because);
    }
    ages.push(cut);
    match ages.pattern() {
        Some(pattern) => Settled {
            cause: Cause::MiddleboxSuspected,
            because: pattern.to_string(),
        },
        None => settled(Cause::Path, path_because(back)),
    }
}

fn path_because(back: Return) -> &'static str {
    match (back.account, back.loss) {
        (Some(Account::ServerSilent), _) => {
            "the same process came back: it had heard nothing from the server and given it up"
        }
        (Some(Account::TransportError), _) => {
            "the same process came back: the connection broke on its side too"
        }
        (_, Loss::Replaced) => "the same process came back before anything was noticed",
        _ => "the same process came back",
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, about) = (self.count(), Span(self.about()));
        match self {
            Self::Idle { .. } => write!(
                f,
                "{count} sessions were cut after about {about} without a message: something between \
                 has an idle time-out of that length"
            ),
            Self::Age { .. } => write!(
                f,
                "{count} sessions were cut about {about} after they opened: something between \
                 ends connections of that age"
            ),
        }
    }
}

impl Pattern {
    /// How many sessions it rests on.
    #[must_use]
    pub const fn count(&self) -> usize {
        match self {
            Self::Idle { count, .. } | Self::Age { count, .. } => *count,
        }
    }

    /// The likely time-out.
    #[must_use]
    pub const fn about(&self) -> Duration {
        match self {
            Self::Idle { about, .. } | Self::Age { about, .. } => *about,
        }
    }
}

//! What the kernel's acknowledgements say about a silent agent.
//!
//! On one TCP connection the answer to a question waits behind the same lost segment as the heartbeat
//! did, so no answer proves nothing more. The peer's *kernel* however acknowledges what it receives,
//! whatever becomes of the process: fresh acknowledgements mean that the path works and the process is
//! silent; none mean that the path or the host is gone. Through a proxy they are those of the proxy.

use std::fmt;
use std::time::Duration;

use crate::span::Span;

/// The kernel counts in ticks of up to 10 ms, so an acknowledgement may look that much older than it is.
const TICK: Duration = Duration::from_millis(10);

/// What `TCP_INFO` tells of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Time since the peer's kernel acknowledged anything last.
    pub ack_age: Duration,
    /// Segments that wait for an acknowledgement.
    pub unacked: u32,
    /// Retransmissions in a row of the oldest of them.
    pub retransmits: u32,
}

/// Where the fault lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Path {
    /// The peer's kernel acknowledged what it was sent: the path works, the process is silent.
    Works,
    /// It acknowledges nothing: the path or the host is gone.
    Gone,
    /// Nothing was sent that would show.
    Untried,
}

impl Path {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Gone => "gone",
            Self::Untried => "untried",
        }
    }
}

impl Kernel {
    /// Judges the path. `asked` is the time since the agent was last asked for a sign of life, `None`
    /// when it was not asked since its last message.
    #[must_use]
    pub fn path(&self, asked: Option<Duration>) -> Path {
        if asked.is_some_and(|asked| self.ack_age < asked + TICK) {
            Path::Works
        } else if self.unacked > 0 && (asked.is_some() || self.retransmits > 0) {
            Path::Gone
        } else {
            Path::Untried
        }
    }
}

/// What the kernel says, judged; a clause of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    pub kernel: Kernel,
    pub path: Path,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = Span(self.kernel.ack_age);
        match self.path {
            Path::Works => write!(
                f,
                "its kernel acknowledged {age} ago, so the path works and the process is silent"
            ),
            Path::Gone => write!(
                f,
                "the kernel saw no acknowledgement for {age}, so the path or the host is gone"
            ),
            Path::Untried => write!(f, "nothing was sent that would show whether the path works"),
        }
    }
}

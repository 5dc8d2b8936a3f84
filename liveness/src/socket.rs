//! What the kernel is told about one connection, so that it never ends what the judge tolerates.
//!
//! The heartbeat judges; the kernel is the backstop for a connection that nobody closes. Keepalive runs
//! while nothing arrives, `TCP_USER_TIMEOUT` while something was sent that nobody acknowledged, and the
//! second also overrides how many probes the first has.

use std::fmt;
use std::time::Duration;

use crate::expectation::Expectation;
use crate::tuning::Tuning;

/// Longest idle time and gap that Linux takes.
pub const KERNEL_MOST: Duration = Duration::from_secs(32_767);
/// Longest idle time that can be configured; a longer T raises it by itself.
pub const IDLE_MOST: Duration = Duration::from_hours(2);
pub const PROBES_MOST: u32 = 20;

/// TCP keepalive of one socket: the first probe after `idle` without a byte, further ones every `gap`,
/// dead after `probes` of them. Whole seconds, as the kernel counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    idle: Duration,
    gap: Duration,
    probes: u32,
}

/// Options of one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOptions {
    pub keepalive: Keepalive,
    /// `TCP_USER_TIMEOUT`.
    pub user_timeout: Duration,
    /// `keepalive` differs from what was configured, because the tuning in force contradicts that.
    pub adjusted: bool,
}

impl Keepalive {
    /// # Errors
    /// The first bound that is broken. Nothing is clamped.
    pub fn new(idle: Duration, gap: Duration, probes: u32) -> Result<Self, KeepaliveError> {
        let second = Duration::from_secs(1);
        if idle.subsec_nanos() != 0 || gap.subsec_nanos() != 0 {
            return Err(KeepaliveError::Fraction);
        }
        if !(second..=IDLE_MOST).contains(&idle) {
            return Err(KeepaliveError::Idle { given: idle });
        }
        if gap < second || gap > idle {
            return Err(KeepaliveError::Gap { given: gap, idle });
        }
        if !(1..=PROBES_MOST).contains(&probes) {
            return Err(KeepaliveError::Probes { given: probes });
        }
        Ok(Self { idle, gap, probes })
    }

    #[must_use]
    pub const fn idle(&self) -> Duration {
        self.idle
    }

    #[must_use]
    pub const fn gap(&self) -> Duration {
        self.gap
    }

    #[must_use]
    pub const fn probes(&self) -> u32 {
        self.probes
    }

    /// Silence after which the kernel ends the connection: `idle + gap · probes`.
    #[must_use]
    pub fn detects_after(&self) -> Duration {
        self.idle + self.gap * self.probes
    }

    /// Whether this is a backstop for `tuning` as it stands: never between two heartbeats that are on
    /// time, and never before the judge.
    ///
    /// # Errors
    /// What contradicts what, and by how much.
    pub fn check(&self, tuning: &Tuning) -> Result<(), KeepaliveError> {
        let expectation = tuning.expectation();
        if self.idle <= expectation.suspect_after {
            return Err(KeepaliveError::BetweenHeartbeats {
                idle: self.idle,
                late: expectation.suspect_after,
            });
        }
        if self.detects_after() < expectation.offline_at_most {
            return Err(KeepaliveError::BeforeTheJudge {
                after: self.detects_after(),
                deadline: expectation.offline_at_most,
            });
        }
        Ok(())
    }

    /// What to apply while `expectation` holds. A keepalive that contradicts it is raised:
    ///
    /// - `idle` above `T + W`, else `2·(T + W)`: probes never run between heartbeats that are on time;
    /// - `idle + gap · probes ≥ D` (`2·D` in adaptive mode): probes never end what the judge tolerates.
    ///
    /// `TCP_USER_TIMEOUT` is `D + W` (`2·D + W`); where one direction is quiet for as long as the configured `idle` it
    /// is at least what all probes take, because one lost probe must not end the connection.
    #[must_use]
    pub fn under(&self, expectation: &Expectation) -> SocketOptions {
        let keepalive = self.raised(expectation);
        let patience = expectation.kernel_gives_up_after;
        let user_timeout = if expectation.reverse_gap >= self.idle {
            patience.max(keepalive.detects_after())
        } else {
            patience
        };
        SocketOptions {
            keepalive,
            user_timeout,
            adjusted: keepalive != *self,
        }
    }

    fn raised(&self, expectation: &Expectation) -> Self {
        let late = expectation.suspect_after;
        let clear = if self.idle > late {
            self.idle
        } else {
            late * 2
        };
        let probing = self.gap * self.probes;
        let deadline = expectation.offline_at_most;
        let idle = whole(clear.max(deadline.saturating_sub(probing))).min(KERNEL_MOST);
        let rest = deadline.saturating_sub(idle) / self.probes;
        Self {
            idle,
            gap: whole(self.gap.max(rest)).min(KERNEL_MOST),
            probes: self.probes,
        }
    }
}

/// 120 s, 30 s, 3 probes: dead after 210 s.
impl Default for Keepalive {
    fn default() -> Self {
        Self {
            idle: Duration::from_mins(2),
            gap: Duration::from_secs(30),
            probes: 3,
        }
    }
}

/// `120s/30s/3`
impl fmt::Display for Keepalive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{:?}/{}", self.idle, self.gap, self.probes)
    }
}

/// Reads `IDLE/GAP/PROBES` as whole seconds: `120s/30s/3`, or without the letter.
impl std::str::FromStr for Keepalive {
    type Err = KeepaliveError;

    fn from_str(text: &str) -> Result<Self, KeepaliveError> {
        let form = || KeepaliveError::Form {
            given: text.chars().take(40).collect(),
        };
        let mut parts = text.split('/').map(str::trim);
        let (Some(idle), Some(gap), Some(probes), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(form());
        };
        let seconds = |part: &str| {
            let number = part.strip_suffix('s').unwrap_or(part);
            let number = number.parse().map_err(|_| form())?;
            Ok(Duration::from_secs(number))
        };
        Self::new(
            seconds(idle)?,
            seconds(gap)?,
            probes.parse().map_err(|_| form())?,
        )
    }
}

/// Why a keepalive is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeepaliveError {
    #[error("`{given}` is not IDLE/GAP/PROBES in whole seconds, write it like 120s/30s/3")]
    Form { given: String },
    #[error("the kernel counts keepalive in whole seconds, round them up")]
    Fraction,
    #[error("idle {given:?} is out of bounds, choose between 1s and {IDLE_MOST:?}")]
    Idle { given: Duration },
    #[error(
        "gap {given:?} must be between 1s and idle {idle:?}: idle alone was changed, lower the gap with it"
    )]
    Gap { given: Duration, idle: Duration },
    #[error("{given} probes are out of bounds, choose between 1 and {PROBES_MOST}")]
    Probes { given: u32 },
    #[error(
        "idle {idle:?} is not above {late:?}, after which a heartbeat is late (T + W): probes would run \
         between heartbeats, raise idle"
    )]
    BetweenHeartbeats { idle: Duration, late: Duration },
    #[error(
        "the kernel would end a connection after {after:?} (idle + gap · probes), before the latest deadline \
         {deadline:?} of the heartbeats (D = N·T + W): raise idle, gap or probes"
    )]
    BeforeTheJudge { after: Duration, deadline: Duration },
}

/// Rounded up to whole seconds, as the kernel counts.
fn whole(duration: Duration) -> Duration {
    let more = u64::from(duration.subsec_nanos() > 0);
    Duration::from_secs(duration.as_secs().saturating_add(more))
}

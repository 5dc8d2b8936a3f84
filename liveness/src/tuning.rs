//! The parameters that decide detection, and their bounds.

use std::fmt;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::expectation::Expectation;
use crate::moment::nanos;

/// Adaptive mode convicts after so many D at the latest.
const ADAPTIVE_STRETCH: u32 = 2;

pub const INTERVAL_LEAST: Duration = Duration::from_millis(200);
pub const INTERVAL_MOST: Duration = Duration::from_hours(1);
pub const MISSES_LEAST: u32 = 1;
pub const MISSES_MOST: u32 = 20;
/// One TCP retransmission (at least 200 ms on Linux) must fit.
pub const TIMEOUT_LEAST: Duration = Duration::from_millis(300);
/// With one miss the timeout alone pays for every delay.
pub const TIMEOUT_LEAST_FOR_ONE_MISS: Duration = Duration::from_secs(1);
pub const PONG_EVERY_LEAST: u32 = 1;
pub const PONG_EVERY_MOST: u32 = 10;
/// Longest `pong_every · interval`.
pub const REVERSE_GAP_MOST: Duration = Duration::from_hours(1);
/// Longest silence that either side may tolerate: `N·T + W` and `N·R + W`.
pub const SILENCE_MOST: Duration = Duration::from_hours(24);

// Without adaptive mode no rule of its own enforces SILENCE_MOST: the other bounds keep below it.
const _: () = assert!(
    MISSES_MOST as u64 * INTERVAL_MOST.as_secs() + INTERVAL_MOST.as_secs()
        <= SILENCE_MOST.as_secs()
);
const _: () = assert!(
    MISSES_MOST as u64 * REVERSE_GAP_MOST.as_secs() + INTERVAL_MOST.as_secs()
        <= SILENCE_MOST.as_secs()
);

/// T, N, W, `pong_every` and the mode as one value within the bounds. There is no other way to change one of them
/// than to make a whole tuning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tuning {
    interval: Duration,
    misses: u32,
    timeout: Duration,
    pong_every: u32,
    adaptive: bool,
}

impl Tuning {
    /// `interval` is T, `misses` is N, `timeout` is W; the server answers every `pong_every`-th PING.
    ///
    /// # Errors
    /// The first rule that is broken. Nothing is clamped.
    pub fn new(
        interval: Duration,
        misses: u32,
        timeout: Duration,
        pong_every: u32,
    ) -> Result<Self, TuningError> {
        check_interval(interval)?;
        check_misses(misses)?;
        check_timeout(timeout, interval, misses)?;
        check_pong_every(pong_every, interval)?;
        Ok(Self {
            interval,
            misses,
            timeout,
            pong_every,
            adaptive: false,
        })
    }

    /// The same with adaptive mode on or off.
    ///
    /// # Errors
    /// Adaptive mode lives on the round trip of every heartbeat, and tolerates silence for up to 2·D.
    pub fn with_adaptive(self, adaptive: bool) -> Result<Self, TuningError> {
        if adaptive {
            check_adaptive(self)?;
        }
        Ok(Self { adaptive, ..self })
    }

    /// T: the agent never leaves more than this between two messages.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// N: how many heartbeats may be missed.
    #[must_use]
    pub const fn misses(&self) -> u32 {
        self.misses
    }

    /// W: how long the last missed one is waited for.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The server answers every k-th PING.
    #[must_use]
    pub const fn pong_every(&self) -> u32 {
        self.pong_every
    }

    /// Deadlines follow the round trips, see [`crate::adaptive`].
    #[must_use]
    pub const fn adaptive(&self) -> bool {
        self.adaptive
    }

    /// `D = N·T + W`.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.interval * self.misses + self.timeout
    }

    /// Longest silence that is ever tolerated: 2·D in adaptive mode, else D.
    #[must_use]
    pub fn deadline_at_most(&self) -> Duration {
        self.deadline() * self.stretch()
    }

    #[must_use]
    pub fn expectation(&self) -> Expectation {
        let reverse_gap = self.interval * self.pong_every;
        let server_dead_after = reverse_gap * self.misses + self.timeout;
        Expectation {
            interval: self.interval,
            suspect_after: self.interval + self.timeout,
            offline_after: self.deadline(),
            offline_at_most: self.deadline_at_most(),
            answer_within: self.timeout,
            beatless_after: self.interval * self.misses.max(2) + self.timeout,
            reverse_gap,
            server_dead_after,
            server_dead_at_most: server_dead_after * self.stretch(),
            kernel_gives_up_after: self.deadline_at_most() + self.timeout,
            look_back: self.timeout.max(self.interval * (self.misses - 1)),
        }
    }

    fn stretch(&self) -> u32 {
        if self.adaptive { ADAPTIVE_STRETCH } else { 1 }
    }

    /// Identifies the values: the first 8 bytes, big endian, of SHA-256 over T in nanoseconds, N, W in
    /// nanoseconds and `pong_every`, each as 8 bytes big endian, and a byte 1 behind them in adaptive
    /// mode. An agent that does not know of that mode thereby refuses it instead of beating without it.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut digest = Sha256::new();
        for value in [
            nanos(self.interval),
            u64::from(self.misses),
            nanos(self.timeout),
            u64::from(self.pong_every),
        ] {
            digest.update(value.to_be_bytes());
        }
        if self.adaptive {
            digest.update([1]);
        }
        let mut first = [0; 8];
        first.copy_from_slice(&digest.finalize()[..8]);
        u64::from_be_bytes(first)
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(20),
            misses: 3,
            timeout: Duration::from_secs(2),
            pong_every: 1,
            adaptive: false,
        }
    }
}

/// `T=20s N=3 W=2s`, with ` pong_every=5` behind it when it is not 1, and ` adaptive` when it is.
impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "T={:?} N={} W={:?}",
            self.interval, self.misses, self.timeout
        )?;
        if self.pong_every > 1 {
            write!(f, " pong_every={}", self.pong_every)?;
        }
        if self.adaptive {
            f.write_str(" adaptive")?;
        }
        Ok(())
    }
}

/// Which bound a tuning breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TuningError {
    #[error("interval {given:?} is too short, raise it to at least {least:?}")]
    IntervalTooShort { given: Duration, least: Duration },
    #[error("interval {given:?} is too long, lower it to at most {most:?}")]
    IntervalTooLong { given: Duration, most: Duration },
    #[error("misses {given} is too small, raise it to at least {least}")]
    MissesTooFew { given: u32, least: u32 },
    #[error("misses {given} is too large, lower it to at most {most}")]
    MissesTooMany { given: u32, most: u32 },
    #[error(
        "timeout {given:?} is too short for one retransmission, raise it to at least {least:?} \
         (and interval with it)"
    )]
    TimeoutTooShort { given: Duration, least: Duration },
    #[error(
        "timeout {given:?} is too short when misses is 1, raise it to at least {least:?} or misses to 2"
    )]
    TimeoutTooShortForOneMiss { given: Duration, least: Duration },
    #[error("timeout {given:?} is longer than interval {most:?}, lower timeout or raise interval")]
    TimeoutTooLong { given: Duration, most: Duration },
    #[error("pong_every {given} is too small, raise it to at least {least}")]
    PongEveryTooSmall { given: u32, least: u32 },
    #[error("pong_every {given} is too large, lower it to at most {most}")]
    PongEveryTooLarge { given: u32, most: u32 },
    #[error(
        "pong_every times interval is {given:?}, lower pong_every or interval so that it is at most {most:?}"
    )]
    ReverseGapTooLong { given: Duration, most: Duration },
    #[error(
        "adaptive mode needs the round trip of every heartbeat: set pong_every to 1 instead of {given}, \
         or adaptive off"
    )]
    AdaptiveLease { given: u32 },
    #[error(
        "adaptive mode tolerates silence for up to 2·D, which is {given:?}: lower interval or misses so \
         that it is at most {most:?}, or set adaptive off"
    )]
    AdaptiveTooPatient { given: Duration, most: Duration },
}

fn check_interval(given: Duration) -> Result<(), TuningError> {
    if given < INTERVAL_LEAST {
        return Err(TuningError::IntervalTooShort {
            given,
            least: INTERVAL_LEAST,
        });
    }
    if given > INTERVAL_MOST {
        return Err(TuningError::IntervalTooLong {
            given,
            most: INTERVAL_MOST,
        });
    }
    Ok(())
}

fn check_misses(given: u32) -> Result<(), TuningError> {
    if given < MISSES_LEAST {
        return Err(TuningError::MissesTooFew {
            given,
            least: MISSES_LEAST,
        });
    }
    if given > MISSES_MOST {
        return Err(TuningError::MissesTooMany {
            given,
            most: MISSES_MOST,
        });
    }
    Ok(())
}

fn check_timeout(given: Duration, interval: Duration, misses: u32) -> Result<(), TuningError> {
    if given < TIMEOUT_LEAST {
        return Err(TuningError::TimeoutTooShort {
            given,
            least: TIMEOUT_LEAST,
        });
    }
    if misses == 1 && given < TIMEOUT_LEAST_FOR_ONE_MISS {
        let least = TIMEOUT_LEAST_FOR_ONE_MISS;
        return Err(TuningError::TimeoutTooShortForOneMiss { given, least });
    }
    if given > interval {
        return Err(TuningError::TimeoutTooLong {
            given,
            most: interval,
        });
    }
    Ok(())
}

fn check_pong_every(given: u32, interval: Duration) -> Result<(), TuningError> {
    if given < PONG_EVERY_LEAST {
        return Err(TuningError::PongEveryTooSmall {
            given,
            least: PONG_EVERY_LEAST,
        });
    }
    if given > PONG_EVERY_MOST {
        return Err(TuningError::PongEveryTooLarge {
            given,
            most: PONG_EVERY_MOST,
        });
    }
    let gap = interval * given;
    if gap > REVERSE_GAP_MOST {
        return Err(TuningError::ReverseGapTooLong {
            given: gap,
            most: REVERSE_GAP_MOST,
        });
    }
    Ok(())
}

fn check_adaptive(tuning: Tuning) -> Result<(), TuningError> {
    if tuning.pong_every > 1 {
        return Err(TuningError::AdaptiveLease {
            given: tuning.pong_every,
        });
    }
    let given = tuning.deadline() * ADAPTIVE_STRETCH;
    if given > SILENCE_MOST {
        return Err(TuningError::AdaptiveTooPatient {
            given,
            most: SILENCE_MOST,
        });
    }
    Ok(())
}

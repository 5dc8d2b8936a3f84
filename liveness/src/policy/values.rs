use std::fmt;
use std::time::Duration;

use crate::tuning::{Tuning, TuningError};

/// T, N and W: one value, because only together are they within the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence(Tuning);

/// What a policy gives; what it leaves open comes from the policies before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Values {
    pub cadence: Option<Cadence>,
    pub pong_every: Option<u32>,
    pub adaptive: Option<bool>,
}

/// One thing that a policy may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Cadence,
    PongEvery,
    Adaptive,
}

impl Cadence {
    /// T, N and W.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn new(interval: Duration, misses: u32, timeout: Duration) -> Result<Self, TuningError> {
        Tuning::new(interval, misses, timeout, 1).map(Self)
    }

    #[must_use]
    pub fn interval(&self) -> Duration {
        self.0.interval()
    }

    #[must_use]
    pub fn misses(&self) -> u32 {
        self.0.misses()
    }

    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.0.timeout()
    }
}

impl From<Tuning> for Cadence {
    fn from(tuning: Tuning) -> Self {
        let (interval, misses, timeout) = (tuning.interval(), tuning.misses(), tuning.timeout());
        // A tuning's own T, N and W are within the bounds whatever else it has.
        Self(Tuning::new(interval, misses, timeout, 1).unwrap_or_default())
    }
}

impl Values {
    /// All of a tuning.
    #[must_use]
    pub fn of(tuning: Tuning) -> Self {
        Self {
            cadence: Some(tuning.into()),
            pong_every: Some(tuning.pong_every()),
            adaptive: Some(tuning.adaptive()),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether these values can stand together by themselves.
    ///
    /// # Errors
    /// The first rule that they break, whatever other policies give.
    pub fn check(&self) -> Result<(), TuningError> {
        // The shortest T and W allow whatever any allows.
        let lenient = Tuning::new(
            crate::tuning::TIMEOUT_LEAST,
            2,
            crate::tuning::TIMEOUT_LEAST,
            1,
        )?;
        let cadence = self.cadence.map_or(lenient, |cadence| cadence.0);
        self.over(cadence).map(|_| ())
    }

    /// These values, and those of `base` where they are open.
    ///
    /// # Errors
    /// The first rule that the mix breaks.
    pub fn over(&self, base: Tuning) -> Result<Tuning, TuningError> {
        let cadence = self.cadence.unwrap_or_else(|| base.into());
        Tuning::new(
            cadence.interval(),
            cadence.misses(),
            cadence.timeout(),
            self.pong_every.unwrap_or(base.pong_every()),
        )?
        .with_adaptive(self.adaptive.unwrap_or(base.adaptive()))
    }
}

/// `T=20s N=3 W=2s pong_every=5 adaptive=off`, only what is given; `nothing` when that is nothing.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cadence = self.cadence.map(|cadence| cadence.0.to_string());
        let pong_every = self.pong_every.map(|k| format!("pong_every={k}"));
        let adaptive = self.adaptive.map(|on| {
            let on = if on { "on" } else { "off" };
            format!("adaptive={on}")
        });
        let parts: Vec<String> = [cadence, pong_every, adaptive]
            .into_iter()
            .flatten()
            .collect();
        if parts.is_empty() {
            return f.write_str("nothing");
        }
        f.write_str(&parts.join(" "))
    }
}

/// `T, N, W`, `pong_every` or `adaptive`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cadence => "T, N, W",
            Self::PongEvery => "pong_every",
            Self::Adaptive => "adaptive",
        })
    }
}

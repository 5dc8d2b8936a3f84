//! From a tolerated detection time to T, N and W, and what may be said of a tuning before it comes into
//! force.

mod check;
mod load;

use std::time::Duration;

pub use check::{Check, Grade, checks};
pub use load::Load;

use crate::preset::Preset;
use crate::tuning::{INTERVAL_LEAST, INTERVAL_MOST, TIMEOUT_LEAST, Tuning, TuningError};

/// T is rounded down with a margin of a tenth of it per miss (essay 2 §3.2: 9 s become 8 s).
const MARGIN: f64 = 1.1;
/// W covers so many round trips (essay 2 §3.1).
const ROUND_TRIPS: u32 = 3;
/// Shorter timeouts than this are no better than the noise of a scheduler (essay 2 §3.1).
const TIMEOUT_FLOOR: Duration = Duration::from_secs(1);
/// Below this T is rounded to tenths of a second.
const COARSE_FROM: Duration = Duration::from_secs(3);
const WHOLE: Duration = Duration::from_secs(1);
const TENTH: Duration = Duration::from_millis(100);
/// Nothing is planned over longer times.
const DAY: Duration = Duration::from_hours(24);

/// TCP keepalive of the path's sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backstop {
    pub idle: Duration,
    pub interval: Duration,
    pub probes: u32,
}

/// What is known of a fleet and its paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// How long an agent's end may stay unknown.
    pub detect: Option<Duration>,
    /// High percentiles of the round trip.
    pub rtt_p95: Option<Duration>,
    pub rtt_p99: Option<Duration>,
    /// Longest time for which an agent is known to stop, as for a garbage collection.
    pub pause: Option<Duration>,
    /// What forgets idle connections on the path; empty when nobody knows.
    pub idle_timeouts: Vec<Duration>,
    pub keepalive: Option<Backstop>,
}

/// Which tuning is asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// N; that of the preset or the built-in tuning when it is not said.
    pub misses: Option<u32>,
    /// Of these two what is not said is the preset's. Without either, T and W are derived.
    pub interval: Option<Duration>,
    pub timeout: Option<Duration>,
    pub preset: Option<&'static Preset>,
    /// 1 when it is not said.
    pub pong_every: Option<u32>,
    /// Round to tenths of a second, and let W be below one.
    pub fine: bool,
}

/// The tuning that is asked about, and the steps that led to it; none when T and W were said.
///
/// # Errors
/// When a fact is out of bounds, T and W are neither said nor to be derived, or they are no tuning.
pub fn plan(wanted: &Wanted, facts: &Facts) -> Result<(Tuning, Vec<Step>), PlanError> {
    facts.validate()?;
    let preset = wanted.preset.map(Preset::tuning);
    let misses = wanted.misses.or(preset.map(|preset| preset.misses()));
    let misses = misses.unwrap_or(Tuning::default().misses());
    let interval = wanted.interval.or(preset.map(|preset| preset.interval()));
    let timeout = wanted.timeout.or(preset.map(|preset| preset.timeout()));
    let (interval, timeout, steps) = match (interval, timeout, facts.detect) {
        (Some(interval), Some(timeout), _) => (interval, timeout, Vec::new()),
        (Some(_), None, _) | (None, Some(_), _) => return Err(PlanError::Half),
        (None, None, None) => return Err(PlanError::Nothing),
        (None, None, Some(detect)) => {
            let (tuning, steps) = derive(detect, misses, facts, wanted.fine)?;
            (tuning.interval(), tuning.timeout(), steps)
        }
    };
    let pong_every = wanted.pong_every.unwrap_or(1);
    let tuning = Tuning::new(interval, misses, timeout, pong_every)?;
    Ok((tuning, steps))
}

/// One step of a derivation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// `W`, `T` or `D`.
    pub of: &'static str,
    /// The formula with its numbers and what comes out.
    pub text: String,
}

/// Why no tuning can be derived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("{what} of {given:?} is out of bounds: give 1 ms to 24 h")]
    OutOfBounds { what: &'static str, given: Duration },
    #[error(
        "nothing can be found within {detect:?} when {misses} heartbeats may be missed and the last is \
         waited for {timeout:?}: tolerate at least {least:?}, or fewer misses"
    )]
    TooSoon {
        detect: Duration,
        misses: u32,
        timeout: Duration,
        least: Duration,
    },
    #[error("T and W go together: give both, or neither and a detection time")]
    Half,
    #[error("nothing to plan: give a detection time, a preset, or T and W")]
    Nothing,
    #[error(transparent)]
    Tuning(#[from] TuningError),
}

impl Facts {
    /// The round trip that W is made of: the 99th percentile, or the 95th when only that is known.
    fn rtt(&self) -> Option<(&'static str, Duration)> {
        let p99 = self.rtt_p99.map(|rtt| ("P99", rtt));
        p99.or(self.rtt_p95.map(|rtt| ("P95", rtt)))
    }

    /// # Errors
    /// When a time is zero or longer than a day.
    pub fn validate(&self) -> Result<(), PlanError> {
        let keepalive = self.keepalive.map(|backstop| {
            [
                ("a keepalive idle time", backstop.idle),
                ("a keepalive interval", backstop.interval),
            ]
        });
        let times = [
            ("a detection time", self.detect),
            ("a round trip P95", self.rtt_p95),
            ("a round trip P99", self.rtt_p99),
            ("a pause", self.pause),
        ];
        let times = times
            .into_iter()
            .filter_map(|(what, given)| Some((what, given?)));
        let idle = self
            .idle_timeouts
            .iter()
            .map(|idle| ("an idle time-out", *idle));
        let mut all = times.chain(idle).chain(keepalive.into_iter().flatten());
        match all.find(|(_, given)| *given < Duration::from_millis(1) || *given > DAY) {
            Some((what, given)) => Err(PlanError::OutOfBounds { what, given }),
            None => Ok(()),
        }
    }
}

/// Derives T and W for N misses (essay 2 §3.2): `W = max(1 s, 3·P99)`, rounded up, and
/// `T = (detect − W) / (1.1·N)`, rounded down, to whole seconds; `fine` rounds to tenths, and lets W be
/// below a second.
///
/// # Errors
/// When a fact is out of bounds, or no T fits into the detection time.
pub fn derive(
    detect: Duration,
    misses: u32,
    facts: &Facts,
    fine: bool,
) -> Result<(Tuning, Vec<Step>), PlanError> {
    facts.validate()?;
    // Refuses an N that no tuning may have.
    Tuning::new(INTERVAL_MOST, misses, TIMEOUT_FLOOR, 1)?;
    let mut steps = Vec::new();
    let timeout = timeout(facts, misses, fine, &mut steps);
    let left = detect.saturating_sub(timeout);
    let raw = left / misses;
    let with_margin = left.div_f64(MARGIN * f64::from(misses));
    let step = if fine || with_margin < COARSE_FROM {
        TENTH
    } else {
        WHOLE
    };
    let interval = round_down(with_margin, step).min(INTERVAL_MOST);
    let shortest = timeout.max(INTERVAL_LEAST);
    if interval < shortest {
        let least = timeout + round_up(shortest.mul_f64(MARGIN * f64::from(misses)), step);
        return Err(PlanError::TooSoon {
            detect,
            misses,
            timeout,
            least,
        });
    }
    steps.push(Step {
        of: "T",
        text: format!(
            "({detect:?} - {timeout:?}) / {misses} = {raw:.3?}; with a tenth of margin {with_margin:.3?}, \
             rounded down to {interval:?}"
        ),
    });
    let tuning = Tuning::new(interval, misses, timeout, 1)?;
    steps.push(Step {
        of: "D",
        text: format!(
            "{misses} * {interval:?} + {timeout:?} = {:?} at worst",
            tuning.deadline()
        ),
    });
    Ok((tuning, steps))
}

fn timeout(facts: &Facts, misses: u32, fine: bool, steps: &mut Vec<Step>) -> Duration {
    let trips = facts
        .rtt()
        .map_or(Duration::ZERO, |(_, rtt)| rtt * ROUND_TRIPS);
    let floor = if fine && misses > 1 {
        // One retransmission fits beside them.
        TIMEOUT_LEAST + trips
    } else {
        TIMEOUT_FLOOR
    };
    let step = if fine { TENTH } else { WHOLE };
    let (timeout, text) = match facts.rtt() {
        Some((which, rtt)) => {
            let timeout = round_up(trips.max(floor), step);
            let text = format!(
                "{ROUND_TRIPS} * {which} = {ROUND_TRIPS} * {rtt:?} = {trips:?}, at least {floor:?}, rounded up to \
                 {timeout:?}"
            );
            (timeout, text)
        }
        None => (
            floor,
            format!("no round trip is known: the least, {floor:?}"),
        ),
    };
    steps.push(Step { of: "W", text });
    timeout
}

/// Time from an agent's end to the verdict: at worst `N·T + W`, when it ends right after a heartbeat; on
/// average half of T less.
#[must_use]
pub fn detection(tuning: &Tuning) -> (Duration, Duration) {
    let worst = tuning.deadline();
    (worst, worst.saturating_sub(tuning.interval() / 2))
}

fn round_down(duration: Duration, step: Duration) -> Duration {
    let steps = duration.as_nanos() / step.as_nanos();
    step * u32::try_from(steps).unwrap_or(u32::MAX)
}

fn round_up(duration: Duration, step: Duration) -> Duration {
    let steps = duration.as_nanos().div_ceil(step.as_nanos());
    step * u32::try_from(steps).unwrap_or(u32::MAX)
}

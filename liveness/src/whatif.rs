//! What a tuning would have done in a time that was recorded.
//!
//! Recorded are *silences*: gaps between two messages of one instance that outlasted T + W, and how each
//! ended. A silence is an outage and the part of T that had passed when it began, so under another tuning the
//! same outage makes another silence: with an outage `o` it is `o + U(0, T′)`, and it is a false disconnect
//! when that reaches D′. Of the outage only bounds are known: at least the lateness of the message that ended
//! the silence (which had been sent that long before), at most the whole gap; it is taken as uniform
//! between them.
//!
//! Ranges are 95 % intervals. Silences that ended within a minute of each other are taken for one event,
//! because one outage silences many; events come as a Poisson process of unequal weights, whose interval is
//! the gamma method of Fay and Feuer (1997). Without an event it is the rule of three.

mod gamma;
mod phase;

use std::time::Duration;

use crate::plan::Load;
use crate::tuning::Tuning;

/// Silences that end this close together are one event.
pub const TOGETHER: Duration = Duration::from_mins(1);
/// Watched time below which nothing is said of rates.
pub const AGENT_DAYS_LEAST: f64 = 1.0;
const CONFIDENCE: f64 = 0.95;
const SECONDS_PER_DAY: f64 = 86_400.0;

/// A recorded silence of an agent that lived on: it was heard again, or the same instance came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// When it ended: wall time since the Unix epoch.
    pub ended_at: Duration,
    /// From one receipt to the next.
    pub gap: Duration,
    /// T that was in force.
    pub interval: Duration,
    /// How much longer the gap was for the receiver than for the sender, by the sender's own clock; `None`
    /// when the sender did not tell.
    pub lateness: Option<Duration>,
}

/// What was recorded of some agents.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub silences: &'a [Silence],
    /// Agents that ended without Goodbye and did not come back as they were.
    pub deaths: u32,
    /// Sum over agents of how long each was watched.
    pub agent_days: f64,
    /// Silences up to this were not recorded: the longest T + W in force meanwhile.
    pub floor: Duration,
    /// Agents that would have the tuning.
    pub members: u32,
    /// Of a heartbeat or its answer on the wire.
    pub frame_bytes: u32,
}

/// An estimate with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub low: f64,
    pub expected: f64,
    pub high: f64,
}

/// What can be said from what was recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Estimate {
    Known(Range),
    /// Shorter outages than those recorded would count as well: this much at least.
    AtLeast(Range),
    /// Watched for fewer agent-days than it takes.
    TooLittle {
        has: f64,
        needs: f64,
    },
    /// The tuning judges silences that were not recorded.
    BelowRecorded {
        deadline: Duration,
        floor: Duration,
    },
}

/// How long a death stays undetected, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    pub p50: Range,
    pub p99: Range,
}

/// What a tuning would have done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replay {
    /// Of all members together.
    pub false_disconnects_per_day: Estimate,
    /// Silences that the estimate stands on, and the events that they are.
    pub silences: u32,
    pub events: u32,
    /// `None` when no death was recorded.
    pub detection: Option<Detection>,
    pub deaths: u32,
    /// From every T to every 0.9·T.
    pub beats_per_second: Range,
    pub bytes_per_day: Range,
}

/// Replays `facts` under `tuning`.
#[must_use]
pub fn replay(facts: &Facts<'_>, tuning: &Tuning) -> Replay {
    let events = events(facts.silences, tuning);
    Replay {
        false_disconnects_per_day: false_disconnects(facts, &events, tuning),
        silences: count(facts.silences.len()),
        events: count(events.len()),
        detection: (facts.deaths > 0).then(|| detection(tuning, facts.deaths)),
        deaths: facts.deaths,
        beats_per_second: beats(facts, tuning),
        bytes_per_day: bytes(facts, tuning),
    }
}

/// The chance that `silence` had been a false disconnect.
#[must_use]
pub fn conviction(silence: &Silence, tuning: &Tuning) -> f64 {
    let gap = silence.gap.as_secs_f64();
    let phase_at_most = silence.gap.saturating_sub(silence.interval);
    let least = silence
        .lateness
        .unwrap_or(phase_at_most)
        .as_secs_f64()
        .min(gap);
    let (interval, deadline) = (
        tuning.interval().as_secs_f64(),
        tuning.deadline_at_most().as_secs_f64(),
    );
    phase::mean_reach(least, gap, interval, deadline)
}

/// The weight of each event: how many false disconnects it would have been.
fn events(silences: &[Silence], tuning: &Tuning) -> Vec<f64> {
    let mut ordered: Vec<&Silence> = silences.iter().collect();
    ordered.sort_by_key(|silence| silence.ended_at);
    let mut events: Vec<f64> = Vec::new();
    let mut last: Option<Duration> = None;
    for silence in ordered {
        let weight = conviction(silence, tuning);
        let together = last.is_some_and(|last| silence.ended_at.saturating_sub(last) <= TOGETHER);
        match events.last_mut().filter(|_| together) {
            Some(event) => *event += weight,
            None => events.push(weight),
        }
        last = Some(silence.ended_at);
    }
    events
}

fn false_disconnects(facts: &Facts<'_>, events: &[f64], tuning: &Tuning) -> Estimate {
    if facts.agent_days < AGENT_DAYS_LEAST {
        return Estimate::TooLittle {
            has: facts.agent_days,
            needs: AGENT_DAYS_LEAST,
        };
    }
    let deadline = tuning.deadline_at_most();
    if deadline < facts.floor {
        return Estimate::BelowRecorded {
            deadline,
            floor: facts.floor,
        };
    }
    let per_day = f64::from(facts.members) / facts.agent_days;
    let range = weighted_poisson(events).times(per_day);
    // An outage of D′ − T′ can already reach D′ when it begins just before a heartbeat.
    if deadline.saturating_sub(tuning.interval()) < facts.floor {
        Estimate::AtLeast(range)
    } else {
        Estimate::Known(range)
    }
}

/// The mean of a sum of weights whose events come as a Poisson process, from one observation of it.
fn weighted_poisson(weights: &[f64]) -> Range {
    let sum: f64 = weights.iter().sum();
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    let heaviest = weights.iter().copied().fold(1.0, f64::max);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let low = if sum > 0.0 {
        squares / sum * gamma::quantile(tail, sum * sum / squares)
    } else {
        0.0
    };
    let (above, spread) = (sum + heaviest, squares + heaviest * heaviest);
    Range {
        low: low.min(sum),
        expected: sum,
        high: spread / above * gamma::quantile(1.0 - tail, above * above / spread),
    }
}

/// Last message + D′, where the death came at any moment of the T′ after that message. The range is that of
/// the order statistics of `deaths` draws.
fn detection(tuning: &Tuning, deaths: u32) -> Detection {
    let (interval, deadline) = (
        tuning.interval().as_secs_f64(),
        tuning.deadline().as_secs_f64(),
    );
    let most = tuning.deadline_at_most().as_secs_f64();
    let at = |share: f64| deadline - interval * (1.0 - share);
    let quantile = |share: f64| {
        let error = 1.96 * (share * (1.0 - share) / f64::from(deaths)).sqrt();
        let high = at((share + error).min(1.0));
        Range {
            low: at((share - error).max(0.0)),
            expected: at(share),
            // Adaptive mode may wait as much longer as it ever does.
            high: high + (most - deadline),
        }
    };
    Detection {
        p50: quantile(0.5),
        p99: quantile(0.99),
    }
}

fn beats(facts: &Facts<'_>, tuning: &Tuning) -> Range {
    let load = Load::of(tuning, u64::from(facts.members), 0);
    Range {
        low: load.beats_per_second,
        expected: load.expected_beats_per_second,
        high: load.beats_per_second / 0.9,
    }
}

fn bytes(facts: &Facts<'_>, tuning: &Tuning) -> Range {
    let (members, frame) = (u64::from(facts.members), u64::from(facts.frame_bytes));
    let nominal = Load::of(tuning, members, frame).bytes_per_second;
    let beats = beats(facts, tuning);
    let per_beat = if beats.low > 0.0 {
        nominal / beats.low
    } else {
        0.0
    };
    beats.times(per_beat * SECONDS_PER_DAY)
}

impl Range {
    fn times(self, factor: f64) -> Self {
        Self {
            low: self.low * factor,
            expected: self.expected * factor,
            high: self.high * factor,
        }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

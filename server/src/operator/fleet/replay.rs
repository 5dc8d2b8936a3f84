//! What was recorded, under other tunings.

use std::time::Duration;

use fleetbeat_liveness::policy::{PolicySet, Selector};
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_liveness::whatif::{self, Estimate, Facts, Range};
use fleetbeat_proto::v1;
use time::OffsetDateTime;

use super::Parts;
use super::plan::{Asked, Known};
use crate::store::silences::{Ended, Silence, Span};
use crate::tuning::{Failed, in_force};

/// Silences that are replayed at most, the oldest ones.
const SILENCES: u32 = 200_000;
/// Revisions that are looked at for what was in force meanwhile.
const REVISIONS: u32 = 200;

/// The silences of a time, and what else it takes to weigh them.
pub(super) struct Recorded {
    silences: Vec<Silence>,
    watched: Duration,
    floor: Duration,
}

impl Recorded {
    pub(super) async fn read(parts: &Parts, asked: &Asked) -> Result<Self, Failed> {
        let to = parts.registry.clock().wall();
        let from = to - time::Duration::days(i64::from(asked.days));
        let span = Span {
            group: asked.group.as_deref(),
            agents: None,
            from,
            to,
        };
        let silences = parts.store.silences(span, SILENCES).await?;
        let selector = asked
            .group
            .clone()
            .map_or_else(Selector::fleet, Selector::group);
        let floor = floor(parts, &selector, &silences, from).await?;
        Ok(Self {
            watched: parts.store.watched(span).await?,
            silences,
            floor,
        })
    }

    /// For how long an agent itself sent nothing although it was to send.
    pub(super) fn longest_pause(&self) -> Option<Duration> {
        let pause = |silence: &Silence| {
            let own = silence.gap_ns.checked_sub(silence.lateness_ns?)?;
            let pause = Duration::from_nanos(own.checked_sub(silence.interval_ns)?);
            (pause >= Duration::from_millis(1)).then_some(pause)
        };
        self.silences.iter().filter_map(pause).max()
    }

    fn count(&self, ended: &[Ended]) -> u32 {
        let of_it = self
            .silences
            .iter()
            .filter(|silence| ended.contains(&silence.ended));
        u32::try_from(of_it.count()).unwrap_or(u32::MAX)
    }
}

/// The longest T + W that was in force since `from`: shorter silences were not recorded throughout.
async fn floor(
    parts: &Parts,
    selector: &Selector,
    silences: &[Silence],
    from: OffsetDateTime,
) -> Result<Duration, Failed> {
    let least = |policies: &PolicySet| in_force(policies, selector).expectation().suspect_after;
    let recorded = silences
        .iter()
        .map(|silence| silence.interval_ns + silence.timeout_ns);
    let recorded = recorded.max().map(Duration::from_nanos).unwrap_or_default();
    let mut floor = recorded.max(least(&parts.desk.policies()));
    let mut reached = false;
    for made in parts.store.revisions(None, REVISIONS).await? {
        floor = floor.max(least(&parts.desk.stored(made.revision).await?));
        // The one before `from` was in force then.
        if made.draft.created_at < from {
            reached = true;
            break;
        }
    }
    if !reached {
        floor = floor.max(least(&PolicySet::default()));
    }
    Ok(floor)
}

pub(super) fn to_wire(
    recorded: &Recorded,
    known: &Known,
    asked: &Asked,
    tuning: &Tuning,
) -> v1::Replay {
    let lived = recorded
        .silences
        .iter()
        .filter(|silence| matches!(silence.ended, Ended::Heard | Ended::Returned));
    let silences: Vec<whatif::Silence> = lived.map(silence).collect();
    let agent_days = recorded.watched.as_secs_f64() / 86_400.0;
    let facts = Facts {
        silences: &silences,
        deaths: recorded.count(&[Ended::Died, Ended::Open]),
        agent_days,
        floor: recorded.floor,
        members: u32::try_from(known.members).unwrap_or(u32::MAX),
        frame_bytes: u32::try_from(asked.frame_bytes).unwrap_or(u32::MAX),
    };
    let replay = whatif::replay(&facts, tuning);
    let (false_disconnects, at_least, unknown) = told(replay.false_disconnects_per_day);
    let ns = |range: Range| {
        range_to_wire(Range {
            low: range.low * 1e9,
            expected: range.expected * 1e9,
            high: range.high * 1e9,
        })
    };
    v1::Replay {
        false_disconnects_per_day: false_disconnects.map(range_to_wire),
        at_least,
        unknown,
        silences: replay.silences,
        events: replay.events,
        agent_days,
        detection_p50_ns: replay.detection.map(|found| ns(found.p50)),
        detection_p99_ns: replay.detection.map(|found| ns(found.p99)),
        deaths: replay.deaths,
        beats_per_second: Some(range_to_wire(replay.beats_per_second)),
        bytes_per_day: Some(range_to_wire(replay.bytes_per_day)),
        happened: recorded.count(&[Ended::Returned]),
    }
}

fn told(estimate: Estimate) -> (Option<Range>, bool, String) {
    match estimate {
        Estimate::Known(range) => (Some(range), false, String::new()),
        Estimate::AtLeast(range) => (Some(range), true, String::new()),
        Estimate::TooLittle { has, needs } => {
            let why = format!("too little data: {has:.2} agent-days, {needs:.0} are needed");
            (None, false, why)
        }
        Estimate::BelowRecorded { deadline, floor } => {
            let why = format!(
                "below what was recorded: D is {deadline:?}, and silences up to {floor:?} were not \
                 recorded"
            );
            (None, false, why)
        }
    }
}

fn silence(silence: &Silence) -> whatif::Silence {
    let gap = Duration::from_nanos(silence.gap_ns);
    let began = silence.began.unix_timestamp_nanos() / 1_000;
    let began = Duration::from_micros(u64::try_from(began).unwrap_or_default());
    whatif::Silence {
        ended_at: began + gap,
        gap,
        interval: Duration::from_nanos(silence.interval_ns),
        lateness: silence.lateness_ns.map(Duration::from_nanos),
    }
}

fn range_to_wire(range: Range) -> v1::Range {
    v1::Range {
        low: range.low,
        expected: range.expected,
        high: range.high,
    }
}

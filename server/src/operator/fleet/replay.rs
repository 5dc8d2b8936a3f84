//! What was recorded, under other tunings.

use std::time::Duration;

use fleetbeat_liveness::policy::{Attributes, PolicySet, Selector};
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_liveness::whatif::{self, Estimate, Facts, Range};
use fleetbeat_proto::v1;
use time::OffsetDateTime;

use super::Parts;
use super::plan::{Asked, Known};
use crate::store::silences::{Ended, Silence, Span};
use crate::tuning::{Failed, in_force, policies_of};

/// Silences that are replayed at most, the last ones.
const SILENCES: u32 = 200_000;
/// Revisions that are looked at for what was in force meanwhile.
const REVISIONS: u32 = 200;

/// The silences of a time, and what else it takes to weigh them.
pub(super) struct Recorded {
    silences: Vec<Silence>,
    watched: Duration,
    floor: Duration,
    /// For how long back, when there were too many silences for all the days that were asked for.
    only: Option<Duration>,
}

impl Recorded {
    pub(super) async fn read(parts: &Parts, asked: &Asked) -> Result<Self, Failed> {
        let to = parts.registry.clock().wall();
        let begin = to - time::Duration::days(i64::from(asked.days));
        let span = Span {
            group: asked.group.as_deref(),
            agents: None,
            from: begin,
            to,
        };
        let silences = parts.store.silences(span, SILENCES).await?;
        let from = covered(&silences, SILENCES, begin);
        let span = Span { from, ..span };
        let floor = floor(parts, asked, &silences, from).await?;
        Ok(Self {
            watched: parts.store.watched(span).await?,
            silences,
            floor,
            only: (from > begin).then(|| (to - from).unsigned_abs()),
        })
    }

    /// For how long back the silences are replayed, and why not for all the `days` that were asked for.
    pub(super) fn only(&self, days: u32) -> Option<(Duration, String)> {
        let n = self.silences.len();
        let why = |only| {
            let why = format!("the last {n} silences reach no further back, of {days} days");
            (only, why)
        };
        self.only.map(why)
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

/// Since when the silences are all that there were: more than `limit` are not read.
fn covered(silences: &[Silence], limit: u32, from: OffsetDateTime) -> OffsetDateTime {
    let full = u32::try_from(silences.len()).is_ok_and(|read| read >= limit);
    let first = silences.first().filter(|_| full);
    first.map_or(from, |first| first.began)
}

/// The longest T + W that any of the agents had since `from`: shorter silences were not recorded throughout.
async fn floor(
    parts: &Parts,
    asked: &Asked,
    silences: &[Silence],
    from: OffsetDateTime,
) -> Result<Duration, Failed> {
    let whose = Whose::of(parts, asked);
    let recorded = silences
        .iter()
        .map(|silence| silence.interval_ns + silence.timeout_ns);
    let recorded = recorded.max().map(Duration::from_nanos).unwrap_or_default();
    let mut floor = recorded.max(whose.longest(&parts.desk.policies()));
    let mut reached = false;
    for made in parts.store.revisions(None, REVISIONS).await? {
        floor = floor.max(whose.longest(&policies_of(&made)?));
        // Everybody is asked for each: others get their turn in between.
        tokio::task::yield_now().await;
        // The one before `from` was in force then.
        if made.draft.created_at < from {
            reached = true;
            break;
        }
    }
    if !reached {
        floor = floor.max(whose.longest(&PolicySet::default()));
    }
    Ok(floor)
}

/// Whose silences are replayed.
struct Whose {
    /// What only the policies of the group, or of the fleet, speak of.
    selector: Selector,
    /// The known ones, who may have values of their own.
    agents: Vec<Attributes>,
}

impl Whose {
    fn of(parts: &Parts, asked: &Asked) -> Self {
        let selector = asked
            .group
            .clone()
            .map_or_else(Selector::fleet, Selector::group);
        let agents = parts.registry.agents();
        let agents = agents
            .iter()
            .map(|agent| agent.facts().attributes(agent.id));
        Self {
            agents: agents.filter(|agent| selector.matches(agent)).collect(),
            selector,
        }
    }

    /// The longest T + W that `policies` give to one of them.
    fn longest(&self, policies: &PolicySet) -> Duration {
        let usual = in_force(policies, &self.selector);
        let own = self
            .agents
            .iter()
            .map(|agent| policies.effective(agent).tuning.tuning);
        own.fold(usual.expectation().suspect_after, |longest, tuning| {
            longest.max(tuning.expectation().suspect_after)
        })
    }
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
        open: recorded.count(&[Ended::Open]),
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// What was not read is not taken for time in which nothing happened.
    #[test]
    fn days_reach_back_as_far_as_all_silences_were_read() {
        let from = OffsetDateTime::UNIX_EPOCH;
        let silence = |hour| Silence {
            began: from + time::Duration::hours(hour),
            session_id: Uuid::nil(),
            agent_id: Uuid::nil(),
            group: String::new(),
            gap_ns: 0,
            interval_ns: 1,
            timeout_ns: 1,
            lateness_ns: None,
            ended: Ended::Heard,
        };
        let silences = [silence(5), silence(6)];
        assert_eq!(covered(&silences, 3, from), from);
        assert_eq!(covered(&silences, 2, from), silences[0].began);
        assert_eq!(covered(&[], 2, from), from);
    }
}

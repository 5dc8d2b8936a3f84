//! One side of the comparison, and what can be said of both.

use fleetbeat_liveness::histogram;
use fleetbeat_liveness::report::{Finding, Watched, compare};
use fleetbeat_proto::v1;
use time::Duration;

use super::super::Parts;
use super::Changed;
use crate::store::report::{Count, Happened};
use crate::store::silences::{Ended, Span};
use crate::tuning::Failed;

pub(super) struct Side {
    agent_days: f64,
    happened: Happened,
    round_trips: Vec<u64>,
}

impl Side {
    pub(super) async fn read(
        parts: &Parts,
        span: Span<'_>,
        changed: &Changed,
    ) -> Result<Self, Failed> {
        let store = &parts.store;
        let round_trips = if changed.partly.is_none() {
            store
                .round_trips(Some(&changed.groups), span.from, span.to)
                .await?
        } else {
            Vec::new()
        };
        Ok(Self {
            agent_days: store.watched(span).await?.as_secs_f64() / 86_400.0,
            happened: store.happened(span, changed.together).await?,
            round_trips,
        })
    }

    fn ended(&self, ended: Ended) -> u32 {
        small(self.happened.silences(ended).events)
    }

    fn watched(&self, count: Count, open: u32) -> Watched {
        Watched {
            events: small(count.events),
            squares: count.squares,
            open,
            agent_days: self.agent_days,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate, for people")]
    pub(super) fn to_wire(&self, window: Duration) -> v1::ReportSide {
        let (happened, rtt) = (&self.happened, &self.round_trips);
        let by_reason = happened.by_reason.iter();
        v1::ReportSide {
            agent_days: self.agent_days,
            false_disconnects: self.ended(Ended::Returned),
            silences: self.ended(Ended::Heard),
            deaths: self.ended(Ended::Died),
            opened: happened.opened.events,
            ended: by_reason
                .map(|(reason, n)| (reason.word().to_owned(), *n))
                .collect(),
            beats_per_second: happened.beats as f64 / window.as_seconds_f64().max(1.0),
            offline_after_p50_ns: happened.offline.p50_ns,
            offline_after_p99_ns: happened.offline.p99_ns,
            rtt_p50_ns: histogram::quantile(rtt, 0.5),
            rtt_p99_ns: histogram::quantile(rtt, 0.99),
            rtt_samples: rtt.iter().sum(),
            open: self.ended(Ended::Open),
            offline: happened.offline.verdicts,
            dead: happened.died.verdicts,
            dead_after_p50_ns: happened.died.p50_ns,
            dead_after_p99_ns: happened.died.p99_ns,
        }
    }
}

/// What is compared of a side.
type Of = fn(&Side) -> Watched;

/// Silences that ended by themselves are no row: they are recorded beyond T + W, which the revision may have
/// changed, so that fewer of them may only be fewer that were recorded.
const ROWS: [(&str, Of); 4] = [
    ("false_disconnects", |side| settled(side, Ended::Returned)),
    ("disconnects", |side| {
        side.watched(side.happened.disconnects, 0)
    }),
    ("deaths", |side| settled(side, Ended::Died)),
    ("sessions_opened", |side| {
        side.watched(side.happened.opened, 0)
    }),
];

/// Whoever has not come back may yet turn out to have been such a one.
fn settled(side: &Side, ended: Ended) -> Watched {
    side.watched(side.happened.silences(ended), side.ended(Ended::Open))
}

pub(super) fn findings(before: &Side, after: &Side) -> Vec<v1::ReportFinding> {
    let finding = |(name, of): (&str, Of)| {
        let (before, after) = (of(before), of(after));
        let compared = compare(before, after);
        v1::ReportFinding {
            name: name.to_owned(),
            before: before.rate(),
            after: after.rate(),
            chance: compared.chance,
            finding: match compared.finding {
                Finding::Fewer => "fewer",
                Finding::More => "more",
                Finding::NoDifference => "no difference",
                Finding::TooLittle => "too little data",
            }
            .to_owned(),
            events_before: u64::from(before.events),
            events_after: u64::from(after.events),
            together: compared.together,
        }
    };
    ROWS.into_iter().map(finding).collect()
}

fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

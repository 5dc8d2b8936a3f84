//! What a revision changed, on recorded facts.

use std::collections::BTreeSet;

use fleetbeat_liveness::histogram;
use fleetbeat_liveness::policy::{Attributes, PolicySet};
use fleetbeat_liveness::report::{Finding, Watched, compare};
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::CloseReason;
use time::Duration;
use uuid::Uuid;

use super::super::Trouble;
use super::tuning::trouble;
use super::{Parts, message};
use crate::store::report::Endings;
use crate::store::silences::{Ended, Silence, Span};
use crate::store::tuning::Revision;
use crate::tuning::Failed;

const WINDOW: Duration = Duration::DAY;
const WINDOW_LEAST: Duration = Duration::MINUTE;
const WINDOW_MOST: Duration = Duration::days(30);
/// Revisions around it that are looked at.
const NEIGHBOURS: u32 = 200;
const SILENCES: u32 = 200_000;

pub(super) async fn report(
    parts: &Parts,
    request: &v1::ReportRevisionRequest,
) -> Result<v1::ReportRevisionResponse, Trouble> {
    let asked = window(request.window_ns)?;
    let found = compare_sides(parts, request.revision, asked).await;
    found.map_err(trouble)
}

fn window(ns: u64) -> Result<Duration, Trouble> {
    if ns == 0 {
        return Ok(WINDOW);
    }
    let window = Duration::nanoseconds(i64::try_from(ns).unwrap_or(i64::MAX));
    if (WINDOW_LEAST..=WINDOW_MOST).contains(&window) {
        Ok(window)
    } else {
        Err(Trouble::Wrong(
            "a window is between 1 minute and 30 days".to_owned(),
        ))
    }
}

async fn compare_sides(
    parts: &Parts,
    number: u64,
    asked: Duration,
) -> Result<v1::ReportRevisionResponse, Failed> {
    let made = parts
        .store
        .revision(number)
        .await?
        .ok_or(Failed::NoRevision(number))?;
    let changed = Changed::by(parts, &made).await?;
    let window = changed.window(parts, &made, asked).await?;
    let at = made.draft.created_at;
    let span = |from, to| Span {
        group: None,
        agents: Some(&changed.agents),
        from,
        to,
    };
    let before = Side::read(parts, span(at - window.length, at), &changed).await?;
    let after = Side::read(parts, span(at, at + window.length), &changed).await?;
    Ok(v1::ReportRevisionResponse {
        revision: number,
        parent: made.draft.parent,
        made_unix_us: message::unix_us(at),
        author: made.draft.author,
        reason: made.draft.reason,
        changes: made.draft.changes,
        agents: u64::try_from(changed.agents.len()).unwrap_or(u64::MAX),
        window_ns: u64::try_from(window.length.whole_nanoseconds()).unwrap_or_default(),
        bounded_by: window.because,
        findings: findings(&before, &after),
        before: Some(before.to_wire(window.length)),
        after: Some(after.to_wire(window.length)),
        rtt_unknown: changed.no_round_trips(),
    })
}

/// Whose tuning a revision changed.
struct Changed {
    agents: Vec<Uuid>,
    attributes: Vec<Attributes>,
    /// Groups of which it changed everybody, and whether that is all of the agents.
    groups: Vec<String>,
    partly: Option<String>,
}

/// What is compared on either side, and why it is not more.
struct Window {
    length: Duration,
    because: String,
}

impl Changed {
    async fn by(parts: &Parts, made: &Revision) -> Result<Self, Failed> {
        let before = parts.desk.stored(made.draft.parent).await?;
        let after = parts.desk.stored(made.revision).await?;
        let (mut agents, mut attributes) = (Vec::new(), Vec::new());
        let (mut groups, mut others) = (BTreeSet::new(), BTreeSet::new());
        for agent in parts.registry.agents() {
            let known = agent.facts().attributes(agent.id);
            if differs(&before, &after, &known) {
                groups.insert(known.group.clone());
                agents.push(agent.id);
                attributes.push(known);
            } else {
                others.insert(known.group);
            }
        }
        let partly = groups.intersection(&others).next().cloned();
        Ok(Self {
            agents,
            attributes,
            groups: groups.into_iter().collect(),
            partly,
        })
    }

    /// The same before and after: as much as was asked for, has passed, and no other revision disturbs.
    async fn window(
        &self,
        parts: &Parts,
        made: &Revision,
        asked: Duration,
    ) -> Result<Window, Failed> {
        let at = made.draft.created_at;
        let mut window = Window {
            length: asked,
            because: String::new(),
        };
        window.at_most(parts.registry.clock().wall() - at, || {
            "no more time has passed since".to_owned()
        });
        let newest = made.revision.saturating_add(u64::from(NEIGHBOURS));
        let around = parts.store.revisions(Some(newest), 2 * NEIGHBOURS).await?;
        for other in around {
            let apart = (other.draft.created_at - at).abs();
            if other.revision == made.revision || apart >= window.length {
                continue;
            }
            let (before, after) = (
                parts.desk.stored(other.draft.parent).await?,
                parts.desk.stored(other.revision).await?,
            );
            if self
                .attributes
                .iter()
                .any(|agent| differs(&before, &after, agent))
            {
                window.at_most(apart, || {
                    format!("revision {} changed some of them too", other.revision)
                });
            }
        }
        Ok(window)
    }

    fn no_round_trips(&self) -> String {
        self.partly.as_ref().map_or_else(String::new, |group| {
            format!("round trips are kept by group, and only a part of group {group} was changed")
        })
    }
}

impl Window {
    fn at_most(&mut self, length: Duration, because: impl FnOnce() -> String) {
        if length < self.length {
            self.length = length.max(Duration::ZERO);
            self.because = because();
        }
    }
}

fn differs(before: &PolicySet, after: &PolicySet, agent: &Attributes) -> bool {
    before.effective(agent).tuning.tuning != after.effective(agent).tuning.tuning
}

/// One side of the comparison.
struct Side {
    agent_days: f64,
    silences: Vec<Silence>,
    endings: Endings,
    round_trips: Vec<u64>,
}

impl Side {
    async fn read(parts: &Parts, span: Span<'_>, changed: &Changed) -> Result<Self, Failed> {
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
            silences: store.silences(span, SILENCES).await?,
            endings: store.endings(span).await?,
            round_trips,
        })
    }

    fn count(&self, ended: &[Ended]) -> u32 {
        let of_it = self
            .silences
            .iter()
            .filter(|silence| ended.contains(&silence.ended));
        u32::try_from(of_it.count()).unwrap_or(u32::MAX)
    }

    /// Endings that nobody meant.
    fn disconnects(&self) -> u32 {
        let meant = [
            CloseReason::Goodbye,
            CloseReason::ServerDrain,
            CloseReason::Shed,
            CloseReason::Superseded,
        ];
        let lost = self
            .endings
            .by_reason
            .iter()
            .filter(|(reason, _)| !meant.contains(reason));
        u32::try_from(lost.map(|(_, n)| n).sum::<u64>()).unwrap_or(u32::MAX)
    }

    fn watched(&self, events: u32) -> Watched {
        Watched {
            events,
            agent_days: self.agent_days,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate, for people")]
    fn to_wire(&self, window: Duration) -> v1::ReportSide {
        let (rtt, offline) = (&self.round_trips, sorted(&self.endings.offline_after_ns));
        let ended = self.endings.by_reason.iter();
        v1::ReportSide {
            agent_days: self.agent_days,
            false_disconnects: self.count(&[Ended::Returned]),
            silences: self.count(&[Ended::Heard]),
            deaths: self.count(&[Ended::Died, Ended::Open]),
            opened: self.endings.opened,
            ended: ended
                .map(|(reason, n)| (reason.word().to_owned(), *n))
                .collect(),
            beats_per_second: self.endings.beats as f64 / window.as_seconds_f64().max(1.0),
            offline_after_p50_ns: at_share(&offline, 50),
            offline_after_p99_ns: at_share(&offline, 99),
            rtt_p50_ns: histogram::quantile(rtt, 0.5),
            rtt_p99_ns: histogram::quantile(rtt, 0.99),
            rtt_samples: rtt.iter().sum(),
        }
    }
}

/// What is counted on a side.
type Count = fn(&Side) -> u32;

fn findings(before: &Side, after: &Side) -> Vec<v1::ReportFinding> {
    let rows: [(&str, Count); 4] = [
        ("false_disconnects", |side| side.count(&[Ended::Returned])),
        ("disconnects", Side::disconnects),
        ("silences", |side| side.count(&[Ended::Heard])),
        ("deaths", |side| side.count(&[Ended::Died, Ended::Open])),
    ];
    let finding = |(name, count): (&str, Count)| {
        let (before, after) = (before.watched(count(before)), after.watched(count(after)));
        let (finding, chance) = compare(before, after);
        v1::ReportFinding {
            name: name.to_owned(),
            before: before.rate(),
            after: after.rate(),
            chance,
            finding: match finding {
                Finding::Fewer => "fewer",
                Finding::More => "more",
                Finding::NoDifference => "no difference",
                Finding::TooLittle => "too little data",
            }
            .to_owned(),
        }
    };
    rows.into_iter().map(finding).collect()
}

fn sorted(values: &[u64]) -> Vec<u64> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values
}

/// The value below which that many percent lie, by the nearest rank.
fn at_share(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

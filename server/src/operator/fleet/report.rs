//! What a revision changed, on recorded facts.

mod side;

use std::collections::BTreeSet;

use fleetbeat_liveness::policy::{Attributes, PolicySet};
use fleetbeat_liveness::whatif::TOGETHER;
use fleetbeat_proto::v1;
use time::Duration;
use uuid::Uuid;

use super::super::Trouble;
use super::tuning::trouble;
use super::{Parts, message};
use crate::store::silences::Span;
use crate::store::tuning::Revision;
use crate::tuning::{Failed, policies_of};
use side::{Side, findings};

const WINDOW: Duration = Duration::DAY;
const WINDOW_LEAST: Duration = Duration::MINUTE;
const WINDOW_MOST: Duration = Duration::days(30);
/// Revisions around it that are looked at.
const NEIGHBOURS: u32 = 200;

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
    /// What happens within this is of one event: agents find one outage up to T apart.
    together: std::time::Duration,
}

/// What is compared on either side, and why it is not more.
struct Window {
    length: Duration,
    because: String,
}

impl Changed {
    async fn by(parts: &Parts, made: &Revision) -> Result<Self, Failed> {
        let before = parts.desk.stored(made.draft.parent).await?;
        let after = policies_of(made)?;
        let (mut agents, mut attributes) = (Vec::new(), Vec::new());
        let (mut groups, mut others) = (BTreeSet::new(), BTreeSet::new());
        let mut together = TOGETHER;
        for agent in parts.registry.agents() {
            let known = agent.facts().attributes(agent.id);
            if differs(&before, &after, &known) {
                for policies in [&before, &after] {
                    together = together.max(policies.effective(&known).tuning.tuning.interval());
                }
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
            together,
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
        let mut around = parts.store.revisions(Some(newest), 2 * NEIGHBOURS).await?;
        let apart = |other: &Revision| (other.draft.created_at - at).abs();
        around.sort_by_key(apart);
        for other in around
            .iter()
            .filter(|other| other.revision != made.revision)
        {
            if apart(other) >= window.length {
                break;
            }
            let parent = around
                .iter()
                .find(|known| known.revision == other.draft.parent);
            let before = match parent {
                Some(parent) => policies_of(parent)?,
                None => parts.desk.stored(other.draft.parent).await?,
            };
            let after = policies_of(other)?;
            if self
                .attributes
                .iter()
                .any(|agent| differs(&before, &after, agent))
            {
                window.at_most(apart(other), || {
                    format!("revision {} changed some of them too", other.revision)
                });
                break;
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

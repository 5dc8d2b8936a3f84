//! Everybody counted once: what `/metrics` and the status page both tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::condition::Condition;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::verdict::Verdict;
use parking_lot::Mutex;

use crate::registry::Registry;
use crate::tuning::drifting;

/// Groups that are counted by name; the rest is `other`.
pub(super) const GROUPS: usize = 1_000;
pub(super) const OTHER: &str = "other";
/// A count this young is told again: counting a large fleet takes a while.
const FRESH: Duration = Duration::from_secs(1);

/// Agents by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    pub online: u64,
    pub suspect: u64,
    pub offline: u64,
    pub left: u64,
    pub unknown: u64,
}

impl Verdicts {
    fn count(&mut self, verdict: Verdict) {
        *match verdict {
            Verdict::Online => &mut self.online,
            Verdict::Suspect => &mut self.suspect,
            Verdict::Offline => &mut self.offline,
            Verdict::Left => &mut self.left,
            Verdict::Unknown => &mut self.unknown,
        } += 1;
    }

    /// Counts with the verdict that each belongs to.
    #[must_use]
    pub fn by_verdict(&self) -> [(Verdict, u64); 5] {
        [
            (Verdict::Online, self.online),
            (Verdict::Suspect, self.suspect),
            (Verdict::Offline, self.offline),
            (Verdict::Left, self.left),
            (Verdict::Unknown, self.unknown),
        ]
    }
}

/// The fleet at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub all: Verdicts,
    /// By group; at most 1,000 and `other`.
    pub groups: BTreeMap<String, Verdicts>,
    /// Live agents that do not run what the policies want.
    pub drifting: u64,
    /// Agents with each condition, in the order of [`Condition::ALL`].
    pub conditions: [u64; Condition::ALL.len()],
}

/// Counts the fleet, at most once a second.
#[derive(Debug)]
pub struct Census {
    registry: Arc<Registry>,
    last: Mutex<Option<(Moment, Arc<Counted>)>>,
}

impl Census {
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Arc<Self> {
        Arc::new(Self {
            registry,
            last: Mutex::default(),
        })
    }

    /// The fleet, as it was at most a second ago.
    #[must_use]
    pub fn take(&self) -> Arc<Counted> {
        let now = self.registry.clock().now();
        let mut last = self.last.lock();
        if let Some((at, counted)) = &*last
            && now.since(*at) < FRESH
        {
            return Arc::clone(counted);
        }
        let counted = Arc::new(count(&self.registry));
        *last = Some((now, Arc::clone(&counted)));
        counted
    }
}

fn count(registry: &Registry) -> Counted {
    let mut counted = Counted::default();
    for agent in registry.agents() {
        let verdict = agent.watch().verdict;
        let facts = agent.facts();
        counted.all.count(verdict);
        for condition in agent.conditions() {
            counted.conditions[condition as usize] += 1;
        }
        if let Some(group) = counted.groups.get_mut(&facts.group) {
            group.count(verdict);
        } else {
            let name = if counted.groups.len() < GROUPS {
                &facts.group
            } else {
                OTHER
            };
            counted
                .groups
                .entry(name.to_owned())
                .or_default()
                .count(verdict);
        }
    }
    counted.drifting = drifting(registry, &registry.policies());
    counted
}

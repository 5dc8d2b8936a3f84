//! What a change does to the fleet's load, and whether it exceeds what the fleet is limited to.

use std::collections::HashMap;

use fleetbeat_liveness::bounds::{Bounds, Breach, Load};
use fleetbeat_liveness::policy::PolicySet;
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_liveness::verdict::Verdict;

use crate::registry::Registry;

/// Agents counted before other tasks of the control runtime get their turn.
const AT_ONCE: usize = 1_000;

/// The fleet's load under two policy sets: every known agent that has not said goodbye, connected or not,
/// because who is away may come back. Policies without agents are there with nobody.
#[derive(Debug)]
pub(super) struct Projection {
    before: Vec<Load>,
    after: Vec<Load>,
}

impl Projection {
    pub(super) async fn of(registry: &Registry, before: &PolicySet, after: &PolicySet) -> Self {
        let [mut members_before, mut members_after] = [empty(before), empty(after)];
        for agents in registry.agents().chunks(AT_ONCE) {
            let known = agents
                .iter()
                .filter(|agent| agent.watch().verdict != Verdict::Left);
            for agent in known {
                let attributes = agent.facts().attributes(agent.id);
                let tuning = |policies: &PolicySet| policies.effective(&attributes).tuning.tuning;
                *members_before.entry(tuning(before)).or_default() += 1;
                *members_after.entry(tuning(after)).or_default() += 1;
            }
            tokio::task::yield_now().await;
        }
        Self {
            before: loads(members_before),
            after: loads(members_after),
        }
    }

    /// Expected heartbeats per second before and after.
    pub(super) fn beats_per_second(&self) -> (f64, f64) {
        (beats(&self.before), beats(&self.after))
    }

    /// Limits that the change exceeds. What exceeds one already and does not get worse is not the
    /// change's doing.
    pub(super) fn exceeded(&self, bounds: &Bounds) -> Vec<Breach> {
        let before = bounds.breaches(&self.before);
        let worse = |breach: &Breach| match breach {
            Breach::BeatsAboveCeiling { given, .. } => *given > beats(&self.before),
            Breach::IntervalBelowFloor { .. } | Breach::DeadlineAboveCeiling { .. } => {
                !before.contains(breach)
            }
        };
        bounds
            .breaches(&self.after)
            .into_iter()
            .filter(worse)
            .collect()
    }
}

fn empty(policies: &PolicySet) -> HashMap<Tuning, u32> {
    let examples = policies
        .policies()
        .iter()
        .map(|policy| policy.selector.example());
    examples
        .map(|example| (policies.effective(&example).tuning.tuning, 0))
        .collect()
}

fn loads(members: HashMap<Tuning, u32>) -> Vec<Load> {
    let mut loads: Vec<Load> = members
        .into_iter()
        .map(|(tuning, members)| Load { tuning, members })
        .collect();
    loads.sort_by_key(|load| (load.tuning.interval(), load.tuning.deadline()));
    loads
}

fn beats(loads: &[Load]) -> f64 {
    loads.iter().map(Load::beats_per_second).sum()
}

//! Of whom a candidate speaks.

use std::collections::HashSet;

use fleetbeat_liveness::policy::{Attributes, PolicySet};
use fleetbeat_liveness::rollout::AgentId;
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_liveness::verdict::Verdict;

use crate::registry::Registry;

/// Agents visited before other tasks of the control runtime get their turn.
const AT_ONCE: usize = 1_000;

/// Who has another value by `candidate` than by `last_good`, as far as this server knows them.
#[derive(Clone, Debug, Default)]
pub(in crate::tuning) struct Affected {
    /// Those with a session: who is away is not waited for.
    pub connected: Vec<AgentId>,
    /// What the candidate gives them, and agents that may still come.
    pub tunings: HashSet<Tuning>,
}

impl Affected {
    pub(in crate::tuning) async fn of(
        registry: &Registry,
        candidate: &PolicySet,
        last_good: &PolicySet,
    ) -> Self {
        let mut affected = Self::default();
        for policy in candidate.policies().iter().chain(last_good.policies()) {
            let example = policy.selector.example();
            affected
                .tunings
                .extend(given(candidate, last_good, &example));
        }
        for agents in registry.agents().chunks(AT_ONCE) {
            for agent in agents {
                let presence = agent.presence();
                if presence.verdict == Verdict::Left {
                    continue;
                }
                let attributes = agent.facts().attributes(agent.id);
                let Some(tuning) = given(candidate, last_good, &attributes) else {
                    continue;
                };
                affected.tunings.insert(tuning);
                if presence.session.is_some() {
                    affected.connected.push(agent.id.into_bytes());
                }
            }
            tokio::task::yield_now().await;
        }
        affected
    }
}

/// What the candidate gives an agent, if it is something else.
fn given(candidate: &PolicySet, last_good: &PolicySet, agent: &Attributes) -> Option<Tuning> {
    let new = candidate.effective(agent).tuning.tuning;
    (new != last_good.effective(agent).tuning.tuning).then_some(new)
}

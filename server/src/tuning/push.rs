//! From a policy set to live sessions.

use std::sync::Arc;

use fleetbeat_liveness::policy::PolicySet;
use fleetbeat_liveness::retune::Revised;

use super::Ledger;
use crate::registry::{Registry, Session};

/// Agents visited before other tasks of the control runtime get their turn.
const AT_ONCE: usize = 1_000;

/// Sends every live session the value of `policies` where it differs from what it was sent last, and
/// begins the ledger's account. Returns how many got one.
pub(super) async fn push(
    registry: &Registry,
    ledger: &Ledger,
    policies: &PolicySet,
    traceparent: &str,
) -> u64 {
    let revision = policies.revision();
    ledger.open(revision);
    let mut sent = 0;
    for agents in registry.agents().chunks(AT_ONCE) {
        for session in agents.iter().filter_map(|agent| agent.session()) {
            let Some(desired) = differing(policies, &session) else {
                continue;
            };
            ledger.expect(revision, &session);
            if registry.push(&session, desired, traceparent) {
                ledger.sent(revision, &session);
                sent += 1;
            } else {
                ledger.withdraw(revision, &session);
            }
        }
        tokio::task::yield_now().await;
    }
    ledger.seal(revision);
    sent
}

/// How many live sessions would be sent something.
pub(super) fn targets(registry: &Registry, policies: &PolicySet) -> u64 {
    let agents = registry.agents();
    let sessions = agents.iter().filter_map(|agent| agent.session());
    count(sessions.filter(|session| differing(policies, session).is_some()))
}

/// Live agents that do not run what `policies` want: not answered yet, or refused.
#[must_use]
pub fn drifting(registry: &Registry, policies: &PolicySet) -> u64 {
    let agents = registry.agents();
    let sessions = agents.iter().filter_map(|agent| agent.session());
    count(sessions.filter(|session| {
        desired(policies, session).tuning != session.in_force().tuning
            || session.waiting_for().is_some()
    }))
}

fn desired(policies: &PolicySet, session: &Session) -> Revised {
    let attributes = session.agent.facts().attributes(session.agent.id);
    policies.effective(&attributes).tuning
}

fn differing(policies: &PolicySet, session: &Arc<Session>) -> Option<Revised> {
    let desired = desired(policies, session);
    let last_sent = session.waiting_for().unwrap_or_else(|| session.in_force());
    (desired.tuning != last_sent.tuning).then_some(desired)
}

fn count(items: impl Iterator) -> u64 {
    u64::try_from(items.count()).unwrap_or(u64::MAX)
}

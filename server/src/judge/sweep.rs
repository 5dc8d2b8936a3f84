use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::moment::Moment;

use crate::registry::{Agent, Registry};

/// Time between the beginning of one round and the next, at least.
const EVERY: Duration = Duration::from_secs(1);
/// Agents looked at in one pass.
const BATCH: usize = 500;

/// Looks again at conditions that time alone may end, a few at a time: verdicts do not wait for it.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    began: Moment,
    waiting: Vec<Arc<Agent>>,
}

impl Sweep {
    /// Returns how many were looked at.
    pub(super) fn pass(&mut self, registry: &Registry, now: Moment) -> usize {
        if self.waiting.is_empty() && now.since(self.began) >= EVERY {
            self.began = now;
            registry.take_flagged(&mut self.waiting);
        }
        let batch = self.waiting.len().min(BATCH);
        let rest = self.waiting.len() - batch;
        for agent in self.waiting.drain(rest..) {
            registry.review(&agent);
        }
        batch
    }
}

//! Which members a phase reaches.

use std::time::Duration;

use sha2::{Digest, Sha256};

pub type AgentId = [u8; 16];

/// How many of the connected members a phase reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// 1 to 100: a threshold on the rank, and the first by rank in any case.
    Percent(u32),
    /// At least 1: the first so many by rank among those connected at the push.
    Count(u32),
}

/// One step of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    pub size: Size,
    /// How long it is watched before the next one.
    pub soak: Duration,
}

/// Who has the candidate: part of a revision, so that an agent's tuning follows from the revision and
/// its id alone and a reconnect jumps no phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    pub seed: u64,
    /// The highest rank that has the candidate.
    pub reach: u64,
}

impl Split {
    #[must_use]
    pub fn includes(&self, agent: &AgentId) -> bool {
        rank(self.seed, agent) <= self.reach
    }

    /// Nobody is left on the last good revision.
    #[must_use]
    pub fn is_everyone(&self) -> bool {
        self.reach == u64::MAX
    }

    /// The split of `size`, which keeps everyone that `before` had.
    pub(super) fn of(size: Size, seed: u64, connected: &[AgentId], before: Option<Self>) -> Self {
        let mut ranks: Vec<u64> = connected.iter().map(|agent| rank(seed, agent)).collect();
        ranks.sort_unstable();
        let reach = match size {
            Size::Percent(percent) => threshold(percent).max(nth(&ranks, 1)),
            Size::Count(count) => nth(&ranks, count),
        };
        let reach = reach.max(before.map_or(0, |split| split.reach));
        Self { seed, reach }
    }
}

/// Where an agent stands in a rollout's order: the first 8 bytes, big endian, of SHA-256 over the seed
/// as 8 bytes big endian and the agent's id.
#[must_use]
pub fn rank(seed: u64, agent: &AgentId) -> u64 {
    let mut digest = Sha256::new();
    digest.update(seed.to_be_bytes());
    digest.update(agent);
    let mut first = [0; 8];
    first.copy_from_slice(&digest.finalize()[..8]);
    u64::from_be_bytes(first)
}

fn threshold(percent: u32) -> u64 {
    let share = u128::from(u64::MAX) * u128::from(percent.min(100)) / 100;
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The `n`-th smallest rank, the last when there are fewer, 0 when there is none.
fn nth(ranks: &[u64], n: u32) -> u64 {
    let n = usize::try_from(n).unwrap_or(usize::MAX).min(ranks.len());
    n.checked_sub(1).map_or(0, |at| ranks[at])
}

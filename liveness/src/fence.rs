//! Which of two sessions of one agent is the newer.

use std::fmt;

/// Orders the sessions of one agent: by `incarnation` (raised at every start of the process), then by
/// `connection` (counts the connections of one incarnation). The highest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    pub incarnation: u64,
    pub connection: u64,
}

impl Fence {
    /// The first fence of the next incarnation: what an agent takes that was told this floor.
    #[must_use]
    pub const fn above(self) -> Self {
        Self {
            incarnation: self.incarnation.saturating_add(1),
            connection: 1,
        }
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.incarnation, self.connection)
    }
}

/// One run of the agent process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub [u8; 16]);

/// Highest fence that is known of an agent, and which instance spoke under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub fence: Fence,
    pub instance: InstanceId,
}

/// What a Hello means beside what is known of its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Nothing was known of this agent.
    First,
    /// Higher than the holder, which it replaces.
    Takeover,
    /// Not higher than the holder: the agent has to come back above `floor`.
    Stale { floor: Fence },
    /// One incarnation under two instance ids: a copy of the agent is running.
    Twins,
}

/// Judges a Hello against the highest fence known of its agent.
#[must_use]
pub fn claim(holder: Option<&Held>, fence: Fence, instance: InstanceId) -> Claim {
    let Some(held) = holder else {
        return Claim::First;
    };
    if fence.incarnation == held.fence.incarnation && instance != held.instance {
        return Claim::Twins;
    }
    if fence > held.fence {
        Claim::Takeover
    } else {
        Claim::Stale { floor: held.fence }
    }
}

/// [`claim`] where a second instance id proves no twin, because the incarnation was not persisted
/// (Hello's `volatile_state`) or because the holder no longer has a session and the host was restored
/// from an image: [`Claim::Twins`] becomes [`Claim::Stale`], so that the agent comes back above the floor
/// instead of staying locked out.
#[must_use]
pub fn claim_without_proof(holder: Option<&Held>, fence: Fence, instance: InstanceId) -> Claim {
    match (claim(holder, fence, instance), holder) {
        (Claim::Twins, Some(held)) => Claim::Stale { floor: held.fence },
        (other, _) => other,
    }
}

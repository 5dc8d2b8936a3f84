//! Whether two agents run under one identity, which a copied state directory or a cloned machine makes.
//!
//! One incarnation under two instance ids proves it at once ([`crate::fence::Claim::Twins`]). Two copies
//! that were started one after the other have different incarnations and take the seat from each
//! other for ever; what proves them is that an instance speaks again *after another instance had replaced
//! it*: an instance is one run of a process, so the process that was thought dead runs. Copies of a
//! machine's memory share even the instance; they show as one instance that changes between two addresses
//! while the session it replaces is still alive, over and over.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use crate::fence::InstanceId;
use crate::moment::Moment;

/// Instances that were replaced and are remembered.
const REMEMBERED: usize = 8;
/// Changes of address, there and back, that make one instance two.
const CHANGES: usize = 3;
/// Within this time.
const CHANGES_WITHIN: Duration = Duration::from_mins(30);
/// Twins count as such for so long after the last proof: a parked twin asks again after at most 10 minutes.
pub const REMAINS: Duration = Duration::from_mins(30);

/// What is remembered of the instances of one agent.
#[derive(Debug, Clone, Default)]
pub struct Twins {
    /// Instances that another one replaced, oldest first.
    replaced: VecDeque<InstanceId>,
    /// Whoever has the seat, and from where.
    holder: Option<(InstanceId, IpAddr)>,
    /// When one instance changed between the same two addresses although its session was alive.
    changes: VecDeque<Moment>,
    /// The address before the last change.
    other: Option<IpAddr>,
    proved: Option<Moment>,
}

impl Twins {
    /// Whether a Hello of `instance` proves that two run: it was replaced by another one before.
    #[must_use]
    pub fn returns(&self, instance: InstanceId) -> bool {
        let replaced = self.replaced.contains(&instance);
        replaced && self.holder.is_none_or(|(holder, _)| holder != instance)
    }

    /// There is proof, from elsewhere or from [`Twins::returns`].
    pub fn prove(&mut self, now: Moment) {
        self.proved = Some(now);
    }

    /// `instance` took the seat from `address`; `alive` when the session it replaced was.
    pub fn seated(&mut self, instance: InstanceId, address: IpAddr, alive: bool, now: Moment) {
        if let Some((before, from)) = self.holder.replace((instance, address)) {
            if before != instance {
                self.replace(before);
            } else if from != address && alive {
                self.changed(from, address, now);
            }
        }
        self.replaced.retain(|replaced| *replaced != instance);
    }

    /// Whether twins were proved lately.
    #[must_use]
    pub fn proved(&self, now: Moment) -> bool {
        self.proved
            .is_some_and(|proved| now.since(proved) < REMAINS)
    }

    fn replace(&mut self, instance: InstanceId) {
        self.changes.clear();
        self.other = None;
        if self.replaced.len() == REMEMBERED {
            self.replaced.pop_front();
        }
        self.replaced.push_back(instance);
    }

    fn changed(&mut self, from: IpAddr, to: IpAddr, now: Moment) {
        if self.other.replace(from) != Some(to) {
            // A third address is a host on the move.
            self.changes.clear();
        }
        self.changes.push_back(now);
        self.changes
            .retain(|change| now.since(*change) < CHANGES_WITHIN);
        if self.changes.len() >= CHANGES {
            self.changes.pop_front();
            self.prove(now);
        }
    }
}

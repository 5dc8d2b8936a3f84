use std::collections::HashMap;
use std::time::Duration;

use super::effective::fold;
use super::{Attributes, Effective, Policy, Selector};
use crate::rollout::Split;
use crate::tuning::Tuning;

/// All policies under one revision: a value that never changes. What an agent should run follows from
/// it and the agent's attributes alone, so that a reconnect changes nothing.
#[derive(Debug, Clone, Default)]
pub struct PolicySet {
    revision: u64,
    policies: Indexed,
    staged: Option<(Split, Indexed)>,
}

/// Policies that only a part of the fleet has, while a rollout is on its way.
#[derive(Debug, Clone, Copy)]
pub struct Staged<'a> {
    pub split: Split,
    /// What those within the split have, instead of [`PolicySet::policies`].
    pub policies: &'a [Policy],
}

impl PolicySet {
    /// Later policies go before earlier ones. Of two with the same name the later one stays, in the place
    /// of the earlier.
    #[must_use]
    pub fn new(revision: u64, policies: impl IntoIterator<Item = Policy>) -> Self {
        Self {
            revision,
            policies: Indexed::new(policies),
            staged: None,
        }
    }

    /// The same, with `candidate` for the agents within `split`; for everybody when that is everyone.
    #[must_use]
    pub fn staged_to(&self, split: Split, candidate: &Self) -> Self {
        if split.is_everyone() {
            return candidate.at_revision(self.revision);
        }
        Self {
            revision: self.revision,
            policies: self.policies.clone(),
            staged: Some((split, candidate.policies.clone())),
        }
    }

    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// In order: of several that give a value the last one holds.
    #[must_use]
    pub fn policies(&self) -> &[Policy] {
        &self.policies.ordered
    }

    #[must_use]
    pub fn staged(&self) -> Option<Staged<'_>> {
        self.staged.as_ref().map(|(split, policies)| Staged {
            split: *split,
            policies: &policies.ordered,
        })
    }

    /// The policies without what is staged.
    #[must_use]
    pub fn unstaged(&self) -> Self {
        Self {
            revision: self.revision,
            policies: self.policies.clone(),
            staged: None,
        }
    }

    /// The policy of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Policy> {
        self.policies().iter().find(|policy| policy.name == name)
    }

    /// What applies to an agent that only the policies of the whole fleet speak of.
    #[must_use]
    pub fn default_tuning(&self) -> Tuning {
        let fleet = self
            .policies()
            .iter()
            .filter(|policy| policy.selector.is_fleet());
        fold(self.revision, fleet, false).tuning.tuning
    }

    #[must_use]
    pub fn effective(&self, attributes: &Attributes) -> Effective {
        let staged = self.staged.as_ref();
        let staged = staged.filter(|(split, _)| split.includes(&attributes.agent_id));
        let policies = staged.map_or(&self.policies, |(_, candidate)| candidate);
        fold(
            self.revision,
            policies.matching(attributes),
            staged.is_some(),
        )
    }

    /// The next revision, in which the policy of that name is `policy`. It keeps the place of the one it
    /// replaces; a policy of its own name goes behind all that are not more specific.
    #[must_use]
    pub fn with(&self, policy: Policy) -> Self {
        let mut policies = self.policies().to_vec();
        if let Some(at) = policies.iter().position(|known| known.name == policy.name) {
            policies[at] = policy;
        } else {
            let broader = |known: &Policy| known.selector.breadth() <= policy.selector.breadth();
            let at = policies.iter().rposition(broader).map_or(0, |at| at + 1);
            policies.insert(at, policy);
        }
        Self::new(self.revision.saturating_add(1), policies)
    }

    /// The next revision, in which no policy has this name.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let others = self.policies().iter().filter(|policy| policy.name != name);
        Self::new(self.revision.saturating_add(1), others.cloned())
    }

    /// The same without the policies, staged ones too, whose time is over by `now`: wall time since the
    /// Unix epoch.
    #[must_use]
    pub fn without_expired(&self, now: Duration) -> Self {
        let lasting = |policies: &Indexed| {
            let lasts = |policy: &&Policy| policy.expires_at.is_none_or(|at| at > now);
            Indexed::new(policies.ordered.iter().filter(lasts).cloned())
        };
        let staged = self.staged.as_ref();
        Self {
            revision: self.revision,
            policies: lasting(&self.policies),
            staged: staged.map(|(split, policies)| (*split, lasting(policies))),
        }
    }

    /// Names of the policies, staged ones too, whose time is over by `now`, each once and in their order.
    #[must_use]
    pub fn expired(&self, now: Duration) -> Vec<&str> {
        let staged = self.staged().map(|staged| staged.policies);
        let all = self.policies().iter().chain(staged.unwrap_or_default());
        let over = all.filter(|policy| policy.expires_at.is_some_and(|at| at <= now));
        let mut names: Vec<&str> = Vec::new();
        for policy in over {
            if !names.contains(&policy.name.as_str()) {
                names.push(&policy.name);
            }
        }
        names
    }

    /// When the next policy's time is over: wall time since the Unix epoch.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Duration> {
        let staged = self
            .staged
            .iter()
            .flat_map(|(_, policies)| &policies.ordered);
        let all = self.policies.ordered.iter().chain(staged);
        all.filter_map(|policy| policy.expires_at).min()
    }

    /// The same under another revision: what a rollback is, or a draft that got its number.
    #[must_use]
    pub fn at_revision(&self, revision: u64) -> Self {
        Self {
            revision,
            ..self.clone()
        }
    }

    /// What differs from `older`, a line per policy in the order of names, then order and staging; empty
    /// when nothing does.
    #[must_use]
    pub fn changes(&self, older: &Self) -> Vec<String> {
        super::diff::changes(self, older)
    }

    /// The policy that speaks of exactly this selector and stays for good: the last one, which holds.
    #[must_use]
    pub fn lasting(&self, selector: &Selector) -> Option<&Policy> {
        let lasting =
            |policy: &&Policy| policy.selector == *selector && policy.expires_at.is_none();
        self.policies().iter().rev().find(lasting)
    }
}

/// By revision, policies and staging; the index follows from them.
impl PartialEq for PolicySet {
    fn eq(&self, other: &Self) -> bool {
        let staged = |set: &Self| {
            set.staged()
                .map(|staged| (staged.split, staged.policies.to_vec()))
        };
        self.revision == other.revision
            && self.policies() == other.policies()
            && staged(self) == staged(other)
    }
}

impl Eq for PolicySet {}

/// Policies with a way to those that may match, because a retune asks for every agent.
#[derive(Debug, Clone, Default)]
struct Indexed {
    ordered: Vec<Policy>,
    /// Places in `ordered` of those that name the group or none.
    of_group: HashMap<String, Vec<usize>>,
    /// Places of those that name no group.
    of_any_group: Vec<usize>,
}

impl Indexed {
    fn new(policies: impl IntoIterator<Item = Policy>) -> Self {
        let mut ordered: Vec<Policy> = Vec::new();
        let mut place: HashMap<String, usize> = HashMap::new();
        for policy in policies {
            if let Some(at) = place.get(&policy.name) {
                ordered[*at] = policy;
            } else {
                place.insert(policy.name.clone(), ordered.len());
                ordered.push(policy);
            }
        }
        let of_any_group: Vec<usize> = places(&ordered, None);
        let groups = ordered
            .iter()
            .filter_map(|policy| policy.selector.group.clone());
        let mut of_group: HashMap<String, Vec<usize>> =
            groups.map(|group| (group, Vec::new())).collect();
        for (at, policy) in ordered.iter().enumerate() {
            match &policy.selector.group {
                Some(group) => of_group.entry(group.clone()).or_default().push(at),
                None => of_group.values_mut().for_each(|places| places.push(at)),
            }
        }
        Self {
            ordered,
            of_group,
            of_any_group,
        }
    }

    /// Those that match, in order.
    fn matching<'a>(&'a self, attributes: &'a Attributes) -> impl Iterator<Item = &'a Policy> {
        let places = self
            .of_group
            .get(&attributes.group)
            .unwrap_or(&self.of_any_group);
        let candidates = places.iter().map(|at| &self.ordered[*at]);
        candidates.filter(|policy| policy.selector.matches(attributes))
    }
}

fn places(ordered: &[Policy], group: Option<&String>) -> Vec<usize> {
    let of_it = ordered
        .iter()
        .enumerate()
        .filter(|(_, policy)| policy.selector.group.as_ref() == group);
    of_it.map(|(at, _)| at).collect()
}

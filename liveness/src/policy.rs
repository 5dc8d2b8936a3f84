//! Which tuning an agent should have.

use std::collections::BTreeMap;
use std::fmt;

use crate::retune::Revised;
use crate::tuning::Tuning;

/// What policies may select an agent by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    pub agent_id: [u8; 16],
    pub group: String,
    pub labels: BTreeMap<String, String>,
}

/// Which agents a policy speaks of. Later variants are more specific.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// All agents: the fleet's default.
    Fleet,
    Group(String),
}

impl Selector {
    #[must_use]
    pub fn matches(&self, attributes: &Attributes) -> bool {
        match self {
            Self::Fleet => true,
            Self::Group(group) => *group == attributes.group,
        }
    }
}

/// `fleet` or `group web`.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fleet => f.write_str("fleet"),
            Self::Group(group) => write!(f, "group {group}"),
        }
    }
}

/// A whole tuning for the agents of a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub selector: Selector,
    pub tuning: Tuning,
}

/// Where an effective tuning comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Because {
    Policy(Selector),
    /// No policy speaks of the agent: the built-in tuning.
    Default,
}

/// `policy of group web` or `built-in default`.
impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(selector) => write!(f, "policy of {selector}"),
            Self::Default => f.write_str("built-in default"),
        }
    }
}

/// What an agent should run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    pub tuning: Revised,
    pub because: Because,
}

/// All policies under one revision: a value that never changes. An agent takes the whole tuning of the
/// most specific policy that matches it, so no mix of two policies ever comes into force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySet {
    revision: u64,
    /// Ordered by selector, each at most once.
    policies: Vec<Policy>,
}

impl PolicySet {
    /// Of two policies with the same selector the later one holds.
    #[must_use]
    pub fn new(revision: u64, policies: impl IntoIterator<Item = Policy>) -> Self {
        let by_selector: BTreeMap<_, _> = policies
            .into_iter()
            .map(|policy| (policy.selector, policy.tuning))
            .collect();
        let policies = by_selector
            .into_iter()
            .map(|(selector, tuning)| Policy { selector, tuning })
            .collect();
        Self { revision, policies }
    }

    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Least specific first: the fleet, then groups by name.
    #[must_use]
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The tuning that a policy gives to exactly this selector.
    #[must_use]
    pub fn get(&self, selector: &Selector) -> Option<Tuning> {
        let at = self
            .policies
            .binary_search_by(|policy| policy.selector.cmp(selector))
            .ok()?;
        Some(self.policies[at].tuning)
    }

    /// What applies where no group's policy speaks.
    #[must_use]
    pub fn default_tuning(&self) -> Tuning {
        self.get(&Selector::Fleet).unwrap_or_default()
    }

    #[must_use]
    pub fn effective(&self, attributes: &Attributes) -> Effective {
        let (tuning, because) = match self.most_specific(attributes) {
            Some(policy) => (policy.tuning, Because::Policy(policy.selector.clone())),
            None => (Tuning::default(), Because::Default),
        };
        Effective {
            tuning: Revised {
                revision: self.revision,
                tuning,
            },
            because,
        }
    }

    /// The next revision, in which `selector` has `tuning`.
    #[must_use]
    pub fn with(&self, selector: Selector, tuning: Tuning) -> Self {
        let policies = self
            .policies
            .iter()
            .cloned()
            .chain([Policy { selector, tuning }]);
        Self::new(self.revision.saturating_add(1), policies)
    }

    /// The next revision, in which `selector` has no policy.
    #[must_use]
    pub fn without(&self, selector: &Selector) -> Self {
        let policies = self
            .policies
            .iter()
            .filter(|policy| policy.selector != *selector)
            .cloned();
        Self::new(self.revision.saturating_add(1), policies)
    }

    /// The same policies under another revision: what a rollback is, or a draft that got its number.
    #[must_use]
    pub fn at_revision(&self, revision: u64) -> Self {
        Self {
            revision,
            policies: self.policies.clone(),
        }
    }

    /// What differs from `older`, a line per policy in the order of selectors; empty when nothing does.
    #[must_use]
    pub fn changes(&self, older: &Self) -> Vec<String> {
        let mut pairs: BTreeMap<&Selector, (Option<Tuning>, Option<Tuning>)> = BTreeMap::new();
        for policy in &older.policies {
            pairs.entry(&policy.selector).or_default().0 = Some(policy.tuning);
        }
        for policy in &self.policies {
            pairs.entry(&policy.selector).or_default().1 = Some(policy.tuning);
        }
        pairs
            .into_iter()
            .filter_map(|(selector, change)| match change {
                (Some(was), Some(is)) if was != is => Some(format!("{selector}: {was} → {is}")),
                (None, Some(is)) => Some(format!("{selector}: set to {is}")),
                (Some(was), None) => Some(format!("{selector}: removed, was {was}")),
                (Some(_), Some(_)) | (None, None) => None,
            })
            .collect()
    }

    /// Compares one name per step instead of every policy: a retune asks this for every agent.
    fn most_specific(&self, attributes: &Attributes) -> Option<&Policy> {
        let groups = self
            .policies
            .partition_point(|policy| policy.selector == Selector::Fleet);
        let (fleet, groups) = self.policies.split_at(groups);
        let found = groups.binary_search_by(|policy| match &policy.selector {
            Selector::Fleet => std::cmp::Ordering::Less,
            Selector::Group(group) => group.as_str().cmp(&attributes.group),
        });
        found.map_or(fleet.first(), |at| groups.get(at))
    }
}

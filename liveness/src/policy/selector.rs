use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::rollout::AgentId;

/// What policies may select an agent by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    pub agent_id: AgentId,
    pub group: String,
    pub labels: BTreeMap<String, String>,
}

/// Which agents a policy speaks of: those that meet all of what is set. Nothing set is everybody.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    pub group: Option<String>,
    /// One of these; empty is any.
    pub agents: BTreeSet<AgentId>,
    /// Each label present with one of its values.
    pub labels: BTreeMap<String, BTreeSet<String>>,
}

/// How much a selector narrows the fleet down. A policy that is not placed by hand goes behind all that
/// are not more specific.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Breadth {
    Fleet,
    Group,
    Labels,
    Agents,
}

impl Selector {
    /// Everybody.
    #[must_use]
    pub fn fleet() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn group(name: impl Into<String>) -> Self {
        Self {
            group: Some(name.into()),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn is_fleet(&self) -> bool {
        *self == Self::default()
    }

    #[must_use]
    pub fn matches(&self, attributes: &Attributes) -> bool {
        let has = |(key, values): (&String, &BTreeSet<String>)| {
            let value = attributes.labels.get(key);
            value.is_some_and(|value| values.contains(value))
        };
        self.group
            .as_ref()
            .is_none_or(|group| *group == attributes.group)
            && (self.agents.is_empty() || self.agents.contains(&attributes.agent_id))
            && self.labels.iter().all(has)
    }

    /// Attributes that match and have nothing that is not asked for.
    #[must_use]
    pub fn example(&self) -> Attributes {
        let first = |(key, values): (&String, &BTreeSet<String>)| {
            Some((key.clone(), values.first()?.clone()))
        };
        Attributes {
            agent_id: self.agents.first().copied().unwrap_or_default(),
            group: self.group.clone().unwrap_or_default(),
            labels: self.labels.iter().filter_map(first).collect(),
        }
    }

    /// What a policy of this selector is called when nobody names it: `fleet`, `group-web`; `selected`
    /// for what is neither.
    #[must_use]
    pub fn usual_name(&self) -> String {
        match (self.breadth(), &self.group) {
            (Breadth::Fleet, _) => "fleet".to_owned(),
            (Breadth::Group, Some(group)) => format!("group-{group}"),
            (Breadth::Group | Breadth::Labels | Breadth::Agents, _) => "selected".to_owned(),
        }
    }

    pub(super) fn breadth(&self) -> Breadth {
        if !self.agents.is_empty() {
            Breadth::Agents
        } else if !self.labels.is_empty() {
            Breadth::Labels
        } else if self.group.is_some() {
            Breadth::Group
        } else {
            Breadth::Fleet
        }
    }
}

/// `everybody`, or `group web, zone=a|b, 3 agents`.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_fleet() {
            return f.write_str("everybody");
        }
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.group.as_ref().map(|group| format!("group {group}")));
        for (key, values) in &self.labels {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            parts.push(format!("{key}={}", values.join("|")));
        }
        match self.agents.len() {
            0 => {}
            1 => parts.push("1 agent".to_owned()),
            n => parts.push(format!("{n} agents")),
        }
        f.write_str(&parts.join(", "))
    }
}

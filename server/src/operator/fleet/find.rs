//! Which agent a person means.

use std::sync::Arc;

use uuid::Uuid;

use super::super::Trouble;
use crate::registry::{Agent, Registry};

/// Shortest beginning of an id that is looked for.
const SHORTEST: usize = 4;
/// Agents that an ambiguity names.
const NAMED: usize = 3;

/// The agent with this id, this name, or the only one whose id begins so; in that order.
pub(super) fn agent(registry: &Registry, text: &str) -> Result<Arc<Agent>, Trouble> {
    if let Ok(id) = Uuid::parse_str(text) {
        let found = registry.get(id);
        return found.ok_or_else(|| Trouble::NotFound(format!("no agent has the id {id}")));
    }
    if text.is_empty() {
        return Err(Trouble::Wrong(
            "name an agent: its name, its id, or the id's beginning".into(),
        ));
    }
    let agents = registry.agents();
    let named: Vec<_> = agents
        .iter()
        .filter(|agent| agent.facts().name == text)
        .collect();
    if !named.is_empty() {
        return only(text, &named);
    }
    let prefix = text.to_ascii_lowercase();
    let searched = prefix.len() >= SHORTEST;
    let begun: Vec<_> = agents
        .iter()
        .filter(|agent| searched && begins(agent.id, &prefix))
        .collect();
    if begun.is_empty() {
        return Err(Trouble::NotFound(format!(
            "no agent is called `{text}` or has an id that begins so; `fleetbeat agents list` shows all"
        )));
    }
    only(text, &begun)
}

/// Whether the id, as it is written, begins with `prefix` (lower case).
pub(super) fn begins(id: Uuid, prefix: &str) -> bool {
    let mut buffer = Uuid::encode_buffer();
    id.hyphenated()
        .encode_lower(&mut buffer)
        .starts_with(prefix)
}

fn only(text: &str, found: &[&Arc<Agent>]) -> Result<Arc<Agent>, Trouble> {
    if let [agent] = found {
        return Ok(Arc::clone(agent));
    }
    let some = found.iter().take(NAMED);
    let some: Vec<_> = some
        .map(|agent| format!("{} ({})", agent.id, agent.facts().name))
        .collect();
    let more = if found.len() > NAMED { ", …" } else { "" };
    Err(Trouble::Wrong(format!(
        "`{text}` means {} agents: {}{more}; give more of the id",
        found.len(),
        some.join(", ")
    )))
}

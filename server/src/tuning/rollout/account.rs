//! Who did a step and why, for revisions and the audit.

use fleetbeat_liveness::rollout::{Change, State};
use time::OffsetDateTime;

use super::Course;
use super::course::{rolled_back, size_in_words};
use crate::store::audit;
use crate::tuning::Author;

/// A step that was done, of no rollout in particular.
pub(super) fn entry(author: &Author, action: &str, at: OffsetDateTime) -> audit::Entry {
    audit::Entry {
        at,
        actor: author.name.clone(),
        role: author.role.clone(),
        address: author.address.clone(),
        action: action.to_owned(),
        target: String::new(),
        outcome: "done".to_owned(),
        reason: author.reason.clone(),
        revision: None,
        before: None,
        after: None,
    }
}

/// Who a step is by that nobody asked for, and why.
pub(super) fn automatic(next: &Course, change: Option<&Change>) -> Author {
    let phases = next.rollout.plan.phases.len();
    let phase = next.rollout.progress.phase;
    let reason = match (&next.rollout.progress.state, change) {
        (State::RolledBack(finding), _) => rolled_back(finding),
        (_, Some(Change::Split(_))) => {
            let size = size_in_words(next.rollout.plan.phases[phase].size);
            format!(
                "phase {} of {phases}: {size}, after {} without harm",
                phase + 1,
                looks(next.rollout.plan.looks)
            )
        }
        _ => next.place(),
    };
    Author {
        name: format!("rollout {}", next.id),
        role: "server".to_owned(),
        address: String::new(),
        reason,
        traceparent: String::new(),
    }
}

fn looks(looks: u32) -> String {
    match looks {
        1 => "a look".to_owned(),
        looks => format!("{looks} looks"),
    }
}

pub(super) fn action(change: Option<&Change>) -> &'static str {
    match change {
        Some(Change::Split(_)) => "AdvanceRollout",
        Some(Change::LastGood) => "RollBackRollout",
        Some(Change::Completed) => "CompleteRollout",
        Some(Change::Paused) => "PauseRollout",
        None => "WatchRollout",
    }
}

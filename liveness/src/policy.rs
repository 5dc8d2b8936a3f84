//! Which tuning an agent should have.
//!
//! Policies are an ordered list. Each speaks of the agents that its [`Selector`] matches and gives them
//! some [`Values`]; where several give the same value the last one holds. T, N and W are one value (the
//! [`Cadence`]), so a mix of two policies never breaks a bound between them.

mod diff;
mod effective;
mod selector;
mod set;
mod values;

use std::time::Duration;

pub use effective::{Because, Effective, Sources, Yield};
pub use selector::{Attributes, Selector};
pub use set::{PolicySet, Staged};
pub use values::{Cadence, Value, Values};

/// Values for the agents of a selector, under a name that is unique within its set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub name: String,
    pub selector: Selector,
    pub values: Values,
    /// When somebody is to make a revision without it: wall time since the Unix epoch. What is in force
    /// never depends on it, so that a revision means the same at any time.
    pub expires_at: Option<Duration>,
}

impl Policy {
    /// All values of `tuning`, for good, under [`Selector::usual_name`].
    #[must_use]
    pub fn whole(selector: Selector, tuning: crate::Tuning) -> Self {
        Self {
            name: selector.usual_name(),
            selector,
            values: Values::of(tuning),
            expires_at: None,
        }
    }
}

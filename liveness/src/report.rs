//! Whether a rate changed between two times of watching.
//!
//! Counts are compared by the conditional test of two Poisson rates (Przyborowski and Wilenski 1940): of
//! all events those after are binomial with their share of the watched time. Two-sided, by twice the smaller
//! tail.

use crate::odds::binomial_at_least;

/// Chance with which a difference is claimed where there is none.
pub const ALPHA: f64 = 0.05;

/// Events in so much watched time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watched {
    pub events: u32,
    /// Agent-days.
    pub agent_days: f64,
}

/// What can be said of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    Fewer,
    More,
    /// There were enough events to show a difference, and none shows.
    NoDifference,
    /// So few events that even all of them on one side would show nothing.
    TooLittle,
}

impl Watched {
    /// Events per agent-day; `None` when nothing was watched.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (self.agent_days > 0.0).then(|| f64::from(self.events) / self.agent_days)
    }
}

/// Whether events became rarer or more frequent, and the chance of so much difference without a cause.
#[must_use]
pub fn compare(before: Watched, after: Watched) -> (Finding, Option<f64>) {
    let days = before.agent_days + after.agent_days;
    if before.agent_days <= 0.0 || after.agent_days <= 0.0 {
        return (Finding::TooLittle, None);
    }
    let all = before.events.saturating_add(after.events);
    let share = after.agent_days / days;
    let at_least = binomial_at_least(after.events, all, share);
    let at_most = binomial_at_least(before.events, all, 1.0 - share);
    let chance = (2.0 * at_least.min(at_most)).min(1.0);
    let all_after = binomial_at_least(all, all, share);
    let all_before = binomial_at_least(all, all, 1.0 - share);
    let clearest = 2.0 * all_after.min(all_before);
    let finding = if clearest > ALPHA {
        Finding::TooLittle
    } else if chance > ALPHA {
        Finding::NoDifference
    } else if at_least < at_most {
        Finding::More
    } else {
        Finding::Fewer
    };
    (finding, Some(chance))
}

//! Whether a rate changed between two times of watching.
//!
//! Counts are compared by the conditional test of two Poisson rates (Przyborowski and Wilenski 1940): of
//! all events those after are binomial with their share of the watched time. Two-sided, by twice the smaller
//! tail.
//!
//! The test holds for events that come alone, and one outage disconnects many. Both counts are therefore
//! divided by how many events come together, as an event sees it: Σn² / Σn over short spans of time with n
//! events each, of both sides. That is the variance of such a sum over its mean, and 1 when each came alone.

use crate::odds::binomial_at_least;

/// Chance with which a difference is claimed where there is none.
pub const ALPHA: f64 = 0.05;

/// Events in so much watched time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watched {
    pub events: u32,
    /// Sum over short spans of time of the square of the events in each; as `events` when each came alone.
    pub squares: u64,
    /// What may yet turn out to have been such an event.
    pub open: u32,
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
    /// So few events that even all of them on one side would show nothing, or so many are open that it
    /// depends on them.
    TooLittle,
}

/// Two rates, compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    pub finding: Finding,
    /// Of so much difference without a cause; `None` when nothing was watched.
    pub chance: Option<f64>,
    /// How many events came together.
    pub together: f64,
}

impl Watched {
    /// Events per agent-day; `None` when nothing was watched.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (self.agent_days > 0.0).then(|| f64::from(self.events) / self.agent_days)
    }

    fn most(&self) -> u32 {
        self.events.saturating_add(self.open)
    }
}

/// Whether events became rarer or more frequent. Said only where it holds whatever becomes of what is open.
#[must_use]
pub fn compare(before: Watched, after: Watched) -> Comparison {
    let together = together(&before, &after);
    let days = before.agent_days + after.agent_days;
    if before.agent_days <= 0.0 || after.agent_days <= 0.0 {
        return Comparison {
            finding: Finding::TooLittle,
            chance: None,
            together,
        };
    }
    let share = after.agent_days / days;
    let test =
        |before: u32, after: u32| test(alone(before, together), alone(after, together), share);
    let (favourable, gain) = test(before.most(), after.events);
    let (adverse, loss) = test(before.events, after.most());
    Comparison {
        finding: if favourable == adverse {
            favourable
        } else {
            Finding::TooLittle
        },
        chance: Some(gain.max(loss)),
        together,
    }
}

/// The conditional test of events that come alone, of which `share` are expected after.
fn test(before: u32, after: u32, share: f64) -> (Finding, f64) {
    let all = before.saturating_add(after);
    let at_least = binomial_at_least(after, all, share);
    let at_most = binomial_at_least(before, all, 1.0 - share);
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
    (finding, chance)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of counts")]
fn together(before: &Watched, after: &Watched) -> f64 {
    let events = u64::from(before.events) + u64::from(after.events);
    let squares = before.squares.saturating_add(after.squares);
    if events == 0 {
        1.0
    } else {
        (squares as f64 / events as f64).max(1.0)
    }
}

/// As many events that come alone.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most as many as before"
)]
fn alone(events: u32, together: f64) -> u32 {
    (f64::from(events) / together).round() as u32
}

//! The ages at which an agent's sessions were cut, and whether they cluster.

use std::collections::VecDeque;
use std::time::Duration;

/// Endings that are remembered.
const KEPT: usize = 8;
/// As many of them have to agree.
const AGREEING: usize = 3;
/// Ages agree that are within so many percent of their median.
const PERCENT: u32 = 3;
/// Below this, ages agree because nothing lives longer, not because something has a time-out.
const LEAST: Duration = Duration::from_secs(5);

/// How old a session was when the path ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// From its opening to its last message, or to the break when a break was seen.
    pub age: Duration,
    /// Time since the last message when the connection was seen to break. `None` when no break was seen:
    /// then the silence that ended the session is the length of a deadline of ours.
    pub idle: Option<Duration>,
}

/// The last endings of one agent for which the path was to blame.
#[derive(Debug, Clone, Default)]
pub struct Ages {
    /// Oldest first, at most [`KEPT`].
    cuts: VecDeque<Cut>,
}

/// What endings have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Connections are cut when nothing was said for so long.
    Idle { about: Duration, count: usize },
    /// Connections are cut at this age.
    Age { about: Duration, count: usize },
}

impl Ages {
    pub fn push(&mut self, cut: Cut) {
        if self.cuts.len() == KEPT {
            self.cuts.pop_front();
        }
        self.cuts.push_back(cut);
    }

    /// What the newest ending has in common with earlier ones, when at least three agree.
    #[must_use]
    pub fn pattern(&self) -> Option<Pattern> {
        let newest = self.cuts.back()?;
        let idle = self.cuts.iter().filter_map(|cut| cut.idle);
        let by_idle = newest.idle.and_then(|newest| cluster(idle, newest));
        let by_idle = by_idle.map(|(about, count)| Pattern::Idle { about, count });
        by_idle.or_else(|| {
            let (about, count) = cluster(self.cuts.iter().map(|cut| cut.age), newest.age)?;
            Some(Pattern::Age { about, count })
        })
    }
}

/// The middle of the ages that agree with the newest, and how many they are.
fn cluster(ages: impl Iterator<Item = Duration>, newest: Duration) -> Option<(Duration, usize)> {
    let near = |age: &Duration, middle: Duration, percent| {
        age.abs_diff(middle) <= middle.saturating_mul(percent) / 100
    };
    let mut ages: Vec<_> = ages.filter(|age| near(age, newest, 2 * PERCENT)).collect();
    ages.sort_unstable();
    let middle = *ages.get(ages.len() / 2)?;
    ages.retain(|age| near(age, middle, PERCENT));
    let agree = ages.len() >= AGREEING && near(&newest, middle, PERCENT) && middle >= LEAST;
    agree.then_some((middle, ages.len()))
}

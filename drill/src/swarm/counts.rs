use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::timings::{Stopwatch, Timings};

/// What one simulated agent did, exactly.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Sessions that were welcomed.
    pub sessions: u64,
    /// Attempts that ended before Welcome.
    pub failed_attempts: u64,
    /// Messages of any kind, PINGs among them, that were handed to the transport.
    pub messages: u64,
    /// PINGs that were handed to the transport.
    pub pings: u64,
    /// PINGs without an answer when their session ended otherwise than by a Goodbye that the server
    /// took: nobody can say whether it received them.
    pub in_doubt: u64,
    pub pongs: u64,
    /// Tunings applied and acknowledged.
    pub acks: u64,
    /// Tunings refused.
    pub refusals: u64,
    pub checks: u64,
    /// Sessions that ended by the server's Bye, by reason.
    pub byes: BTreeMap<String, u64>,
    /// Sessions that broke without a word.
    pub broken: u64,
    /// Sessions left because the server was silent.
    pub gave_up: u64,
    /// Whether the last session ended by a Goodbye after which the server ended the stream.
    pub left: bool,
    /// Longest time between two messages within a session.
    pub longest_gap_ns: u64,
}

impl Counts {
    /// Sessions after the first.
    #[must_use]
    pub fn reconnects(&self) -> u64 {
        self.sessions.saturating_sub(1)
    }

    /// PINGs that the server must have recorded.
    #[must_use]
    pub fn certain_pings(&self) -> u64 {
        self.pings.saturating_sub(self.in_doubt)
    }

    fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.failed_attempts += other.failed_attempts;
        self.messages += other.messages;
        self.pings += other.pings;
        self.in_doubt += other.in_doubt;
        self.pongs += other.pongs;
        self.acks += other.acks;
        self.refusals += other.refusals;
        self.checks += other.checks;
        for (reason, count) in &other.byes {
            *self.byes.entry(reason.clone()).or_default() += count;
        }
        self.broken += other.broken;
        self.gave_up += other.gave_up;
        self.left &= other.left;
        self.longest_gap_ns = self.longest_gap_ns.max(other.longest_gap_ns);
    }
}

/// One simulated agent in a report.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Told {
    pub agent_id: uuid::Uuid,
    pub name: String,
    pub group: String,
    #[serde(flatten)]
    pub counts: Counts,
}

/// What a swarm did. Sums, except `left` (all of them) and `longest_gap_ns` (the longest).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    pub total: Counts,
    pub agents: Vec<Told>,
}

impl Report {
    pub(super) fn new(mut agents: Vec<Told>) -> Self {
        agents.sort_by(|one, other| one.name.cmp(&other.name));
        let mut total = Counts {
            left: true,
            ..Counts::default()
        };
        for agent in &agents {
            total.add(&agent.counts);
        }
        Self { total, agents }
    }
}

/// Counts of the whole swarm while it runs.
#[derive(Debug, Default)]
pub struct Live {
    pub(super) connected: AtomicU64,
    pub(super) pings: AtomicU64,
    pub(super) pongs: AtomicU64,
    pub(super) acks: AtomicU64,
    pub(super) endings: AtomicU64,
    stopwatch: Option<Stopwatch>,
}

/// One reading of [`Live`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reading {
    pub seconds: u64,
    pub connected: u64,
    pub pings: u64,
    pub pongs: u64,
    pub acks: u64,
    /// Sessions that ended, for whatever reason.
    pub endings: u64,
}

impl Live {
    /// Counts that also keep when each tuning arrived and how long each round trip took.
    #[must_use]
    pub fn timed() -> Self {
        Self {
            stopwatch: Some(Stopwatch::default()),
            ..Self::default()
        }
    }

    /// What was timed so far; nothing unless made by [`Self::timed`].
    #[must_use]
    pub fn timings(&self) -> Timings {
        self.stopwatch
            .as_ref()
            .map_or_else(Timings::default, Stopwatch::read)
    }

    pub(super) fn tuning_arrived(&self, revision: u64) {
        if let Some(stopwatch) = &self.stopwatch {
            stopwatch.tuning_arrived(revision);
        }
    }

    pub(super) fn answered(&self, took: Duration) {
        self.pongs.fetch_add(1, Relaxed);
        if let Some(stopwatch) = &self.stopwatch {
            stopwatch.answered(took);
        }
    }

    /// What it shows `seconds` after the start.
    #[must_use]
    pub fn read(&self, seconds: u64) -> Reading {
        Reading {
            seconds,
            connected: self.connected.load(Relaxed),
            pings: self.pings.load(Relaxed),
            pongs: self.pongs.load(Relaxed),
            acks: self.acks.load(Relaxed),
            endings: self.endings.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, counts: Counts) -> Told {
        Told {
            agent_id: uuid::Uuid::nil(),
            name: name.into(),
            group: "a".into(),
            counts,
        }
    }

    #[test]
    fn a_swarm_left_only_when_every_agent_left() {
        let left = Counts {
            left: true,
            ..Counts::default()
        };
        let both = Report::new(vec![told("one", left.clone()), told("two", left.clone())]);
        let one = Report::new(vec![told("one", left), told("two", Counts::default())]);
        assert_eq!((both.total.left, one.total.left), (true, false));
    }

    #[test]
    fn reasons_of_several_agents_add_up() {
        let bye = |count| Counts {
            byes: [("shed".to_owned(), count)].into(),
            ..Counts::default()
        };
        let report = Report::new(vec![told("one", bye(2)), told("two", bye(3))]);
        assert_eq!(report.total.byes["shed"], 5);
    }
}

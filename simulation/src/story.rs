//! What happened, in plain sentences, and what was counted.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use fleetbeat_liveness::Moment;
use serde::Serialize;

use crate::world::World;

/// Lines of a story before the violation.
const LINES: usize = 60;

/// An invariant that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Number of the design's invariant.
    pub invariant: &'static str,
    pub text: String,
    /// In the world's time.
    pub at: Moment,
    pub host: Option<usize>,
    pub server: Option<usize>,
}

/// One sentence about a host, a server, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub at: Moment,
    pub host: Option<usize>,
    pub server: Option<usize>,
    pub text: String,
}

/// What one run did.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
pub struct Tally {
    pub virtual_seconds: u64,
    pub events: u64,
    pub beats: u64,
    pub pongs: u64,
    pub opened: u64,
    pub welcomed: u64,
    pub attempts_failed: u64,
    pub pushes: u64,
    pub convictions: u64,
    pub servers_given_up: u64,
    pub lanes_died: u64,
    pub holds: u64,
    pub endings: BTreeMap<&'static str, u64>,
    pub verdicts: BTreeMap<&'static str, u64>,
    pub faults: BTreeMap<&'static str, u64>,
    /// Of convictions that no stall, grace or hold held up.
    #[serde(skip)]
    pub lateness: Vec<Duration>,
}

impl Tally {
    /// Adds what another run did.
    pub fn add(&mut self, other: &Self) {
        self.virtual_seconds += other.virtual_seconds;
        self.events += other.events;
        self.beats += other.beats;
        self.pongs += other.pongs;
        self.opened += other.opened;
        self.welcomed += other.welcomed;
        self.attempts_failed += other.attempts_failed;
        self.pushes += other.pushes;
        self.convictions += other.convictions;
        self.servers_given_up += other.servers_given_up;
        self.lanes_died += other.lanes_died;
        self.holds += other.holds;
        let maps = [
            (&mut self.endings, &other.endings),
            (&mut self.verdicts, &other.verdicts),
            (&mut self.faults, &other.faults),
        ];
        for (sum, part) in maps {
            for (word, count) in part {
                *sum.entry(word).or_default() += count;
            }
        }
        self.lateness.extend(&other.lateness);
    }

    /// Lateness that `percent` of the convictions do not exceed; `None` without any.
    #[must_use]
    pub fn lateness(&self, percent: usize) -> Option<Duration> {
        let mut sorted = self.lateness.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.checked_sub(1)?).copied()
    }
}

/// `123.456 s  agent 7, server 0: …`
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.since(Moment::ZERO).as_secs_f64();
        write!(f, "{at:>10.4} s  ")?;
        match self.host {
            Some(host) => write!(f, "host {host}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl World {
    /// Notes a sentence when somebody listens.
    pub(crate) fn tell(
        &mut self,
        host: Option<usize>,
        server: Option<usize>,
        text: impl FnOnce() -> String,
    ) {
        if self.telling {
            let text = text();
            let at = self.now;
            self.lines.push(Line {
                at,
                host,
                server,
                text,
            });
        }
    }
}

/// The last lines that concern the host and the server of a violation.
#[must_use]
pub fn story<'a>(lines: &'a [Line], violation: &Violation) -> Vec<&'a Line> {
    let concerns = |line: &&Line| {
        line.host.is_none_or(|host| Some(host) == violation.host)
            && (line.server.is_none()
                || violation.server.is_none()
                || line.server == violation.server
                || line.host.is_some())
    };
    let mut last: Vec<_> = lines.iter().filter(concerns).collect();
    last.split_off(last.len().saturating_sub(LINES))
}

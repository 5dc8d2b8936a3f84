use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::figures::{Spread, ratio};
use crate::swarm::{self, MOST_PER_CONNECTION, Timings};

/// Within which 99 of 100 agents of a live fleet are to have acknowledged a retune.
pub(super) const TARGET: Duration = Duration::from_secs(2);

/// What was measured. The keys are stable.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Report {
    pub agents: u32,
    pub processes: u32,
    /// Cores of the machine, which server, Postgres and agents shared.
    pub cores: usize,
    /// `release` or `development`: how the programs were built.
    pub build: String,
    /// From the first connection until everybody was online and had acknowledged the first tuning.
    pub connected_s: f64,
    /// Agents whose session after the last round is another one than before the first.
    pub sessions_lost: u64,
    pub clients: Clients,
    pub rounds: Vec<Round>,
    /// Whether p99 of the acks, and of the pushes from the call on, was within two seconds in every round.
    pub within_target: bool,
    /// Sentences about what does not add up; empty when all is well.
    pub unexpected: Vec<String>,
}

/// What the agents' processes counted.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    pub connections: u64,
    pub sessions: u64,
    pub pings: u64,
    pub acks: u64,
    pub refusals: u64,
    /// Sessions that broke, that the server ended, or that the agent left because the server was silent.
    pub endings: u64,
    /// Times that there was no room for.
    pub left_out: u64,
}

/// One retune.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Round {
    pub name: String,
    /// Everybody when unset.
    pub group: Option<String>,
    pub change: String,
    pub revision: u64,
    /// Live agents of whom the change speaks.
    pub live: u64,
    /// Of these, those to which the server sent it; each is counted in one of the next five.
    pub targets: u64,
    pub acked: u64,
    pub refused: u64,
    pub lost: u64,
    pub superseded: u64,
    pub waiting: u64,
    /// How long the operator's call took.
    pub call_ms: f64,
    /// From the call until the operator was told that everybody had answered.
    pub settled_ms: f64,
    /// From push to ack, as the server counted.
    pub ack: Spread,
    /// From the operator's call until the agent had it, as the agents saw it.
    pub push: Spread,
    pub round_trips: Trips,
}

/// Heartbeats' round trips as the agents saw them.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trips {
    /// While the fleet beat undisturbed.
    pub before: Spread,
    /// From the call until everybody had answered, and for 2 s at least.
    pub during: Spread,
    /// During over before.
    pub p50_ratio: Option<f64>,
    pub p99_ratio: Option<f64>,
}

impl Trips {
    pub(super) fn new(before: Spread, during: Spread) -> Self {
        Self {
            p50_ratio: ratio(during.p50_ms, before.p50_ms),
            p99_ratio: ratio(during.p99_ms, before.p99_ms),
            before,
            during,
        }
    }
}

impl Clients {
    pub(super) fn of(swarms: &[swarm::Report], timings: &[Timings]) -> Self {
        let mut clients = Self::default();
        for swarm in swarms {
            let (total, agents) = (&swarm.total, super::count(swarm.agents.iter()));
            clients.connections += agents.div_ceil(MOST_PER_CONNECTION.into());
            clients.sessions += total.sessions;
            clients.pings += total.pings;
            clients.acks += total.acks;
            clients.refusals += total.refusals;
            clients.endings += total.broken + total.gave_up + total.byes.values().sum::<u64>();
        }
        clients.left_out = timings.iter().map(|timings| timings.left_out).sum();
        clients
    }
}

impl Round {
    /// What does not add up.
    fn unexpected(&self) -> impl Iterator<Item = String> {
        let ended = self.acked + self.refused + self.lost;
        let checks = [
            (
                ended != self.targets,
                format!("{ended} of {} targets are accounted for", self.targets),
            ),
            (
                self.targets != self.live,
                format!("{} of {} live agents were sent it", self.targets, self.live),
            ),
            (
                self.push.count != self.targets,
                format!("{} of {} agents had it", self.push.count, self.targets),
            ),
            (
                self.lost > 0,
                format!("{} sessions ended before they answered", self.lost),
            ),
        ];
        let name = self.name.clone();
        checks
            .into_iter()
            .filter_map(move |(wrong, said)| wrong.then(|| format!("round {name}: {said}")))
    }

    fn within_target(&self) -> bool {
        let target = TARGET.as_secs_f64() * 1_000.0;
        let within = |spread: &Spread| spread.p99_ms.is_some_and(|p99| p99 <= target);
        within(&self.ack) && within(&self.push)
    }
}

impl Report {
    pub(super) fn new(agents: u32, processes: u32, connected_in: Duration) -> Self {
        let build = if cfg!(debug_assertions) {
            "development"
        } else {
            "release"
        };
        Self {
            agents,
            processes,
            cores: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            build: build.to_owned(),
            connected_s: connected_in.as_secs_f64(),
            ..Self::default()
        }
    }

    /// Draws the conclusions, once all is filled in.
    pub(super) fn judge(&mut self) {
        self.within_target = self.rounds.iter().all(Round::within_target);
        self.unexpected = self.rounds.iter().flat_map(Round::unexpected).collect();
        let clients = &self.clients;
        for (wrong, said) in [
            (self.sessions_lost > 0, {
                format!(
                    "{} agents have another session than before",
                    self.sessions_lost
                )
            }),
            (clients.sessions != u64::from(self.agents), {
                format!("{} agents had {} sessions", self.agents, clients.sessions)
            }),
            (clients.endings > 0, {
                format!("{} sessions ended before the agents left", clients.endings)
            }),
            (clients.left_out > 0, {
                format!("{} times were left out for want of room", clients.left_out)
            }),
        ] {
            if wrong {
                self.unexpected.push(said);
            }
        }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.within_target() {
            "within the target"
        } else {
            "beyond the target"
        };
        let times =
            |ratio: Option<f64>| ratio.map_or("?".to_owned(), |ratio| format!("{ratio:.1}"));
        writeln!(
            f,
            "{}: {} sessions, {} acked, {} refused, {} lost ({}); {verdict} of {TARGET:?} at p99",
            self.name, self.live, self.acked, self.refused, self.lost, self.change,
        )?;
        writeln!(f, "  push to ack, by the server:    {}", self.ack)?;
        writeln!(f, "  call to push, by the agents:   {}", self.push)?;
        writeln!(
            f,
            "  call to last ack, by the operator: {:.1} ms",
            self.settled_ms
        )?;
        let trips = &self.round_trips;
        writeln!(f, "  round trips before:            {}", trips.before)?;
        write!(
            f,
            "  round trips during:            {} (p50 × {}, p99 × {})",
            trips.during,
            times(trips.p50_ratio),
            times(trips.p99_ratio)
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} agents in {} processes on {} connections, {} cores for all, {} build, online in {:.1} s",
            self.agents,
            self.processes,
            self.clients.connections,
            self.cores,
            self.build,
            self.connected_s,
        )?;
        for round in &self.rounds {
            writeln!(f, "{round}")?;
        }
        write!(f, "{} sessions lost", self.sessions_lost)?;
        for said in &self.unexpected {
            write!(f, "\nunexpected: {said}")?;
        }
        Ok(())
    }
}

//! A fleet that lost its sessions at one moment, until all of it is back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_liveness::backoff::{Backoff, Params, reconnect_spread};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::server::{Capacity, Outcome, Server};
use crate::table::real;

/// Nobody is waited for beyond this.
const END: Duration = Duration::from_secs(200);
/// What a fleet of D = 62 s tolerates.
const DEADLINE: Duration = Duration::from_secs(62);
/// Connecting and being welcomed takes this at most, by the agent's phase deadlines.
const PATIENCE: Duration = Duration::from_secs(10);
const BIN: Duration = Duration::from_millis(100);

/// How agents come back.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Return {
    /// The product: the first attempt over the spread that Welcome told, per second of this rate.
    Spread { per_s: u64 },
    /// Exponential backoff with this jitter from the first attempt on.
    Backoff { jitter_percent: u32 },
    /// Every second, for ever.
    EverySecond,
}

/// What happened.
#[derive(Debug)]
pub(crate) struct Storm {
    /// Attempts in each 100 ms.
    bins: Vec<u64>,
    /// When each agent was welcomed, in order.
    back: Vec<Duration>,
    agents: usize,
}

struct Agent {
    backoff: Backoff,
    rng: StdRng,
}

pub(crate) fn play(agents: usize, how: Return, capacity: Capacity, seed: u64) -> Storm {
    let mut server = Server::new(capacity);
    let mut fleet: Vec<_> = (0..agents as u64)
        .map(|n| agent(how, (seed << 32) | n))
        .collect();
    let mut due: BinaryHeap<_> = fleet
        .iter_mut()
        .enumerate()
        .map(|(n, agent)| Reverse((Moment::ZERO + agent.first(how, agents), n)))
        .collect();
    let mut storm = Storm {
        bins: Vec::new(),
        back: Vec::new(),
        agents,
    };
    while let Some(Reverse((now, n))) = due.pop() {
        if now.since(Moment::ZERO) > END {
            break;
        }
        storm.attempt(now);
        match server.attempt(now, how.patience()) {
            Outcome::Welcome(at) => storm.back.push(at.since(Moment::ZERO)),
            Outcome::Later(at, window) => due.push(Reverse((at + fleet[n].told(how, window), n))),
            Outcome::Refused => due.push(Reverse((now + fleet[n].failed(how), n))),
            Outcome::Ignored => due.push(Reverse((now + fleet[n].ignored(how), n))),
        }
    }
    storm.back.sort_unstable();
    storm
}

fn agent(how: Return, seed: u64) -> Agent {
    let params = match how {
        Return::Backoff { jitter_percent } => Params {
            jitter_percent,
            ..Params::default()
        },
        Return::Spread { .. } | Return::EverySecond => Params::default(),
    };
    Agent {
        backoff: Backoff::new(params),
        rng: StdRng::seed_from_u64(seed),
    }
}

impl Return {
    /// Who tries again every second does not wait longer for an answer.
    fn patience(self) -> Duration {
        match self {
            Self::Spread { .. } | Self::Backoff { .. } => PATIENCE,
            Self::EverySecond => Duration::from_secs(1),
        }
    }
}

impl Agent {
    fn first(&mut self, how: Return, agents: usize) -> Duration {
        match how {
            Return::Spread { per_s } => {
                let spread = reconnect_spread(agents as u64, per_s, DEADLINE);
                let lived = self.backoff.params().stable_after;
                self.backoff.session_lost(spread, lived, &mut self.rng)
            }
            Return::Backoff { .. } => self.backoff.connect_failed(&mut self.rng),
            Return::EverySecond => Duration::from_secs(1),
        }
    }

    fn told(&mut self, how: Return, window: (Duration, Duration)) -> Duration {
        match how {
            Return::EverySecond => Duration::from_secs(1),
            Return::Spread { .. } | Return::Backoff { .. } => {
                self.backoff.told(window, &mut self.rng)
            }
        }
    }

    fn failed(&mut self, how: Return) -> Duration {
        match how {
            Return::EverySecond => Duration::from_secs(1),
            Return::Spread { .. } | Return::Backoff { .. } => {
                self.backoff.connect_failed(&mut self.rng)
            }
        }
    }

    /// From the attempt on, which lasts as long as the agent's patience.
    fn ignored(&mut self, how: Return) -> Duration {
        match how {
            Return::EverySecond => Duration::from_secs(1),
            Return::Spread { .. } | Return::Backoff { .. } => PATIENCE + self.failed(how),
        }
    }
}

impl Storm {
    fn attempt(&mut self, now: Moment) {
        let bin =
            usize::try_from(u128::from(now.as_nanos()) / BIN.as_nanos()).unwrap_or(usize::MAX);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
    }

    pub(crate) fn agents(&self) -> usize {
        self.agents
    }

    pub(crate) fn attempts(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// Most attempts in one second of the clock.
    pub(crate) fn peak_per_s(&self) -> u64 {
        let seconds = self.bins.chunks(10).map(|second| second.iter().sum());
        seconds.max().unwrap_or(0)
    }

    pub(crate) fn peak_in_100_ms(&self) -> u64 {
        self.bins.iter().max().copied().unwrap_or(0)
    }

    /// Busiest second over the mean until the last attempt.
    pub(crate) fn peak_to_mean(&self) -> f64 {
        let seconds = self.bins.len().div_ceil(10).max(1);
        real(self.peak_per_s() * seconds as u64) / real(self.attempts())
    }

    /// Attempts per second between two seconds after the cut.
    pub(crate) fn rate(&self, from_s: usize, to_s: usize) -> f64 {
        let bins = self
            .bins
            .iter()
            .skip(from_s * 10)
            .take((to_s - from_s) * 10);
        real(bins.sum()) / real((to_s - from_s) as u64)
    }

    /// When this share of the fleet was back, percent; `None` when it never was.
    pub(crate) fn back(&self, percent: usize) -> Option<Duration> {
        let rank = (self.agents * percent).div_ceil(100).max(1);
        self.back.get(rank - 1).copied()
    }

    /// Share of the fleet that was back by then, percent.
    pub(crate) fn back_by(&self, deadline: Duration) -> f64 {
        let back = self.back.partition_point(|at| *at <= deadline);
        real(back as u64) * 100.0 / real(self.agents as u64)
    }
}

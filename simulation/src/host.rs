//! A host: its disk, its power, and at most one run of the agent.

use std::time::Duration;

use fleetbeat_agent::comeback::Comeback;
use fleetbeat_agent::session::{Ending, Session};
use fleetbeat_liveness::{Moment, Revised};
use rand::rngs::StdRng;
use uuid::Uuid;

use crate::net::{FlowId, Way};

/// What survives the process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Disk {
    pub incarnation: u64,
    pub tuning: Option<Revised>,
}

#[derive(Debug)]
pub(crate) struct Host {
    /// Whom the agent says it is.
    pub agent: usize,
    pub group: usize,
    pub on: bool,
    /// Since when the machine sleeps.
    pub suspended: Option<Moment>,
    /// How long it slept before; its monotonic clock does not count sleep.
    slept: Duration,
    pub cuts: [u32; 2],
    /// One way.
    pub delay: Duration,
    pub jitter: Duration,
    /// Share of transmissions that are lost, each way.
    pub loss: f64,
    pub disk: Disk,
    pub disk_delay: Duration,
    pub boots: u32,
    pub process: Option<Process>,
    /// Counts the runs of the agent.
    pub life: u64,
    /// Tells the present timer from those before it.
    pub ticket: u64,
    /// When something kept the host or its agent from running last.
    pub troubled: Moment,
    pub kin: Kin,
    /// Never starts again.
    pub retired: bool,
}

/// Whether others had or have this host's identity, or later states of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kin {
    Sole,
    /// Its state was replaced by an older copy: each server tells it another floor, and between two of them
    /// it waits for minutes.
    RolledBack,
    /// A copy of another host, or one that has a copy.
    Twin,
}

/// One run of the agent.
#[derive(Debug)]
pub(crate) struct Process {
    pub instance: [u8; 16],
    pub incarnation: u64,
    pub connection: u64,
    pub acknowledged: Option<Revised>,
    pub comeback: Comeback<StdRng>,
    /// Servers not tried in this round.
    pub round: Vec<usize>,
    pub phase: Phase,
    /// How many faults stop the process.
    pub stops: u32,
    pub stopped_at: Moment,
    /// The tuning on its way to the disk, and the newest behind it.
    pub writing: Option<Revised>,
    pub next_write: Option<Revised>,
    /// The last session that had a Welcome.
    pub last: Option<(Ending, Moment)>,
    pub promise: Promise,
}

/// What the agent may leave between two messages.
#[derive(Debug, Default)]
pub(crate) struct Promise {
    pub last_sent: Option<Moment>,
    /// Longest T in force since then.
    pub longest: Duration,
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// On the host's clock.
    Away { until: Moment },
    Dialing {
        server: usize,
        since: Moment,
        tries: usize,
    },
    Attending {
        flow: FlowId,
        session: Box<Session<StdRng>>,
    },
}

/// The id of an agent, which the simulation numbers.
pub(crate) fn identity(agent: usize) -> Uuid {
    Uuid::from_u128((0xf1ee_7000_0000_4000_8000 << 48) | (agent as u128 + 1))
}

/// The number behind an id.
pub(crate) fn number(id: Uuid) -> usize {
    let low = id.as_u128() & 0xffff_ffff;
    usize::try_from(low).unwrap_or_default().saturating_sub(1)
}

impl Host {
    pub(crate) fn new(agent: usize, group: usize, delay: Duration) -> Self {
        Self {
            agent,
            group,
            on: true,
            suspended: None,
            slept: Duration::ZERO,
            cuts: [0; 2],
            delay,
            jitter: delay / 2,
            loss: 0.0,
            disk: Disk::default(),
            disk_delay: Duration::from_millis(20),
            boots: 1,
            process: None,
            life: 0,
            ticket: 0,
            troubled: Moment::ZERO,
            kin: Kin::Sole,
            retired: false,
        }
    }

    /// Whether the machine runs.
    pub(crate) fn up(&self) -> bool {
        self.on && self.suspended.is_none()
    }

    pub(crate) fn reachable(&self, way: Way) -> bool {
        self.up() && self.cuts[way as usize] == 0
    }

    /// Whether the agent runs and can act.
    pub(crate) fn acts(&self) -> bool {
        self.up()
            && self
                .process
                .as_ref()
                .is_some_and(|process| process.stops == 0)
    }

    /// Whether this run of the agent holds that connection.
    pub(crate) fn attends(&self, life: u64, id: FlowId) -> bool {
        self.life == life
            && self
                .process
                .as_ref()
                .is_some_and(|process| match &process.phase {
                    Phase::Attending { flow, .. } => *flow == id,
                    Phase::Away { .. } | Phase::Dialing { .. } => false,
                })
    }

    pub(crate) fn patience(&self, id: FlowId) -> Option<Duration> {
        match &self.process.as_ref()?.phase {
            Phase::Attending { flow, session } if *flow == id => {
                Some(session.expectation().kernel_gives_up_after)
            }
            Phase::Attending { .. } | Phase::Away { .. } | Phase::Dialing { .. } => None,
        }
    }

    /// The host's monotonic clock.
    pub(crate) fn clock(&self, now: Moment) -> Moment {
        self.suspended.unwrap_or(now).before(self.slept)
    }

    /// When its clock will show `moment`, if it does not sleep before.
    pub(crate) fn world_time(&self, moment: Moment) -> Moment {
        moment + self.slept
    }

    /// The machine wakes up; returns how long it slept.
    pub(crate) fn resume(&mut self, now: Moment) -> Duration {
        let slept = self
            .suspended
            .take()
            .map_or(Duration::ZERO, |since| now.since(since));
        self.slept += slept;
        slept
    }
}

#[cfg(test)]
mod tests {
    use super::{identity, number};

    #[test]
    fn every_number_is_found_behind_its_id() {
        for agent in [0, 1, 255, 256, 70_000] {
            assert_eq!(number(identity(agent)), agent);
        }
    }
}

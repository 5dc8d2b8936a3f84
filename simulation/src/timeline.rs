//! What happens next, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use std::time::Duration;

use fleetbeat_liveness::Moment;

use crate::net::{FlowId, Way};

/// Something that happens at a moment. Events that were overtaken carry a stale ticket, life or run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The agent's timer.
    Wake {
        host: usize,
        ticket: u64,
    },
    /// A tuning is on the agent's disk.
    Kept {
        host: usize,
        life: u64,
    },
    /// The service manager starts the agent.
    Start {
        host: usize,
        life: u64,
    },
    /// The oldest packet under way reaches the other end.
    Arrive {
        flow: FlowId,
        way: Way,
    },
    /// The kernel sends again what was not acknowledged.
    Retransmit {
        flow: FlowId,
        way: Way,
        ticket: u64,
    },
    /// The kernel has retransmitted for as long as it was told to.
    GiveUp {
        flow: FlowId,
        way: Way,
        ticket: u64,
    },
    /// A reset reaches the end that reads this way.
    Reset {
        flow: FlowId,
        way: Way,
    },
    /// The lane's task of this connection runs.
    Serve {
        flow: FlowId,
    },
    /// Hello was due.
    HelloDue {
        flow: FlowId,
    },
    Tick {
        server: usize,
        run: u32,
        lane: usize,
    },
    Pass {
        server: usize,
        run: u32,
    },
    Harvest {
        server: usize,
        run: u32,
    },
    /// The server reads the newest policies.
    Learn {
        server: usize,
        run: u32,
    },
    /// Postgres answers: the server hears whom it knew.
    Restore {
        server: usize,
        run: u32,
    },
    /// A short stall of one lane, planned ahead.
    Stall {
        server: usize,
        run: u32,
        lane: usize,
        lasts: Duration,
    },
    Boot {
        server: usize,
        run: u32,
    },
    Exit {
        server: usize,
        run: u32,
    },
    /// Checks that need no occasion.
    Sweep,
    /// The next fault begins.
    Strike,
    /// A fault ends.
    Heal {
        fault: usize,
    },
}

/// Events in the order of their time, and of their making when that is the same.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    heap: BinaryHeap<Reverse<(Moment, u64, Event)>>,
    made: u64,
}

impl Timeline {
    pub(crate) fn at(&mut self, at: Moment, event: Event) {
        self.heap.push(Reverse((at, self.made, event)));
        self.made += 1;
    }

    pub(crate) fn next(&mut self) -> Option<(Moment, Event)> {
        let Reverse((at, _, event)) = self.heap.pop()?;
        Some((at, event))
    }
}

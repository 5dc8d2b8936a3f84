//! A server that agents return to, in two steps: handshakes, then opening sessions.

use std::collections::VecDeque;
use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_liveness::admission::{Admission, Entry};

/// Connections that the kernel holds before the server takes them.
const LISTEN_BACKLOG: usize = 4_096;

/// What becomes of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The session opens then.
    Welcome(Moment),
    /// Told at that moment to come back in this window.
    Later(Moment, (Duration, Duration)),
    /// Nothing listens: refused at once.
    Refused,
    /// Nothing answers before the agent's patience ends.
    Ignored,
}

/// How much a server can do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    /// Time between two handshakes that end, all gate threads together.
    pub(crate) handshake: Duration,
    /// Time between two sessions that open: what lies behind Hello, recording included.
    pub(crate) opening: Duration,
    /// Admits at the rate at which it opens.
    pub(crate) admission: bool,
    /// It answers from here on.
    pub(crate) up_at: Moment,
}

#[derive(Debug)]
pub(crate) struct Server {
    capacity: Capacity,
    /// When each handshake that the kernel holds ends, in order.
    handshakes: VecDeque<Moment>,
    gate_free: Moment,
    opening_free: Moment,
    admission: Option<Admission>,
}

impl Server {
    pub(crate) fn new(capacity: Capacity) -> Self {
        let per_s = Duration::from_secs(1).div_duration_f64(capacity.opening);
        Self {
            capacity,
            handshakes: VecDeque::new(),
            gate_free: capacity.up_at,
            opening_free: capacity.up_at,
            admission: capacity
                .admission
                .then(|| Admission::new(crate::table::whole(per_s))),
        }
    }

    /// An agent that waits for `patience` tries at `now`. First come, first served; work for an agent that
    /// has given up meanwhile is done all the same.
    pub(crate) fn attempt(&mut self, now: Moment, patience: Duration) -> Outcome {
        if now < self.capacity.up_at {
            return Outcome::Refused;
        }
        while self.handshakes.front().is_some_and(|done| *done <= now) {
            self.handshakes.pop_front();
        }
        if self.handshakes.len() >= LISTEN_BACKLOG {
            return Outcome::Ignored;
        }
        let hello = work(&mut self.gate_free, now, self.capacity.handshake);
        self.handshakes.push_back(hello);
        if hello.since(now) > patience {
            return Outcome::Ignored;
        }
        match self.admission.as_mut().map(|door| door.ask(hello)) {
            Some(Entry::Later(least, most)) => Outcome::Later(hello, (least, most)),
            Some(Entry::Admitted) | None => self.open(now, hello, patience),
        }
    }

    fn open(&mut self, began: Moment, hello: Moment, patience: Duration) -> Outcome {
        let opened = work(&mut self.opening_free, hello, self.capacity.opening);
        if opened.since(began) > patience {
            Outcome::Ignored
        } else {
            Outcome::Welcome(opened)
        }
    }
}

fn work(free: &mut Moment, from: Moment, takes: Duration) -> Moment {
    *free = (*free).max(from) + takes;
    *free
}

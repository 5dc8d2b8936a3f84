//! A server that agents return to: one processor for handshakes, with or without admission.

use std::collections::VecDeque;
use std::time::Duration;

use fleetbeat_liveness::Moment;

/// Connections that the kernel holds before the server takes them.
const LISTEN_BACKLOG: usize = 4_096;

/// What becomes of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The session opens then.
    Welcome(Moment),
    /// Come back in this window.
    Shed(Duration, Duration),
    /// Nothing listens: refused at once.
    Refused,
    /// Nothing answers before the agent's patience ends.
    Ignored,
}

/// How a server lets agents in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    /// Processor time of a handshake with its Hello; also what one costs whose agent has given up.
    pub(crate) handshake: Duration,
    /// Processor time of turning one away.
    pub(crate) refusal: Duration,
    /// With admission, handshakes under way at most; the rest is told when to come back.
    pub(crate) admits: Option<usize>,
    /// It answers from here on.
    pub(crate) up_at: Moment,
}

#[derive(Debug)]
pub(crate) struct Server {
    capacity: Capacity,
    /// When each handshake that was accepted ends, in order.
    queue: VecDeque<Moment>,
    busy_until: Moment,
    /// Places given away to those that were told to come back.
    booked_until: Moment,
}

impl Server {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            queue: VecDeque::new(),
            busy_until: capacity.up_at,
            booked_until: capacity.up_at,
        }
    }

    /// An agent that waits for `patience` tries at `now`.
    pub(crate) fn attempt(&mut self, now: Moment, patience: Duration) -> Outcome {
        if now < self.capacity.up_at {
            return Outcome::Refused;
        }
        while self.queue.front().is_some_and(|done| *done <= now) {
            self.queue.pop_front();
        }
        match self.capacity.admits {
            Some(most) if self.queue.len() >= most => self.shed(now),
            None if self.queue.len() >= LISTEN_BACKLOG => Outcome::Ignored,
            Some(_) | None => self.accept(now, patience),
        }
    }

    /// First come, first served. Work for an agent that has given up meanwhile is done all the same.
    fn accept(&mut self, now: Moment, patience: Duration) -> Outcome {
        let done = self.work(now, self.capacity.handshake);
        self.queue.push_back(done);
        if done.since(now) > patience {
            Outcome::Ignored
        } else {
            Outcome::Welcome(done)
        }
    }

    /// Gives away the next free place at the rate that the server sustains, and a second around it.
    fn shed(&mut self, now: Moment) -> Outcome {
        self.work(now, self.capacity.refusal);
        let each = self.capacity.handshake + self.capacity.refusal;
        self.booked_until = self.booked_until.max(self.busy_until) + each;
        let wait = self.booked_until.since(now);
        Outcome::Shed(wait, wait + Duration::from_secs(1))
    }

    fn work(&mut self, now: Moment, takes: Duration) -> Moment {
        self.busy_until = self.busy_until.max(now) + takes;
        self.busy_until
    }
}

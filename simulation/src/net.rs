//! TCP as liveness sees it: bytes arrive in order, or late, or not at all.
//!
//! What a cut or a loss stops is sent again after a time-out that doubles, so that an outage of L may
//! delay the next byte by up to L after it healed (hard case A2). Without acknowledgements nothing new
//! passes either.

use std::collections::VecDeque;
use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_proto::v1::{FromAgent, FromServer};

use crate::timeline::Event;
use crate::world::World;

pub(crate) type FlowId = usize;

/// Longest retransmission time-out of Linux.
const RTO_MOST: Duration = Duration::from_mins(2);
const RTO_LEAST: Duration = Duration::from_millis(200);
/// How long the kernel goes on for a socket that nobody holds any more.
const ORPHANED: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// From the agent to the server.
    Up,
    Down,
}

impl Way {
    pub(crate) const BOTH: [Self; 2] = [Self::Up, Self::Down];

    pub(crate) fn back(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Packet {
    Up(Box<FromAgent>),
    Down(Box<FromServer>),
    /// The sender has no more to say.
    Fin,
    /// The connection is gone.
    Reset,
}

/// One way of a connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Given to the kernel, not on the way.
    pub queue: VecDeque<Packet>,
    /// On the way, in order.
    flying: VecDeque<Packet>,
    /// Arrived, not read by the process.
    pub inbox: VecDeque<Packet>,
    last_arrival: Moment,
    rto: Duration,
    unacked_since: Option<Moment>,
    /// When what was stuck got through at last.
    freed: Moment,
    ticket: u64,
    /// Nobody writes here any more.
    pub closed: bool,
}

impl Pipe {
    pub(crate) fn new(rto: Duration) -> Self {
        Self {
            queue: VecDeque::new(),
            flying: VecDeque::new(),
            inbox: VecDeque::new(),
            last_arrival: Moment::ZERO,
            rto: rto.max(RTO_LEAST),
            unacked_since: None,
            freed: Moment::ZERO,
            ticket: 0,
            closed: false,
        }
    }

    /// The sender's machine is gone with everything it had to send.
    pub(crate) fn vanish(&mut self) {
        self.queue.clear();
        self.ticket += 1;
        self.unacked_since = None;
        self.closed = true;
    }

    pub(crate) fn stuck(&self) -> bool {
        self.unacked_since.is_some()
    }

    /// What is sent was delayed at some time from then on, or goes nowhere.
    pub(crate) fn hindered_after(&self, since: Moment) -> bool {
        self.stuck() || self.closed || (self.freed > Moment::ZERO && self.freed >= since)
    }
}

impl World {
    /// Whether a packet of this connection gets through at this moment.
    pub(crate) fn passes(&self, id: FlowId, way: Way) -> bool {
        let Some(flow) = &self.flows[id] else {
            return false;
        };
        !flow.forgotten && self.reaches(flow.host, flow.server, way)
    }

    pub(crate) fn reaches(&self, host: usize, server: usize, way: Way) -> bool {
        let (from, to) = (&self.hosts[host], &self.servers[server]);
        from.reachable(way) && to.reachable(way) && self.cuts[from.group][server][way as usize] == 0
    }

    /// Gives a packet to the kernel of the sender.
    pub(crate) fn send(&mut self, id: FlowId, way: Way, packet: Packet) {
        let Some(flow) = &mut self.flows[id] else {
            return;
        };
        let pipe = &mut flow.pipes[way as usize];
        if pipe.closed {
            return;
        }
        pipe.queue.push_back(packet);
        if !pipe.stuck() {
            self.transmit(id, way);
        }
    }

    pub(crate) fn retransmit(&mut self, id: FlowId, way: Way, ticket: u64) {
        let current = |flow: &crate::flow::Flow| flow.pipes[way as usize].ticket == ticket;
        if self.flows[id].as_deref().is_some_and(current) {
            self.transmit(id, way);
        }
    }

    fn transmit(&mut self, id: FlowId, way: Way) {
        let (forth, back) = (self.passes(id, way), self.passes(id, way.back()));
        let now = self.now;
        let Some(flow) = &mut self.flows[id] else {
            return;
        };
        let host = &self.hosts[flow.host];
        let lost = self.dice.chance(host.loss);
        let (delay, jitter) = (host.delay, host.jitter);
        let pipe = &mut flow.pipes[way as usize];
        if forth && !lost {
            // Without acknowledgements only the first goes out, again and again.
            let passing = if back { pipe.queue.len() } else { 1 };
            for packet in pipe.queue.drain(..passing.min(pipe.queue.len())) {
                let late = self.dice.between(Duration::ZERO, jitter);
                let at = (now + delay + late).max(pipe.last_arrival + Duration::from_nanos(1));
                pipe.last_arrival = at;
                pipe.flying.push_back(packet);
                self.timeline.at(at, Event::Arrive { flow: id, way });
            }
        }
        pipe.ticket += 1;
        if forth && back && !lost {
            pipe.rto = RTO_LEAST.max(delay * 3);
            if pipe.unacked_since.take().is_some() {
                pipe.freed = now;
            }
            if way == Way::Down {
                self.unblock(id);
            }
            return;
        }
        flow.truth.failed = Some(now);
        let ticket = pipe.ticket;
        self.timeline.at(
            now + pipe.rto,
            Event::Retransmit {
                flow: id,
                way,
                ticket,
            },
        );
        pipe.rto = (pipe.rto * 2).min(RTO_MOST);
        if pipe.unacked_since.is_none() {
            pipe.unacked_since = Some(now);
        }
        let since = pipe.unacked_since.unwrap_or(now);
        let closed = pipe.closed;
        let limit = if closed {
            ORPHANED
        } else {
            self.kernel_patience(id, way)
        };
        // Asked again at each attempt, because a retune moves it.
        self.timeline.at(
            since + limit,
            Event::GiveUp {
                flow: id,
                way,
                ticket,
            },
        );
    }

    /// `TCP_USER_TIMEOUT` of the sender has passed.
    pub(crate) fn kernel_gives_up(&mut self, id: FlowId, way: Way, ticket: u64) {
        let patience = self.kernel_patience(id, way);
        let now = self.now;
        let Some(flow) = &mut self.flows[id] else {
            return;
        };
        let pipe = &mut flow.pipes[way as usize];
        let Some(since) = pipe.unacked_since.filter(|_| pipe.ticket == ticket) else {
            return;
        };
        if pipe.closed {
            pipe.vanish();
        } else if now >= since + patience {
            pipe.vanish();
            // The sender reads of it; the other end hears nothing.
            self.deliver(id, way.back(), Packet::Reset);
        }
    }

    pub(crate) fn arrive(&mut self, id: FlowId, way: Way) {
        let Some(flow) = &mut self.flows[id] else {
            return;
        };
        let Some(packet) = flow.pipes[way as usize].flying.pop_front() else {
            return;
        };
        if self.listens(id, way) {
            self.deliver(id, way, packet);
        } else if !matches!(packet, Packet::Reset) && self.machine_up(id, way) {
            self.refuse(id, way);
        }
    }

    /// The other end has no such connection and says so.
    pub(crate) fn refuse(&mut self, id: FlowId, way: Way) {
        if !self.passes(id, way.back()) {
            return;
        }
        if let Some(flow) = &mut self.flows[id] {
            let delay = self.hosts[flow.host].delay;
            let pipe = &mut flow.pipes[way.back() as usize];
            let at = (self.now + delay).max(pipe.last_arrival + Duration::from_nanos(1));
            pipe.last_arrival = at;
            self.timeline.at(
                at,
                Event::Reset {
                    flow: id,
                    way: way.back(),
                },
            );
        }
    }

    pub(crate) fn reset(&mut self, id: FlowId, way: Way) {
        if self.listens(id, way) {
            if let Some(flow) = &mut self.flows[id] {
                flow.pipes[way.back() as usize].vanish();
            }
            self.deliver(id, way, Packet::Reset);
        }
    }

    /// The process at the end of `way` may read `packet` from here on.
    fn deliver(&mut self, id: FlowId, way: Way, packet: Packet) {
        let now = self.now;
        let Some(flow) = &mut self.flows[id] else {
            return;
        };
        if matches!(packet, Packet::Up(_)) {
            flow.truth.arrived = Some(now);
        }
        flow.pipes[way as usize].inbox.push_back(packet);
        match way {
            Way::Up => self.lane_has_news(id),
            Way::Down => self.agent_has_news(id),
        }
    }
}

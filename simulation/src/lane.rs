//! A lane's tasks: what a connection's task does when it is woken, in the order that chance gives.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_proto::v1::{CloseReason, from_agent, from_server};
use fleetbeat_server::lane::{Attendance, Mail};
use fleetbeat_server::registry::{Link, Outbox};
use futures_util::Stream as _;

use crate::flow::{Bell, Flow, Serving};
use crate::net::{FlowId, Packet, Way};
use crate::timeline::Event;
use crate::world::World;

/// An agent says Hello within this time of opening its stream.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// Pause before the kernel is asked once more what it holds for a nominated session.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Messages that the socket takes before it is full.
const SOCKET_HOLDS: usize = 64;

impl World {
    /// Bytes wait in the kernel for a connection of a lane.
    pub(crate) fn lane_has_news(&mut self, id: FlowId) {
        let Some(flow) = &self.flows[id] else { return };
        if !self.servers[flow.server].lane_runs(flow.lane) {
            self.leave_ready(id);
        } else if self.dice.chance(0.1) {
            // The reactor has not told the task yet.
            let later = self.dice.between(Duration::ZERO, Duration::from_millis(5));
            self.timeline
                .at(self.now + later, Event::Serve { flow: id });
        } else {
            self.serve(id);
        }
    }

    /// Runs the tasks that somebody woke.
    pub(crate) fn wake_tasks(&mut self) {
        for id in self.woken.take() {
            if self.dice.chance(0.25) {
                let later = self.dice.between(Duration::ZERO, Duration::from_millis(10));
                self.timeline
                    .at(self.now + later, Event::Serve { flow: id });
            } else {
                self.serve(id);
            }
        }
    }

    /// There is room in the socket again.
    pub(crate) fn unblock(&mut self, id: FlowId) {
        let blocked = |flow: &Flow| flow.serving.as_ref().is_some_and(|serving| serving.blocked);
        if self.flows[id].as_deref().is_some_and(blocked) {
            self.timeline.at(self.now, Event::Serve { flow: id });
        }
    }

    fn leave_ready(&mut self, id: FlowId) {
        let Some(flow) = &self.flows[id] else { return };
        if let Some(process) = &mut self.servers[flow.server].process {
            process.lanes[flow.lane].ready.insert(id);
        }
    }

    /// A lane runs again: its late tick and its tasks come in any order, and reading takes time.
    pub(crate) fn lane_resumes(&mut self, server: usize, lane: usize) {
        let run = self.servers[server].run;
        let Some(process) = &mut self.servers[server].process else {
            return;
        };
        let mut ready: Vec<_> = std::mem::take(&mut process.lanes[lane].ready)
            .into_iter()
            .collect();
        self.dice.shuffle(&mut ready);
        let reading = self
            .dice
            .between(Duration::ZERO, Duration::from_millis(400));
        if std::mem::take(&mut process.lanes[lane].overdue) {
            let tick = self.dice.between(Duration::ZERO, Duration::from_millis(5));
            self.timeline
                .at(self.now + tick, Event::Tick { server, run, lane });
        }
        for id in ready {
            let later = self.dice.between(Duration::ZERO, reading);
            self.timeline
                .at(self.now + later, Event::Serve { flow: id });
        }
    }

    /// One turn of a connection's task.
    pub(crate) fn serve(&mut self, id: FlowId) {
        let Some(flow) = &self.flows[id] else { return };
        let (server, lane) = (flow.server, flow.lane);
        if !self.servers[server].serves(flow.run) {
            return;
        }
        if !self.servers[server].lane_runs(lane) {
            self.leave_ready(id);
            return;
        }
        self.servers[server].set_clock(self.now);
        let Some(mut flow) = self.flows[id].take() else {
            return;
        };
        let mut serving = match flow.serving.take() {
            Some(serving) => serving,
            None if flow.pipes[Way::Down as usize].closed => {
                self.flows[id] = Some(flow);
                return;
            }
            None => self.accept(id, &flow),
        };
        let orders_first = self.dice.chance(0.5);
        serving.bell.rise();
        let mut closes = false;
        while serving.bell.take() || !flow.pipes[Way::Up as usize].inbox.is_empty() {
            if orders_first {
                self.orders(id, &flow, &serving);
            }
            closes |= self.read(id, &mut flow, &mut serving);
            if !orders_first {
                self.orders(id, &flow, &serving);
            }
            self.settle(id, &flow, &mut serving);
            self.flows[id] = Some(flow);
            closes |= self.mail(id, &mut serving);
            let Some(back) = self.flows[id].take() else {
                return;
            };
            flow = back;
            if closes {
                break;
            }
        }
        serving.bell.rest();
        if closes {
            // Whatever lives on this connection ends with it.
            serving
                .attendance
                .broken(CloseReason::TransportError, "the connection broke");
            self.settle(id, &flow, &mut serving);
            drop(serving);
        } else {
            flow.serving = Some(serving);
        }
        self.flows[id] = Some(flow);
        if closes {
            self.close(id, Way::Down);
        }
        self.observe(server);
        self.wake_tasks();
    }

    fn accept(&mut self, id: FlowId, flow: &Flow) -> Serving {
        let bell = Bell::new(id, &self.woken);
        let waker = Waker::from(Arc::clone(&bell));
        let (outbox, link) = (Arc::new(Outbox::default()), Arc::new(Link::default()));
        let lane = |process: &crate::server::Process| Arc::clone(&process.lanes[flow.lane].context);
        let context = self.servers[flow.server].process.as_ref().map(lane);
        let context = context.unwrap_or_else(|| unreachable!("a process serves this connection"));
        let port = u16::try_from(id % 60_000).unwrap_or_default();
        let peer = SocketAddr::from(([10, 0, 0, 1], port + 1));
        self.timeline
            .at(self.now + HELLO_WITHIN, Event::HelloDue { flow: id });
        Serving {
            attendance: Attendance::new(
                Arc::clone(&context),
                Arc::clone(&outbox),
                Arc::clone(&link),
                peer,
            ),
            mail: Mail::new(outbox, context),
            link,
            bell,
            waker,
            finished: false,
            blocked: false,
        }
    }

    /// Reads what waits. True when the connection is gone.
    fn read(&mut self, id: FlowId, flow: &mut Flow, serving: &mut Serving) -> bool {
        while let Some(packet) = flow.pipes[Way::Up as usize].inbox.pop_front() {
            if serving.attendance.over() {
                if matches!(packet, Packet::Reset | Packet::Fin) {
                    return true;
                }
                continue;
            }
            match packet {
                Packet::Up(message) => self.read_message(id, flow, serving, *message),
                Packet::Fin => serving.attendance.ended(),
                Packet::Reset => {
                    serving
                        .attendance
                        .broken(CloseReason::TransportError, "connection reset");
                    return true;
                }
                Packet::Down(_) => {}
            }
        }
        false
    }

    fn read_message(
        &mut self,
        id: FlowId,
        flow: &mut Flow,
        serving: &mut Serving,
        message: fleetbeat_proto::v1::FromAgent,
    ) {
        let ack = match &message.message {
            Some(from_agent::Message::TuningAck(ack)) => Some(ack.clone()),
            _ => None,
        };
        let before = serving.attendance.session().is_some();
        flow.truth.read = Some(self.now);
        if let Some(process) = &mut self.servers[flow.server].process {
            process.read = self.now;
        }
        serving.attendance.received(message);
        let Some(session) = serving.attendance.session() else {
            return;
        };
        if before {
            let clock = self.servers[flow.server].clock(self.now);
            let (heard, over) = (session.last_heard(), session.ending().is_some());
            self.check_life(flow, heard, clock, over);
        } else {
            let session = Arc::clone(session);
            self.opened(id, flow, &session);
        }
        if let Some(ack) = ack {
            flow.truth.acknowledged(&ack);
        }
        self.check_patience(flow, serving);
    }

    /// What others asked of this connection.
    fn orders(&mut self, id: FlowId, flow: &Flow, serving: &Serving) {
        let clock = self.servers[flow.server].clock(self.now);
        serving.link.register(&serving.waker);
        if let Some(session) = serving.attendance.session() {
            session.register(&serving.waker);
        }
        if serving.link.take_peek() {
            if flow.pipes[Way::Up as usize].inbox.is_empty() {
                serving.link.quiet(clock);
            } else {
                serving.link.unread();
                self.timeline
                    .at(self.now + LOOK_AGAIN, Event::Serve { flow: id });
            }
        }
        let _ = serving.link.take_retuned();
        serving.attendance.convict_or_spare();
    }

    fn settle(&mut self, id: FlowId, flow: &Flow, serving: &mut Serving) {
        if serving.finished || !serving.attendance.over() {
            return;
        }
        serving.finished = true;
        let session = serving.attendance.session().cloned();
        serving.attendance.finish();
        if let Some(session) = session {
            self.ended(id, flow, &session);
        }
    }

    /// Hands the outbox to the socket while there is room. True when nothing follows any more.
    fn mail(&mut self, id: FlowId, serving: &mut Serving) -> bool {
        serving.blocked = false;
        loop {
            let Some(flow) = &mut self.flows[id] else {
                return true;
            };
            if flow.pipes[Way::Down as usize].queue.len() >= SOCKET_HOLDS {
                serving.blocked = true;
                return false;
            }
            let mut cx = Context::from_waker(&serving.waker);
            match std::pin::Pin::new(&mut serving.mail).poll_next(&mut cx) {
                Poll::Ready(Some(Ok(message))) => {
                    flow.truth.sent(&message);
                    match &message.message {
                        Some(from_server::Message::Pong(_)) => self.tally.pongs += 1,
                        Some(from_server::Message::Bye(bye)) => {
                            let (server, host) = (flow.server, flow.host);
                            self.sent_away(server, host, bye);
                        }
                        _ => {}
                    }
                    self.send(id, Way::Down, Packet::Down(Box::new(message)));
                }
                Poll::Ready(_) => return true,
                Poll::Pending => return false,
            }
        }
    }

    pub(crate) fn hello_due(&mut self, id: FlowId) {
        let Some(flow) = &mut self.flows[id] else {
            return;
        };
        let greeting = |serving: &&mut Serving| {
            serving.attendance.session().is_none() && !serving.attendance.over()
        };
        if let Some(serving) = flow.serving.as_mut().filter(greeting) {
            serving.attendance.late();
            serving.finished = true;
            self.serve(id);
        }
    }

    /// How long the kernel at the sending end of `way` retransmits.
    pub(crate) fn kernel_patience(&self, id: FlowId, way: Way) -> Duration {
        const BEFORE_ANY_SESSION: Duration = Duration::from_secs(64);
        let Some(flow) = &self.flows[id] else {
            return BEFORE_ANY_SESSION;
        };
        let patience = match way {
            Way::Up => self.hosts[flow.host].patience(id),
            Way::Down => flow.serving.as_ref().and_then(|serving| {
                let sessions = serving.link.sessions();
                sessions
                    .iter()
                    .map(|session| session.expectation().kernel_gives_up_after)
                    .max()
            }),
        };
        patience.unwrap_or(BEFORE_ANY_SESSION)
    }

    /// The moment of the world at which this server's `moment` was.
    pub(crate) fn world_time(&self, server: usize, moment: Moment) -> Moment {
        self.servers[server].world_time(moment)
    }
}

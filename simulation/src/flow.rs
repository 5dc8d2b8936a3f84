//! One connection, with what each end holds of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::{Expectation, Moment, Revised};
use fleetbeat_server::lane::{Attendance, Mail};
use fleetbeat_server::registry::Link;
use std::sync::Mutex;

use crate::net::{FlowId, Pipe, Way};
use crate::world::World;

/// A TCP connection of one run of an agent to one run of a server.
#[derive(Debug)]
pub(crate) struct Flow {
    pub host: usize,
    pub life: u64,
    pub instance: [u8; 16],
    pub server: usize,
    pub run: u32,
    pub lane: usize,
    /// By [`Way`].
    pub pipes: [Pipe; 2],
    /// A middlebox dropped its state.
    pub forgotten: bool,
    pub serving: Option<Serving>,
    pub truth: Truth,
}

/// What the server's process holds of a connection.
#[derive(Debug)]
pub(crate) struct Serving {
    pub attendance: Attendance,
    pub mail: Mail,
    pub link: Arc<Link>,
    pub bell: Arc<Bell>,
    pub waker: Waker,
    /// The end is written down.
    pub finished: bool,
    /// Mail waits for room in the socket.
    pub blocked: bool,
}

/// What really happened, whatever the product thinks.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// When the last message of the agent reached the server's kernel.
    pub arrived: Option<Moment>,
    /// When the server's lane read the last one of the session.
    pub read: Option<Moment>,
    /// When something sent was lost or stopped last, in either way.
    pub failed: Option<Moment>,
    /// When the session opened, and under which fence.
    pub opened: Option<(Moment, Fence)>,
    /// What the agent may run: what it acknowledged last and every push that went out since.
    pub owed: Vec<Revised>,
    /// When the agent read something last.
    pub agent_read: Option<Moment>,
}

impl Truth {
    /// The patience that the server owes, component by component.
    pub(crate) fn expectation(&self) -> Option<Expectation> {
        let each = self.owed.iter().map(|revised| revised.tuning.expectation());
        each.reduce(Expectation::component_max)
    }

    pub(crate) fn look_back(&self) -> Duration {
        self.expectation()
            .map_or(Duration::ZERO, |owed| owed.look_back)
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.expectation()
            .map_or(Duration::ZERO, |owed| owed.offline_after)
    }
}

/// Connections whose tasks were woken, in order.
#[derive(Debug, Default)]
pub(crate) struct Woken(Mutex<Vec<FlowId>>);

impl Woken {
    pub(crate) fn take(&self) -> Vec<FlowId> {
        self.0
            .lock()
            .map(|mut woken| std::mem::take(&mut *woken))
            .unwrap_or_default()
    }
}

/// Waker of one connection's task.
#[derive(Debug)]
pub(crate) struct Bell {
    flow: FlowId,
    woken: Arc<Woken>,
    rung: AtomicBool,
    /// The task runs and looks again before it sleeps.
    awake: AtomicBool,
}

impl Bell {
    pub(crate) fn new(flow: FlowId, woken: &Arc<Woken>) -> Arc<Self> {
        Arc::new(Self {
            flow,
            woken: Arc::clone(woken),
            rung: AtomicBool::new(true),
            awake: AtomicBool::new(false),
        })
    }

    pub(crate) fn rise(&self) {
        self.awake.store(true, Ordering::Relaxed);
    }

    pub(crate) fn rest(&self) {
        self.awake.store(false, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> bool {
        self.rung.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::Relaxed)
            && !self.awake.load(Ordering::Relaxed)
            && let Ok(mut woken) = self.woken.0.lock()
        {
            woken.push(self.flow);
        }
    }
}

impl World {
    /// A new connection; the handshake is done.
    pub(crate) fn connect(&mut self, host: usize, server: usize) -> FlowId {
        let id = self.flows.len();
        let rto = self.hosts[host].delay * 3;
        let running = &self.servers[server];
        let lane = self.dice.below(running.lanes());
        self.flows.push(Some(Box::new(Flow {
            host,
            life: self.hosts[host].life,
            instance: self.hosts[host]
                .process
                .as_ref()
                .map_or([0; 16], |process| process.instance),
            server,
            run: running.run,
            lane,
            pipes: [Pipe::new(rto), Pipe::new(rto)],
            forgotten: false,
            serving: None,
            truth: Truth::default(),
        })));
        self.live_flows.push(id);
        id
    }

    /// Whether a process at the end of `way` still holds its end.
    pub(crate) fn listens(&self, id: FlowId, way: Way) -> bool {
        let Some(flow) = &self.flows[id] else {
            return false;
        };
        let open = !flow.pipes[way.back() as usize].closed;
        open && match way {
            Way::Up => self.servers[flow.server].serves(flow.run),
            Way::Down => self.hosts[flow.host].attends(flow.life, id),
        }
    }

    /// Whether the kernel at the end of `way` runs.
    pub(crate) fn machine_up(&self, id: FlowId, way: Way) -> bool {
        self.flows[id].as_ref().is_some_and(|flow| match way {
            Way::Up => !self.servers[flow.server].frozen,
            Way::Down => self.hosts[flow.host].up(),
        })
    }

    /// One end lets go; the other reads of it behind everything sent before.
    pub(crate) fn close(&mut self, id: FlowId, way: Way) {
        let Some(flow) = &self.flows[id] else {
            return;
        };
        if flow.pipes[way as usize].closed {
            return;
        }
        self.send(id, way, crate::net::Packet::Fin);
        if let Some(flow) = &mut self.flows[id] {
            flow.pipes[way as usize].closed = true;
        }
    }

    /// The machine at the sending end of `way` is gone, with all that it had to send.
    pub(crate) fn lose_power(&mut self, id: FlowId, way: Way) {
        if let Some(flow) = &mut self.flows[id] {
            flow.pipes[way as usize].vanish();
        }
    }

    /// Forgets connections that neither end holds.
    pub(crate) fn sweep_flows(&mut self) {
        let mut live = std::mem::take(&mut self.live_flows);
        live.retain(|id| {
            let gone = self.flows[*id].as_ref().is_none_or(|flow| {
                flow.serving.is_none()
                    && flow.pipes.iter().all(|pipe| pipe.closed)
                    && !self.hosts[flow.host].attends(flow.life, *id)
            });
            if gone {
                self.flows[*id] = None;
            }
            !gone
        });
        self.live_flows = live;
    }
}

//! The shell around the agent's machines: what its event loop does, without sockets and timers.

use std::time::Duration;

use fleetbeat_agent::comeback::Comeback;
use fleetbeat_agent::session::{Cause, Ending, Output, Session};
use fleetbeat_liveness::{Moment, Revised};
use fleetbeat_proto::PROTOCOL;
use fleetbeat_proto::v1::from_agent::Message as Upward;
use fleetbeat_proto::v1::{self, FromAgent};

use crate::host::{Phase, Process, Promise, identity};
use crate::net::{FlowId, Packet, Way};
use crate::timeline::Event;
use crate::world::World;

/// When the kernel sends SYN, from the first attempt.
const SYN_AT: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(7),
];
/// An attempt to connect is given up after this time.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

impl World {
    /// The service manager starts the agent.
    pub(crate) fn start_agent(&mut self, host: usize) {
        let (instance, rng) = (self.dice.bytes(), self.dice.split());
        let me = &mut self.hosts[host];
        if me.retired || me.process.is_some() || !me.up() {
            return;
        }
        me.life += 1;
        me.disk.incarnation += 1;
        me.process = Some(Process {
            instance,
            incarnation: me.disk.incarnation,
            connection: 0,
            acknowledged: me.disk.tuning,
            comeback: Comeback::new(rng),
            round: Vec::new(),
            phase: Phase::Away {
                until: me.clock(self.now),
            },
            stops: 0,
            stopped_at: Moment::ZERO,
            writing: None,
            next_write: None,
            last: None,
            promise: Promise::default(),
        });
        me.troubled = self.now;
        let incarnation = me.disk.incarnation;
        self.tell(Some(host), None, || {
            format!("agent starts, incarnation {incarnation}")
        });
        self.set_timer(host);
    }

    /// The process is gone; the kernel closes what it held, unless the machine is gone as well.
    pub(crate) fn kill_agent(&mut self, host: usize, machine_too: bool) {
        let now = self.now;
        let Some(process) = self.hosts[host].process.take() else {
            return;
        };
        self.hosts[host].troubled = now;
        if let Phase::Attending { flow, .. } = process.phase {
            if machine_too {
                self.lose_power(flow, Way::Up);
            } else {
                self.close(flow, Way::Up);
            }
        }
    }

    /// Asks to be woken when the agent's machine wants to be.
    pub(crate) fn set_timer(&mut self, host: usize) {
        let late = self.dice.between(Duration::ZERO, Duration::from_millis(2));
        let me = &mut self.hosts[host];
        me.ticket += 1;
        let Some(process) = &me.process else { return };
        let due = match &process.phase {
            Phase::Away { until } => *until,
            Phase::Dialing { since, tries, .. } => {
                *since + SYN_AT.get(*tries).copied().unwrap_or(CONNECT_WITHIN)
            }
            Phase::Attending { session, .. } => session.poll_timeout(),
        };
        if due < Moment::FAR {
            let at = me.world_time(due).max(self.now) + late;
            let ticket = me.ticket;
            self.timeline.at(at, Event::Wake { host, ticket });
        }
    }

    pub(crate) fn wake_agent(&mut self, host: usize, ticket: u64) {
        if self.hosts[host].ticket == ticket && self.hosts[host].acts() {
            self.agent_due(host);
        }
    }

    /// The agent's timer has run out.
    pub(crate) fn agent_due(&mut self, host: usize) {
        let now = self.hosts[host].clock(self.now);
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        match &mut process.phase {
            Phase::Away { until } if now >= *until => {
                if process.round.is_empty() {
                    process.round = (0..self.servers.len()).collect();
                    self.dice.shuffle(&mut process.round);
                }
                let server = process.round.pop().unwrap_or_default();
                process.phase = Phase::Dialing {
                    server,
                    since: now,
                    tries: 0,
                };
                self.dial(host);
            }
            Phase::Dialing { .. } => self.dial(host),
            Phase::Attending { session, .. } => {
                session.handle_timeout(now, 0);
                self.act(host);
            }
            Phase::Away { .. } => self.set_timer(host),
        }
    }

    fn dial(&mut self, host: usize) {
        let now = self.hosts[host].clock(self.now);
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let Phase::Dialing {
            server,
            tries,
            since,
        } = &mut process.phase
        else {
            return;
        };
        *tries += 1;
        let (server, late) = (*server, now.since(*since) >= CONNECT_WITHIN);
        let reached = Way::BOTH.iter().all(|way| self.reaches(host, server, *way));
        if !late && !reached {
            return self.set_timer(host);
        }
        if late || self.servers[server].process.is_none() {
            self.tally.attempts_failed += 1;
            if let Some(process) = &mut self.hosts[host].process {
                let wait = process.comeback.after_failure();
                process.phase = Phase::Away { until: now + wait };
            }
            return self.set_timer(host);
        }
        let flow = self.connect(host, server);
        self.greet(host, flow);
    }

    fn greet(&mut self, host: usize, flow: FlowId) {
        let rng = self.dice.split();
        let me = &mut self.hosts[host];
        let now = me.clock(self.now);
        let (agent, group, boots) = (me.agent, me.group, me.boots);
        let Some(process) = &mut me.process else {
            return;
        };
        process.connection += 1;
        let hello = v1::Hello {
            protocol: PROTOCOL,
            agent_id: identity(agent).as_bytes().to_vec(),
            instance_id: process.instance.to_vec(),
            fence: Some(v1::Fence {
                incarnation: process.incarnation,
                connection: process.connection,
            }),
            name: format!("agent-{agent}"),
            group: format!("g{group}"),
            boot_id: format!("{host}-{boots}"),
            applied: process.acknowledged.map(Into::into),
            last_ending: process
                .last
                .as_ref()
                .map(|(ending, at)| ending.account(now.since(*at))),
            ..v1::Hello::default()
        };
        let session = Box::new(Session::greet(now, process.acknowledged, rng));
        process.promise = Promise::default();
        process.phase = Phase::Attending { flow, session };
        let message = Box::new(FromAgent {
            message: Some(Upward::Hello(hello)),
        });
        self.send(flow, Way::Up, Packet::Up(message));
        self.set_timer(host);
    }

    /// Bytes wait in the host's kernel for its agent.
    pub(crate) fn agent_has_news(&mut self, id: FlowId) {
        let Some(flow) = &self.flows[id] else { return };
        let host = flow.host;
        if self.hosts[host].acts() && self.hosts[host].attends(flow.life, id) {
            self.agent_reads(host, id);
        }
    }

    pub(crate) fn agent_reads(&mut self, host: usize, id: FlowId) {
        let clock = self.hosts[host].clock(self.now);
        while let Some(flow) = &mut self.flows[id] {
            let Some(packet) = flow.pipes[Way::Down as usize].inbox.pop_front() else {
                break;
            };
            flow.truth.agent_read = Some(self.now);
            let Some(process) = &mut self.hosts[host].process else {
                break;
            };
            let Phase::Attending { flow, session } = &mut process.phase else {
                break;
            };
            if *flow != id {
                break;
            }
            match packet {
                Packet::Down(message) => session.handle_message(clock, *message),
                Packet::Fin => session.broken(clock, "the server ended the stream"),
                Packet::Reset => session.broken(clock, "connection reset"),
                Packet::Up(_) => {}
            }
            self.act(host);
        }
    }

    pub(crate) fn kept(&mut self, host: usize) {
        let me = &mut self.hosts[host];
        let Some(process) = &mut me.process else {
            return;
        };
        let Some(revised) = process.writing.take() else {
            return;
        };
        me.disk.tuning = Some(revised);
        process.acknowledged = Some(revised);
        if let Some(next) = process.next_write.take() {
            self.keep(host, next);
        }
        let me = &mut self.hosts[host];
        let clock = me.clock(self.now);
        if let Some(Process {
            phase: Phase::Attending { session, .. },
            ..
        }) = &mut me.process
        {
            session.kept(clock, revised);
            self.act(host);
        }
    }

    /// Writes one tuning at a time; of those that come meanwhile the newest.
    fn keep(&mut self, host: usize, revised: Revised) {
        let me = &mut self.hosts[host];
        let Some(process) = &mut me.process else {
            return;
        };
        if process.writing.is_some() {
            process.next_write = Some(revised);
            return;
        }
        process.writing = Some(revised);
        let (life, most) = (me.life, me.disk_delay);
        let takes = self.dice.between(Duration::ZERO, most);
        self.timeline
            .at(self.now + takes, Event::Kept { host, life });
    }

    /// Does what the agent's machine asks for.
    pub(crate) fn act(&mut self, host: usize) {
        let mut welcomed = None;
        while let Some(Process {
            phase: Phase::Attending { flow, session },
            ..
        }) = &mut self.hosts[host].process
        {
            let flow = *flow;
            let Some(output) = session.poll() else { break };
            match output {
                Output::Send(message) => {
                    if matches!(message, Upward::Ping(_)) {
                        welcomed = None;
                        self.tally.beats += 1;
                    }
                    self.check_promise(host, &message);
                    let message = Box::new(FromAgent {
                        message: Some(message),
                    });
                    self.send(flow, Way::Up, Packet::Up(message));
                }
                Output::Welcomed { .. } => {
                    welcomed = Some(self.now);
                    self.welcomed(host);
                }
                Output::Keep(revised) => self.keep(host, revised),
                Output::Refused { revision, .. } => {
                    self.tell(Some(host), None, || {
                        format!("agent refuses revision {revision}")
                    });
                }
                Output::End(ending) => self.agent_ended(host, flow, ending),
            }
        }
        if welcomed.is_some() {
            self.object("1", Some(host), None, || {
                "the agent was welcomed and sent no PING at once".to_owned()
            });
        }
        self.check_agent(host);
        self.set_timer(host);
    }

    fn agent_ended(&mut self, host: usize, flow: FlowId, ending: Ending) {
        self.tell(Some(host), None, || {
            format!(
                "agent ends its session: {} ({})",
                ending.word(),
                ending.detail
            )
        });
        self.check_agents_verdict(host, flow, &ending);
        self.close(flow, Way::Up);
        let me = &mut self.hosts[host];
        let now = me.clock(self.now);
        let Some(process) = &mut me.process else {
            return;
        };
        if ending.cause == Cause::Goodbye {
            process.phase = Phase::Away { until: Moment::FAR };
            return;
        }
        let plan = process.comeback.after(&ending);
        if let Some(floor) = plan.above {
            process.incarnation = process.incarnation.max(floor.above().incarnation);
            process.connection = 0;
            me.disk.incarnation = process.incarnation;
        }
        if ending.lived.is_some() {
            process.last = Some((ending, now));
        }
        process.phase = Phase::Away {
            until: now + plan.wait,
        };
    }
}

//! The world of one seed: hosts, servers, what is between them, and the order of events.

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::policy::{Policy, PolicySet, Selector};
use fleetbeat_liveness::{Moment, Tuning};

use crate::dice::Dice;
use crate::fault::Fault;
use crate::flow::{Flow, Woken};
use crate::host::Host;
use crate::net::FlowId;
use crate::plan::{self, Options, Plan};
use crate::referee::Referee;
use crate::server::Server;
use crate::story::{Line, Tally, Violation};
use crate::timeline::{Event, Timeline};

/// When a world begins; nothing is special about it.
const START: Duration = Duration::from_secs(1_000);
/// Faults begin when the fleet had time to connect.
const SETTLED: Duration = Duration::from_secs(5);
const SWEEP: Duration = Duration::from_secs(1);
/// Wall time at the world's zero: 2026-01-01, microseconds.
const WALL: i64 = 1_767_225_600_000_000;

#[derive(Debug)]
pub(crate) struct World {
    pub now: Moment,
    pub dice: Dice,
    pub plan: Plan,
    pub timeline: Timeline,
    pub hosts: Vec<Host>,
    pub servers: Vec<Server>,
    pub flows: Vec<Option<Box<Flow>>>,
    pub live_flows: Vec<FlowId>,
    /// By group and server, each way.
    pub cuts: Vec<Vec<[u32; 2]>>,
    pub policies: Arc<PolicySet>,
    pub woken: Arc<Woken>,
    pub faults: Vec<Fault>,
    pub faults_until: Moment,
    pub referee: Referee,
    pub tally: Tally,
    pub violation: Option<Violation>,
    pub telling: bool,
    pub lines: Vec<Line>,
}

/// What came of one seed.
#[derive(Debug)]
pub struct Outcome {
    pub tally: Tally,
    pub violation: Option<Violation>,
    /// What happened, when it was asked for.
    pub lines: Vec<Line>,
}

/// Runs one seed to its end or to the first violation. With `telling` it also notes what happens.
#[must_use]
pub fn run(options: &Options, telling: bool) -> Outcome {
    let mut world = World::new(options, telling);
    world.populate();
    world.run();
    Outcome {
        tally: world.tally,
        violation: world.violation,
        lines: world.lines,
    }
}

impl World {
    fn new(options: &Options, telling: bool) -> Self {
        let mut dice = Dice::new(options.seed);
        let mut plan = Plan::draw(options, &mut dice);
        if options.calm {
            plan = plan.calm();
        }
        let now = Moment::ZERO + START;
        let tuning = plan::tuning(&mut dice);
        let tuning = if plan.calm { Tuning::default() } else { tuning };
        let policies = PolicySet::default().with(Policy::whole(Selector::fleet(), tuning));
        plan.longest = plan
            .longest
            .max(policies.default_tuning().deadline_at_most());
        let periods = if plan.calm {
            &[20][..]
        } else {
            &[20, 20, 50, 100]
        };
        let servers = (0..plan.servers)
            .map(|_| Server::new(WALL, Duration::from_millis(dice.pick(periods))))
            .collect();
        Self {
            now,
            timeline: Timeline::default(),
            hosts: Vec::new(),
            servers,
            flows: Vec::new(),
            live_flows: Vec::new(),
            cuts: vec![vec![[0; 2]; plan.servers]; plan.groups],
            policies: Arc::new(policies),
            woken: Arc::default(),
            faults: Vec::new(),
            faults_until: now + SETTLED + plan.faults_for,
            referee: Referee::new(plan.servers),
            tally: Tally::default(),
            violation: None,
            telling,
            lines: Vec::new(),
            dice,
            plan,
        }
    }

    fn populate(&mut self) {
        for server in 0..self.servers.len() {
            self.boot(server);
        }
        for agent in 0..self.plan.agents {
            let group = self.dice.below(self.plan.groups);
            let delay = self
                .dice
                .log_between(Duration::from_micros(100), Duration::from_millis(60));
            self.hosts.push(Host::new(agent, group, delay));
            let later = self.dice.between(Duration::ZERO, SETTLED / 2);
            self.timeline.at(
                self.now + later,
                Event::Start {
                    host: agent,
                    life: 0,
                },
            );
        }
        self.timeline.at(self.now + SETTLED, Event::Strike);
        self.timeline.at(self.now + SWEEP, Event::Sweep);
    }

    fn run(&mut self) {
        let began = self.now;
        while let Some((at, event)) = self.timeline.next() {
            if at > self.faults_until + self.all_back_within() {
                self.sweep();
                self.check_everybody_is_back();
                break;
            }
            self.now = at;
            self.tally.events += 1;
            self.happen(event);
            if self.violation.is_some() {
                break;
            }
        }
        self.tally.virtual_seconds = self.now.since(began).as_secs();
    }

    /// The host on which an agent lives; a copy counts as its original.
    pub(crate) fn host_of(&self, agent: usize) -> Option<usize> {
        (agent < self.hosts.len()).then_some(agent)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake { host, ticket } => self.wake_agent(host, ticket),
            Event::Kept { host, life } => self.disk_done(host, life),
            Event::Start { host, life } => {
                if self.hosts[host].life == life {
                    self.start_agent(host);
                }
            }
            Event::Arrive { flow, way } => self.arrive(flow, way),
            Event::Retransmit { flow, way, ticket } => self.retransmit(flow, way, ticket),
            Event::GiveUp { flow, way, ticket } => self.kernel_gives_up(flow, way, ticket),
            Event::Reset { flow, way } => self.reset(flow, way),
            Event::Serve { flow } => self.serve(flow),
            Event::HelloDue { flow } => self.hello_due(flow),
            Event::Sweep => {
                self.sweep();
                self.timeline.at(self.now + SWEEP, Event::Sweep);
            }
            Event::Strike => self.strike(),
            Event::Heal { fault } => self.heal(fault),
            Event::Tick { server, run, .. }
            | Event::Pass { server, run }
            | Event::Harvest { server, run }
            | Event::Learn { server, run }
            | Event::Restore { server, run }
            | Event::Stall { server, run, .. }
            | Event::Boot { server, run }
            | Event::Exit { server, run } => {
                if self.servers[server].run == run {
                    self.server_event(server, event);
                }
            }
        }
    }

    fn server_event(&mut self, server: usize, event: Event) {
        match event {
            Event::Tick { lane, .. } => self.tick(server, lane),
            Event::Pass { .. } => self.pass(server),
            Event::Harvest { .. } => self.harvest(server),
            Event::Learn { .. } => self.learn(server),
            Event::Restore { .. } => self.restore(server),
            Event::Stall { lane, lasts, .. } => self.stop(server, vec![lane], false, false, lasts),
            Event::Exit { .. } => self.exit_in_order(server),
            Event::Boot { .. } if self.servers[server].process.is_none() => {
                self.servers[server].frozen = false;
                self.boot(server);
            }
            Event::Boot { .. }
            | Event::Wake { .. }
            | Event::Kept { .. }
            | Event::Start { .. }
            | Event::Arrive { .. }
            | Event::Retransmit { .. }
            | Event::GiveUp { .. }
            | Event::Reset { .. }
            | Event::Serve { .. }
            | Event::HelloDue { .. }
            | Event::Sweep
            | Event::Strike
            | Event::Heal { .. } => {}
        }
    }

    /// A disk took what the agent wrote; an agent that is stopped hears of it later.
    fn disk_done(&mut self, host: usize, life: u64) {
        let me = &self.hosts[host];
        if me.life != life {
            return;
        }
        if me.acts() {
            self.kept(host);
        } else if me.process.is_some() {
            let later = self.now + Duration::from_millis(100);
            self.timeline.at(later, Event::Kept { host, life });
        }
    }
}

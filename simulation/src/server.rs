//! One server: the product's registry, lanes and judge under clocks that are set by hand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::backoff::absence_grace;
use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_liveness::{Moment, Revised, Tuning};
use fleetbeat_server::clock::{Clock, Hands};
use fleetbeat_server::judge::{Next, Pulse, Sitting};
use fleetbeat_server::lane::Context;
use fleetbeat_server::registry::{Entry, Facts, Known, Rates, Registry, Transition};

use crate::net::{FlowId, Way};
use crate::timeline::Event;
use crate::world::World;

const TICK: Duration = Duration::from_millis(100);
const HARVEST: Duration = Duration::from_millis(250);
/// Reconnects per second that every server takes.
pub(crate) const RATES: Rates = Rates {
    reconnect_per_s: 100,
    admission_per_s: 1_000,
};

#[derive(Debug)]
pub(crate) struct Server {
    hands: &'static Hands,
    /// World time at which this run's monotonic clock read zero.
    origin: Moment,
    /// Wall time at the world's zero, microseconds since 1970; faults move it.
    pub wall_offset: i64,
    /// Counts the runs of the process.
    pub run: u32,
    pub process: Option<Process>,
    /// The machine does not run: nothing passes.
    pub frozen: bool,
    pub cuts: [u32; 2],
    /// Time between two passes of the judge.
    pub period: Duration,
    record: Record,
}

/// One run of the server's process.
#[derive(Debug)]
pub(crate) struct Process {
    pub registry: Arc<Registry>,
    pub sitting: Sitting,
    pub lanes: Vec<Lane>,
    /// How many faults stop the judge.
    pub judge_stops: u32,
    /// Its next pass was due while it was stopped.
    pub judge_overdue: bool,
    /// Stops of lanes and of the judge, for the referee.
    pub stops: Vec<Stop>,
    pub draining: bool,
    /// Since when verdicts are held, and when they were released last.
    pub held_since: Option<Moment>,
    pub released: Moment,
    /// When a lane read anything of anybody last.
    pub read: Moment,
    /// Messages per second that live sessions owed at least, at each sweep of the last half hour.
    pub owed: VecDeque<(Moment, f64)>,
}

impl Process {
    /// To be called at each sweep.
    pub(crate) fn note_what_is_owed(&mut self, now: Moment) {
        const REMEMBERED: Duration = Duration::from_mins(30);
        let agents = self.registry.agents();
        let sessions = agents.iter().filter_map(|agent| agent.session());
        let rate = sessions.map(|session| {
            let expectation = session.expectation();
            expectation.owed_in_look_back() / expectation.look_back.as_secs_f64()
        });
        self.owed.push_back((now, rate.sum()));
        while self
            .owed
            .front()
            .is_some_and(|(at, _)| now.since(*at) > REMEMBERED)
        {
            self.owed.pop_front();
        }
    }

    /// Messages that were owed since then, as far as the sweeps tell.
    pub(crate) fn owed_since(&self, since: Moment) -> f64 {
        let later = self.owed.iter().skip_while(|(at, _)| *at < since);
        let pairs = later.clone().zip(later.skip(1));
        pairs
            .map(|(from, to)| from.1.min(to.1) * to.0.since(from.0).as_secs_f64())
            .sum()
    }
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub context: Arc<Context>,
    /// How many faults stop it.
    pub stops: u32,
    /// Connections with something to do, found when it runs again.
    pub ready: BTreeSet<FlowId>,
    tick_due: Moment,
    /// Its tick was due while it was stopped.
    pub overdue: bool,
}

/// A time in which the judge or a lane did not run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    /// `None` is the judge.
    pub lane: Option<usize>,
    pub began: Moment,
    pub ended: Option<Moment>,
}

/// What Postgres knows, and what waits to be written there.
#[derive(Debug, Default)]
struct Record {
    agents: BTreeMap<usize, Known>,
    open: BTreeMap<usize, u32>,
    waiting: VecDeque<(usize, Arc<Facts>, Entry)>,
}

impl Server {
    pub(crate) fn new(wall_offset: i64, period: Duration) -> Self {
        Self {
            hands: Box::leak(Box::default()),
            origin: Moment::ZERO,
            wall_offset,
            run: 0,
            process: None,
            frozen: false,
            cuts: [0; 2],
            period,
            record: Record::default(),
        }
    }

    pub(crate) fn reachable(&self, way: Way) -> bool {
        // What arrives is cut by the first, what leaves by the second.
        !self.frozen && self.cuts[way as usize] == 0
    }

    /// Whether this run of the process is there, stopped or not.
    pub(crate) fn serves(&self, run: u32) -> bool {
        self.process.is_some() && self.run == run
    }

    pub(crate) fn lanes(&self) -> usize {
        self.process
            .as_ref()
            .map_or(1, |process| process.lanes.len())
    }

    pub(crate) fn lane_runs(&self, lane: usize) -> bool {
        let running = |process: &Process| process.lanes[lane].stops == 0;
        self.process.as_ref().is_some_and(running)
    }

    /// What this server's own monotonic clock shows at `now`.
    pub(crate) fn clock(&self, now: Moment) -> Moment {
        Moment::ZERO + now.since(self.origin)
    }

    /// The world's time of a moment of this run.
    pub(crate) fn world_time(&self, moment: Moment) -> Moment {
        self.origin + moment.since(Moment::ZERO)
    }

    pub(crate) fn set_clock(&self, now: Moment) {
        self.hands.set(self.clock(now));
        let micros = i64::try_from(now.as_nanos() / 1_000).unwrap_or(i64::MAX);
        self.hands.set_wall(micros.saturating_add(self.wall_offset));
    }
}

impl Record {
    /// One transition reaches Postgres.
    fn write(&mut self, agent: usize, facts: &Facts, entry: &Entry) {
        let known = self.agents.entry(agent).or_insert_with(|| Known {
            id: crate::host::identity(agent),
            facts: facts.clone(),
            fence: Fence {
                incarnation: 0,
                connection: 0,
            },
            verdict: Verdict::Unknown,
            since: entry.at,
            last_seen: None,
            applied: None,
            refused: None,
        });
        known.facts = facts.clone();
        match &entry.what {
            Transition::SessionOpened { fence, .. } => {
                known.fence = known.fence.max(*fence);
                known.last_seen = Some(entry.at);
                *self.open.entry(agent).or_default() += 1;
            }
            Transition::SessionClosed { session, .. } => {
                known.applied = session.acknowledged().or(known.applied);
                if let Some(open) = self.open.get_mut(&agent) {
                    *open = open.saturating_sub(1);
                }
            }
            Transition::Verdict { to, .. } => (known.verdict, known.since) = (*to, entry.at),
            Transition::TuningAnswered {
                revision, refusal, ..
            } => {
                known.refused = (!refusal.is_empty()).then(|| (*revision, refusal.clone()));
            }
            Transition::Condition { .. }
            | Transition::CauseSettled { .. }
            | Transition::Silence(_)
            | Transition::Renamed { .. }
            | Transition::Overdue { .. }
            | Transition::Refused { .. }
            | Transition::Coalesced { .. } => {}
        }
    }
}

impl World {
    /// The process starts. Postgres answers soon, or after agents are served.
    pub(crate) fn boot(&mut self, server: usize) {
        let lanes = self.plan.lanes;
        let now = self.now;
        let me = &mut self.servers[server];
        me.run += 1;
        me.origin = now;
        me.set_clock(now);
        let run = me.run;
        let registry = Arc::new(Registry::new(Clock::by_hand(me.hands), lanes, RATES));
        let lane = |index| Lane {
            context: Arc::new(Context::new(&registry, index, "simulated")),
            stops: 0,
            ready: BTreeSet::new(),
            tick_due: Moment::ZERO,
            overdue: false,
        };
        let lanes: Vec<_> = (0..lanes).map(lane).collect();
        for gauge in registry.lanes() {
            gauge.ticked(Moment::ZERO, Moment::ZERO);
        }
        me.process = Some(Process {
            sitting: Sitting::new(Arc::clone(&registry), Arc::new(Pulse::default())),
            registry,
            judge_stops: 0,
            judge_overdue: false,
            stops: Vec::new(),
            draining: false,
            held_since: None,
            released: Moment::ZERO,
            read: now,
            owed: VecDeque::new(),
            lanes,
        });
        let count = self.servers[server].lanes();
        for lane in 0..count {
            self.timeline
                .at(now + TICK, Event::Tick { server, run, lane });
        }
        self.timeline.at(now, Event::Pass { server, run });
        self.timeline
            .at(now + HARVEST, Event::Harvest { server, run });
        self.timeline.at(now, Event::Learn { server, run });
        let answer = if self.dice.chance(0.2) {
            self.dice.between(Duration::ZERO, Duration::from_secs(20))
        } else {
            Duration::ZERO
        };
        self.timeline
            .at(now + answer, Event::Restore { server, run });
        self.tell(None, Some(server), || {
            format!("server {server} starts, run {run}")
        });
    }

    /// Postgres says whom the runs before knew.
    pub(crate) fn restore(&mut self, server: usize) {
        let now = self.now;
        let me = &mut self.servers[server];
        me.set_clock(now);
        let Some(process) = &me.process else { return };
        let registry = Arc::clone(&process.registry);
        let sessions = std::mem::take(&mut me.record.open);
        let sessions: u64 = sessions.values().map(|open| u64::from(*open)).sum();
        let mut restored = Vec::new();
        for (agent, known) in &mut me.record.agents {
            // Whom the run before left online is in doubt.
            if matches!(known.verdict, Verdict::Online | Verdict::Suspect) {
                known.verdict = Verdict::Unknown;
            }
            let tuning = known
                .applied
                .map_or_else(Tuning::default, |applied| applied.tuning);
            let grace = absence_grace(sessions, RATES.admission_per_s, tuning.deadline());
            let at = registry.clock().now() + grace;
            restored.push((*agent, known.fence, known.verdict, tuning.deadline()));
            registry.restore(known.clone(), at);
        }
        for (agent, fence, verdict, deadline) in restored {
            self.referee
                .restored(server, agent, fence, verdict, deadline, now);
        }
        self.observe(server);
    }

    /// The process is gone at once, and with it what was not recorded.
    pub(crate) fn exit(&mut self, server: usize, machine_too: bool) {
        let Some(process) = self.servers[server].process.take() else {
            return;
        };
        self.servers[server].record.waiting.clear();
        self.referee.server_gone(server);
        for id in self.live_flows.clone() {
            let Some(flow) = &mut self.flows[id] else {
                continue;
            };
            if flow.server != server || flow.run != self.servers[server].run {
                continue;
            }
            flow.serving = None;
            if machine_too {
                self.lose_power(id, Way::Down);
            } else {
                self.close(id, Way::Down);
            }
        }
        drop(process);
        self.woken.take();
        self.tell(None, Some(server), || format!("server {server} is gone"));
    }

    pub(crate) fn tick(&mut self, server: usize, lane: usize) {
        let (now, run) = (self.now, self.servers[server].run);
        let me = &mut self.servers[server];
        me.set_clock(now);
        let clock = me.clock(now);
        let Some(process) = &mut me.process else {
            return;
        };
        if process.lanes[lane].stops > 0 {
            process.lanes[lane].overdue = true;
            return;
        }
        let due = process.lanes[lane].tick_due;
        let due = if due == Moment::ZERO { clock } else { due };
        process.registry.lanes()[lane].ticked(clock, due);
        process.lanes[lane].tick_due = clock + TICK;
        self.timeline
            .at(now + TICK, Event::Tick { server, run, lane });
    }

    pub(crate) fn pass(&mut self, server: usize) {
        let (now, run) = (self.now, self.servers[server].run);
        let me = &mut self.servers[server];
        me.set_clock(now);
        let period = me.period;
        let Some(process) = &mut me.process else {
            return;
        };
        if process.judge_stops > 0 {
            process.judge_overdue = true;
            return;
        }
        match process.sitting.pass() {
            Next::Pause(pause) => {
                let pause = if pause.is_zero() {
                    pause
                } else {
                    pause.max(period)
                };
                self.timeline.at(now + pause, Event::Pass { server, run });
                self.note_hold(server);
                self.observe(server);
                self.wake_tasks();
            }
            Next::LaneDied(lane) => {
                self.tell(None, Some(server), || {
                    format!("server {server} ends because lane {lane} is dead")
                });
                self.tally.lanes_died += 1;
                self.exit(server, false);
                let back = self
                    .dice
                    .between(Duration::from_secs(1), Duration::from_secs(10));
                self.timeline.at(now + back, Event::Boot { server, run });
            }
        }
    }

    pub(crate) fn write(&mut self, server: usize) {
        let record = &mut self.servers[server].record;
        while let Some((agent, facts, entry)) = record.waiting.pop_front() {
            record.write(agent, &facts, &entry);
        }
    }

    pub(crate) fn harvest(&mut self, server: usize) {
        let (now, run) = (self.now, self.servers[server].run);
        self.write(server);
        self.timeline
            .at(now + HARVEST, Event::Harvest { server, run });
    }

    fn note_hold(&mut self, server: usize) {
        let now = self.now;
        let Some(process) = &mut self.servers[server].process else {
            return;
        };
        let held = process.registry.held_since().is_some();
        match (process.held_since, held) {
            (None, true) => {
                process.held_since = Some(now);
                self.tally.holds += 1;
                self.tell(None, Some(server), || {
                    format!("server {server} holds its verdicts")
                });
            }
            (Some(since), false) => {
                (process.held_since, process.released) = (None, now);
                let held = now.since(since);
                self.tell(None, Some(server), || {
                    format!("server {server} releases its verdicts after {held:.1?}")
                });
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// Everything that was written in agents' journals since the last call.
    pub(crate) fn observe(&mut self, server: usize) {
        let Some(process) = &self.servers[server].process else {
            return;
        };
        let mut dirty = Vec::new();
        process.registry.take_record_dirty(&mut dirty);
        for known in dirty {
            let agent = crate::host::number(known.id);
            for entry in known.take_journal() {
                self.transition(server, agent, &entry);
                let facts = known.facts();
                let waiting = &mut self.servers[server].record.waiting;
                waiting.push_back((agent, facts, entry));
            }
        }
    }

    /// The newest policies become known to this server and are pushed to its sessions.
    pub(crate) fn learn(&mut self, server: usize) {
        let now = self.now;
        let me = &mut self.servers[server];
        me.set_clock(now);
        let Some(process) = &me.process else { return };
        let registry = Arc::clone(&process.registry);
        if registry.policies().revision() >= self.policies.revision() {
            return;
        }
        let policies = Arc::clone(&self.policies);
        registry.set_policies(Arc::clone(&policies));
        for agent in registry.agents() {
            let Some(session) = agent.session() else {
                continue;
            };
            let attributes = agent.facts().attributes(agent.id);
            let desired: Revised = policies.effective(&attributes).tuning;
            let last_sent = session.waiting_for().unwrap_or_else(|| session.in_force());
            if desired.tuning != last_sent.tuning && registry.push(&session, desired, "") {
                self.tally.pushes += 1;
            }
        }
        self.wake_tasks();
    }
}

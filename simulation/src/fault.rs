//! What goes wrong, when it begins and what ends it.

mod agents;
mod servers;

use std::time::Duration;

use crate::net::Way;
use crate::timeline::Event;
use crate::world::World;

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    AgentPaused,
    AgentKilled,
    AgentLeaves,
    HostSuspended,
    HostLosesPower,
    StateRolledBack,
    Twin,
    SlowDisk,
    HostCut,
    Blips,
    GroupCut,
    ServerCut,
    Loss,
    SlowPath,
    FlowForgotten,
    FlowReset,
    Storm,
    LaneStalled,
    JudgeStalled,
    ServerPaused,
    ServerFrozen,
    ServerKilled,
    ServerDrained,
    WallClockSteps,
    Retune,
    Brink,
}

impl Kind {
    pub(crate) const ALL: &[Self] = &[
        Self::AgentPaused,
        Self::AgentKilled,
        Self::AgentLeaves,
        Self::HostSuspended,
        Self::HostLosesPower,
        Self::StateRolledBack,
        Self::Twin,
        Self::SlowDisk,
        Self::HostCut,
        Self::Blips,
        Self::GroupCut,
        Self::ServerCut,
        Self::Loss,
        Self::SlowPath,
        Self::FlowForgotten,
        Self::FlowReset,
        Self::Storm,
        Self::LaneStalled,
        Self::JudgeStalled,
        Self::ServerPaused,
        Self::ServerFrozen,
        Self::ServerKilled,
        Self::ServerDrained,
        Self::WallClockSteps,
        Self::Retune,
        Self::Brink,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::AgentPaused => "agent paused",
            Self::AgentKilled => "agent killed",
            Self::AgentLeaves => "agent leaves",
            Self::HostSuspended => "host suspended",
            Self::HostLosesPower => "host loses power",
            Self::StateRolledBack => "state rolled back",
            Self::Twin => "twin",
            Self::SlowDisk => "slow disk",
            Self::HostCut => "host cut off",
            Self::Blips => "blips",
            Self::GroupCut => "group cut off",
            Self::ServerCut => "server cut off",
            Self::Loss => "loss",
            Self::SlowPath => "slow path",
            Self::FlowForgotten => "connection forgotten",
            Self::FlowReset => "connection reset",
            Self::Storm => "storm",
            Self::LaneStalled => "lane stalled",
            Self::JudgeStalled => "judge stalled",
            Self::ServerPaused => "server paused",
            Self::ServerFrozen => "server frozen",
            Self::ServerKilled => "server killed",
            Self::ServerDrained => "server drained",
            Self::WallClockSteps => "wall clock steps",
            Self::Retune => "retune",
            Self::Brink => "brink",
        }
    }
}

/// A fault that lasts, as what its end has to undo.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    Pause {
        host: usize,
        life: u64,
    },
    Suspension {
        host: usize,
    },
    PowerLoss {
        host: usize,
    },
    Copy {
        host: usize,
    },
    SlowDisk {
        host: usize,
    },
    Cuts {
        hosts: Vec<usize>,
        ways: Vec<Way>,
    },
    PairCut {
        group: usize,
        server: usize,
        ways: Vec<Way>,
    },
    ServerCut {
        server: usize,
        ways: Vec<Way>,
    },
    Loss {
        host: usize,
    },
    SlowPath {
        host: usize,
        delay: Duration,
        jitter: Duration,
    },
    Stop {
        server: usize,
        run: u32,
        lanes: Vec<usize>,
        judge: bool,
        frozen: bool,
    },
    Over,
}

const SHORT: Duration = Duration::from_millis(200);

impl World {
    /// The next fault begins, and the one after it is scheduled.
    pub(crate) fn strike(&mut self) {
        let kind = self.dice.pick(&self.plan.kinds);
        *self.tally.faults.entry(kind.word()).or_default() += 1;
        self.begin(kind);
        let next = self.now + self.dice.apart(self.plan.between_faults);
        if next < self.faults_until {
            self.timeline.at(next, Event::Strike);
        }
    }

    fn begin(&mut self, kind: Kind) {
        let host = self.dice.below(self.hosts.len());
        let server = self.dice.below(self.servers.len());
        let lasts = self.dice.log_between(SHORT, Duration::from_secs(100));
        match kind {
            Kind::AgentPaused => self.pause_agent(host, lasts),
            Kind::AgentKilled => self.kill_and_restart(host, 0),
            Kind::AgentLeaves => self.leave(host),
            Kind::HostSuspended => self.suspend(host, lasts * 3),
            Kind::HostLosesPower => self.cut_power(host, lasts),
            Kind::StateRolledBack => {
                let back = self.dice.number(1, 6);
                self.kill_and_restart(host, back.into());
            }
            Kind::Twin => self.copy_host(host),
            Kind::SlowDisk => {
                self.hosts[host].disk_delay = self.dice.log_between(SHORT, Duration::from_secs(20));
                self.last(Fault::SlowDisk { host }, lasts);
            }
            Kind::HostCut => self.cut_hosts(vec![host], lasts),
            Kind::Blips => self.blips(),
            Kind::GroupCut => self.cut_group(lasts),
            Kind::ServerCut => {
                let ways = self.ways();
                for way in &ways {
                    self.servers[server].cuts[*way as usize] += 1;
                }
                self.tell(None, Some(server), || {
                    format!("server {server} is cut off {ways:?} for {lasts:.1?}")
                });
                self.last(Fault::ServerCut { server, ways }, lasts);
            }
            Kind::Loss => {
                self.hosts[host].loss = self.dice.pick(&[0.02, 0.1, 0.3]);
                self.last(Fault::Loss { host }, lasts);
            }
            Kind::SlowPath => self.slow_path(host, lasts),
            Kind::FlowForgotten => self.forget_flow(),
            Kind::FlowReset => {
                if let Some(id) = self.any_flow() {
                    self.inject_reset(id);
                }
            }
            Kind::Storm => self.storm(server),
            Kind::LaneStalled => {
                let lane = self.dice.below(self.servers[server].lanes());
                self.stop(server, vec![lane], false, false, lasts.mul_f64(0.5));
            }
            Kind::JudgeStalled => self.stop(server, Vec::new(), true, false, lasts.mul_f64(0.5)),
            Kind::ServerPaused | Kind::ServerFrozen => {
                let all = (0..self.servers[server].lanes()).collect();
                self.stop(server, all, true, kind == Kind::ServerFrozen, lasts);
            }
            Kind::ServerKilled => self.kill_server(server, lasts * 3),
            Kind::ServerDrained => self.drain_server(server),
            Kind::WallClockSteps => self.step_wall_clock(server),
            Kind::Retune => self.retune(),
            Kind::Brink => self.brink(),
        }
    }

    /// Ends it after `lasts`.
    pub(crate) fn last(&mut self, fault: Fault, lasts: Duration) {
        let at = (self.now + lasts).min(self.faults_until);
        self.timeline.at(
            at,
            Event::Heal {
                fault: self.faults.len(),
            },
        );
        self.faults.push(fault);
    }

    pub(crate) fn heal(&mut self, index: usize) {
        match std::mem::replace(&mut self.faults[index], Fault::Over) {
            Fault::Pause { host, life } => self.resume_agent(host, life),
            Fault::Suspension { host } => self.resume_host(host),
            Fault::PowerLoss { host } => self.restore_power(host),
            Fault::Copy { host } => {
                self.kill_agent(host, true);
                self.hosts[host].retired = true;
            }
            Fault::SlowDisk { host } => self.hosts[host].disk_delay = Duration::from_millis(20),
            Fault::Cuts { hosts, ways } => {
                for host in hosts {
                    for way in &ways {
                        self.hosts[host].cuts[*way as usize] -= 1;
                    }
                }
            }
            Fault::PairCut {
                group,
                server,
                ways,
            } => {
                for way in ways {
                    self.cuts[group][server][way as usize] -= 1;
                }
            }
            Fault::ServerCut { server, ways } => {
                for way in ways {
                    self.servers[server].cuts[way as usize] -= 1;
                }
                self.tell(None, Some(server), || {
                    format!("server {server} is reachable again")
                });
            }
            Fault::Loss { host } => self.hosts[host].loss = 0.0,
            Fault::SlowPath {
                host,
                delay,
                jitter,
            } => {
                (self.hosts[host].delay, self.hosts[host].jitter) = (delay, jitter);
            }
            Fault::Stop {
                server,
                run,
                lanes,
                judge,
                frozen,
            } => {
                self.restart_parts(server, run, &lanes, judge, frozen);
            }
            Fault::Over => {}
        }
    }

    /// Both ways, or one of them.
    fn ways(&mut self) -> Vec<Way> {
        match self.dice.below(4) {
            0 => vec![Way::Up],
            1 => vec![Way::Down],
            _ => Way::BOTH.to_vec(),
        }
    }

    fn cut_hosts(&mut self, hosts: Vec<usize>, lasts: Duration) {
        let ways = self.ways();
        for host in &hosts {
            for way in &ways {
                self.hosts[*host].cuts[*way as usize] += 1;
            }
            let ways = ways.clone();
            self.tell(Some(*host), None, || {
                format!("cut off {ways:?} for {lasts:.3?}")
            });
        }
        self.last(Fault::Cuts { hosts, ways }, lasts);
    }

    /// Short cuts of a part of the fleet, at about the same time.
    fn blips(&mut self) {
        let share = self.dice.pick(&[0.1, 0.5]);
        for host in 0..self.hosts.len() {
            if self.dice.chance(share) {
                let lasts = self.dice.log_between(SHORT, Duration::from_secs(3));
                self.cut_hosts(vec![host], lasts);
            }
        }
    }

    fn cut_group(&mut self, lasts: Duration) {
        let group = self.dice.below(self.plan.groups);
        let ways = self.ways();
        let one = self.dice.chance(0.5);
        let only = self.dice.below(self.servers.len());
        for server in 0..self.servers.len() {
            if one && server != only {
                continue;
            }
            for way in &ways {
                self.cuts[group][server][*way as usize] += 1;
            }
            let ways = ways.clone();
            self.tell(None, Some(server), || {
                format!("group {group} is cut off server {server} {ways:?} for {lasts:.1?}")
            });
            self.last(
                Fault::PairCut {
                    group,
                    server,
                    ways,
                },
                lasts,
            );
        }
    }

    fn slow_path(&mut self, host: usize, lasts: Duration) {
        let slow = self
            .dice
            .log_between(Duration::from_millis(20), Duration::from_millis(400));
        let me = &mut self.hosts[host];
        let (delay, jitter) = (me.delay, me.jitter);
        if delay < Duration::from_millis(20) {
            (me.delay, me.jitter) = (slow, slow / 2);
            self.last(
                Fault::SlowPath {
                    host,
                    delay,
                    jitter,
                },
                lasts,
            );
        }
    }

    fn any_flow(&mut self) -> Option<usize> {
        let count = self.live_flows.len();
        (count > 0).then(|| self.live_flows[self.dice.below(count)])
    }

    /// A middlebox drops its state, silently or with a reset for the next packet.
    fn forget_flow(&mut self) {
        if let Some(id) = self.any_flow()
            && let Some(flow) = &mut self.flows[id]
        {
            flow.forgotten = true;
            let host = flow.host;
            self.tell(Some(host), None, || {
                format!("a middlebox forgets connection {id}")
            });
        }
    }

    fn inject_reset(&mut self, id: usize) {
        for way in Way::BOTH {
            self.timeline.at(self.now, Event::Reset { flow: id, way });
        }
    }

    /// Every connection of a server breaks at once.
    fn storm(&mut self, server: usize) {
        self.tell(None, Some(server), || {
            format!("every connection of server {server} is reset")
        });
        for id in self.live_flows.clone() {
            if self.flows[id]
                .as_ref()
                .is_some_and(|flow| flow.server == server)
            {
                self.inject_reset(id);
            }
        }
    }
}

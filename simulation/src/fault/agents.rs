//! Faults of hosts and of the agents on them.

use std::time::Duration;

use fleetbeat_agent::session::Pause;

use crate::fault::Fault;
use crate::host::{Disk, Host, Kin, Phase, Process};
use crate::timeline::Event;
use crate::world::World;

impl World {
    pub(crate) fn pause_agent(&mut self, host: usize, lasts: Duration) {
        let now = self.now;
        let me = &mut self.hosts[host];
        let life = me.life;
        let Some(process) = &mut me.process else {
            return;
        };
        process.stops += 1;
        process.stopped_at = now;
        self.tell(Some(host), None, || {
            format!("agent is stopped for {lasts:.3?}")
        });
        self.last(Fault::Pause { host, life }, lasts);
    }

    pub(crate) fn resume_agent(&mut self, host: usize, life: u64) {
        let me = &mut self.hosts[host];
        if me.life != life {
            return;
        }
        let Some(process) = &mut me.process else {
            return;
        };
        process.stops -= 1;
        self.tell(Some(host), None, || "agent continues".to_owned());
        self.agent_runs_again(host);
    }

    /// Timers and sockets are looked at in any order.
    fn agent_runs_again(&mut self, host: usize) {
        let now = self.now;
        let me = &mut self.hosts[host];
        me.troubled = now;
        let clock = me.clock(now);
        let Some(process) = &mut me.process else {
            return;
        };
        if process.stops > 0 || me.suspended.is_some() {
            return;
        }
        process.promise.last_sent = None;
        if let Phase::Attending { flow, session } = &mut process.phase {
            let id = *flow;
            let late = clock.since(session.poll_timeout());
            session.lagged(late);
            let timers_first = late > Duration::ZERO && self.dice.chance(0.5);
            if timers_first {
                self.agent_due(host);
            }
            self.agent_reads(host, id);
        }
        self.set_timer(host);
    }

    /// The agent dies; its state may be replaced by a copy that is `back` starts old.
    pub(crate) fn kill_and_restart(&mut self, host: usize, back: u64) {
        if self.hosts[host].process.is_none() {
            return;
        }
        self.kill_agent(host, false);
        let me = &mut self.hosts[host];
        if back > 0 {
            if me.kin == Kin::Sole {
                me.kin = Kin::RolledBack;
            }
            me.disk = Disk {
                incarnation: me.disk.incarnation.saturating_sub(back),
                tuning: None,
            };
        }
        self.tell(Some(host), None, || {
            format!("agent is killed, its state {back} starts back")
        });
        self.start_later(host);
    }

    fn start_later(&mut self, host: usize) {
        let life = self.hosts[host].life;
        let later = self
            .dice
            .log_between(Duration::from_millis(100), Duration::from_secs(150));
        let at = (self.now + later).min(self.faults_until);
        self.timeline.at(at, Event::Start { host, life });
    }

    pub(crate) fn leave(&mut self, host: usize) {
        if !self.hosts[host].acts() {
            return;
        }
        self.tell(Some(host), None, || "agent is told to stop".to_owned());
        let clock = self.hosts[host].clock(self.now);
        if let Some(Process {
            phase: Phase::Attending { session, .. },
            ..
        }) = &mut self.hosts[host].process
        {
            session.leave(clock, "the agent was told to stop", None);
            self.act(host);
        }
        self.kill_agent(host, false);
        self.start_later(host);
    }

    pub(crate) fn suspend(&mut self, host: usize, lasts: Duration) {
        let me = &mut self.hosts[host];
        if me.up() {
            me.suspended = Some(self.now);
            self.tell(Some(host), None, || format!("host sleeps for {lasts:.1?}"));
            self.last(Fault::Suspension { host }, lasts);
        }
    }

    pub(crate) fn resume_host(&mut self, host: usize) {
        let now = self.now;
        let slept = self.hosts[host].resume(now);
        self.tell(Some(host), None, || "host wakes up".to_owned());
        let me = &mut self.hosts[host];
        me.troubled = now;
        let clock = me.clock(now);
        if slept >= Duration::from_secs(1)
            && let Some(Process {
                phase: Phase::Attending { session, .. },
                stops: 0,
                promise,
                ..
            }) = &mut me.process
        {
            promise.last_sent = None;
            session.paused(clock, Pause::Suspended(slept), 0);
            self.act(host);
        }
        self.agent_runs_again(host);
    }

    pub(crate) fn cut_power(&mut self, host: usize, lasts: Duration) {
        if self.hosts[host].up() {
            self.tell(Some(host), None, || {
                format!("host loses power for {lasts:.1?}")
            });
            self.kill_agent(host, true);
            self.hosts[host].on = false;
            self.last(Fault::PowerLoss { host }, lasts);
        }
    }

    pub(crate) fn restore_power(&mut self, host: usize) {
        let me = &mut self.hosts[host];
        me.on = true;
        me.boots += 1;
        self.start_agent(host);
    }

    /// A copy of the host starts, which takes itself for the original.
    pub(crate) fn copy_host(&mut self, host: usize) {
        let original = &mut self.hosts[host];
        if original.retired || !original.up() {
            return;
        }
        original.kin = Kin::Twin;
        let mut copy = Host::new(original.agent, original.group, original.delay);
        copy.disk = original.disk;
        copy.kin = Kin::Twin;
        let number = self.hosts.len();
        self.hosts.push(copy);
        self.tell(Some(host), None, || {
            format!("host is copied; the copy is host {number}")
        });
        if self.dice.chance(0.5) {
            // Both start from the same state.
            self.kill_agent(host, false);
            self.start_agent(host);
        }
        self.start_agent(number);
        let lasts = self
            .dice
            .log_between(Duration::from_secs(5), Duration::from_mins(3));
        self.last(Fault::Copy { host: number }, lasts);
    }

    /// A sign of life at the last instant, while the lane that should read it does not run.
    pub(crate) fn brink(&mut self) {
        let Some(host) = (0..8)
            .map(|_| self.dice.below(self.hosts.len()))
            .find(|host| self.hosts[*host].acts() && self.hosts[*host].suspended.is_none())
        else {
            return;
        };
        let Some(Process {
            phase: Phase::Attending { flow, .. },
            ..
        }) = &self.hosts[host].process
        else {
            return;
        };
        let Some(flow) = &self.flows[*flow] else {
            return;
        };
        let (server, lane, deadline) = (flow.server, flow.lane, flow.truth.deadline());
        let Some(read) = flow.truth.read.filter(|_| deadline > Duration::ZERO) else {
            return;
        };
        let at = read + deadline;
        let early = self.dice.between(Duration::ZERO, Duration::from_millis(60));
        let lead = self.hosts[host].delay + early;
        let lasts = at.since(self.now).saturating_sub(lead);
        self.pause_agent(host, lasts);
        let begins = at
            .since(self.now)
            .saturating_sub(Duration::from_millis(100));
        let stalls = self
            .dice
            .between(Duration::from_millis(50), Duration::from_millis(900));
        self.stop_later(server, lane, begins, stalls);
    }
}

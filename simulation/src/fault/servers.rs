//! Faults of servers, and what operators do to them.

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::backoff::reconnect_spread;
use fleetbeat_liveness::policy::{Policy, PolicySet, Selector};
use fleetbeat_liveness::rollout::Split;
use fleetbeat_proto::v1::CloseReason;
use fleetbeat_server::registry::Farewell;

use crate::fault::Fault;
use crate::plan;
use crate::server::{RATES, Stop};
use crate::timeline::Event;
use crate::world::World;

impl World {
    /// Stops lanes and the judge of a server for a while. A frozen machine's kernel is stopped as well.
    pub(crate) fn stop(
        &mut self,
        server: usize,
        lanes: Vec<usize>,
        judge: bool,
        frozen: bool,
        lasts: Duration,
    ) {
        let now = self.now;
        let me = &mut self.servers[server];
        let run = me.run;
        let Some(process) = &mut me.process else {
            return;
        };
        let mut began = |lane| {
            process.stops.push(Stop {
                lane,
                began: now,
                ended: None,
            });
        };
        for lane in &lanes {
            process.lanes[*lane].stops += 1;
            if process.lanes[*lane].stops == 1 {
                began(Some(*lane));
            }
        }
        if judge {
            process.judge_stops += 1;
            if process.judge_stops == 1 {
                began(None);
            }
        }
        me.frozen |= frozen;
        self.tell(None, Some(server), || {
            let judge = if judge { " and the judge" } else { "" };
            format!(
                "lanes {lanes:?}{judge} of server {server} stop for {lasts:.3?}, frozen: {frozen}"
            )
        });
        let fault = Fault::Stop {
            server,
            run,
            lanes,
            judge,
            frozen,
        };
        self.last(fault, lasts);
    }

    /// A short stall of one lane, some time ahead.
    pub(crate) fn stop_later(
        &mut self,
        server: usize,
        lane: usize,
        begins: Duration,
        lasts: Duration,
    ) {
        let run = self.servers[server].run;
        let at = self.now + begins;
        if at + lasts < self.faults_until {
            self.timeline.at(
                at,
                Event::Stall {
                    server,
                    run,
                    lane,
                    lasts,
                },
            );
        }
    }

    pub(crate) fn restart_parts(
        &mut self,
        server: usize,
        run: u32,
        lanes: &[usize],
        judge: bool,
        frozen: bool,
    ) {
        let now = self.now;
        let me = &mut self.servers[server];
        if me.run != run {
            return;
        }
        me.frozen &= !frozen;
        let Some(process) = &mut me.process else {
            return;
        };
        let mut ended = |lane: Option<usize>| {
            let open = |stop: &&mut Stop| stop.lane == lane && stop.ended.is_none();
            if let Some(stop) = process.stops.iter_mut().find(open) {
                stop.ended = Some(now);
            }
        };
        let mut resumed = Vec::new();
        for lane in lanes {
            process.lanes[*lane].stops -= 1;
            if process.lanes[*lane].stops == 0 {
                ended(Some(*lane));
                resumed.push(*lane);
            }
        }
        if judge {
            process.judge_stops -= 1;
            if process.judge_stops == 0 {
                ended(None);
                if std::mem::take(&mut process.judge_overdue) {
                    let later = self.dice.between(Duration::ZERO, Duration::from_millis(20));
                    self.timeline.at(now + later, Event::Pass { server, run });
                }
            }
        }
        self.tell(None, Some(server), || {
            format!("lanes {lanes:?} of server {server} run again")
        });
        for lane in resumed {
            self.lane_resumes(server, lane);
        }
    }

    /// `kill -9`, or the end of the whole machine.
    pub(crate) fn kill_server(&mut self, server: usize, away: Duration) {
        if self.servers[server].process.is_none() {
            return;
        }
        let machine_too = self.dice.chance(0.3);
        self.exit(server, machine_too);
        self.servers[server].frozen = machine_too;
        self.boot_later(server, away);
    }

    fn boot_later(&mut self, server: usize, away: Duration) {
        let run = self.servers[server].run;
        let at = (self.now + away).min(self.faults_until);
        self.timeline.at(at, Event::Boot { server, run });
    }

    /// Sends every agent away in order, then ends.
    pub(crate) fn drain_server(&mut self, server: usize) {
        let me = &mut self.servers[server];
        me.set_clock(self.now);
        let run = me.run;
        let Some(process) = me.process.as_mut().filter(|process| !process.draining) else {
            return;
        };
        process.draining = true;
        let registry = Arc::clone(&process.registry);
        self.tell(None, Some(server), || format!("server {server} drains"));
        registry.drain();
        let sessions = registry.session_count();
        let spread = reconnect_spread(
            sessions,
            RATES.reconnect_per_s,
            Tuning::default().deadline(),
        );
        for agent in registry.agents() {
            let Some(session) = agent.session() else {
                continue;
            };
            let bye = Farewell::new(CloseReason::ServerDrain, "the server is stopping")
                .within(Duration::ZERO, spread);
            let (reason, detail) = (CloseReason::ServerDrain, "the server stopped");
            registry.end(&session, reason, detail, Some(bye));
        }
        self.wake_tasks();
        let later = self
            .dice
            .between(Duration::from_millis(100), Duration::from_secs(5));
        let at = (self.now + later).min(self.faults_until);
        self.timeline.at(at, Event::Exit { server, run });
    }

    pub(crate) fn exit_in_order(&mut self, server: usize) {
        self.observe(server);
        self.write(server);
        self.exit(server, false);
        let away = self
            .dice
            .log_between(Duration::from_millis(500), Duration::from_secs(30));
        self.boot_later(server, away);
    }

    pub(crate) fn step_wall_clock(&mut self, server: usize) {
        let hours = i64::from(self.dice.number(0, 48)) - 24;
        if !self.plan.steady_wall_clocks {
            self.servers[server].wall_offset += hours * 3_600_000_000;
        }
        self.tell(None, Some(server), || {
            format!("wall clock of server {server} steps by {hours} h")
        });
    }

    /// Every third revision is for a part of the agents only, as a phase of a rollout is; the next is for
    /// everybody again, or takes it back.
    fn staged(&self, candidate: PolicySet) -> PolicySet {
        let revision = candidate.revision();
        if !revision.is_multiple_of(3) {
            return candidate;
        }
        let split = Split {
            seed: revision,
            reach: u64::MAX / 2,
        };
        let everybody = self.policies.unstaged().at_revision(revision);
        everybody.staged_to(split, &candidate)
    }

    /// One to three changes of policies in quick succession; each server learns in its own time.
    pub(crate) fn retune(&mut self) {
        for _ in 0..self.dice.number(1, 3) {
            let selector = match self.dice.below(3) {
                0 => Selector::fleet(),
                _ => Selector::group(format!("g{}", self.dice.below(self.plan.groups))),
            };
            let gone = !selector.is_fleet() && self.dice.chance(0.3);
            let policies = if gone {
                self.policies.without(&selector.usual_name())
            } else {
                let tuning = plan::tuning(&mut self.dice);
                self.plan.longest = self.plan.longest.max(tuning.deadline_at_most());
                self.policies.with(Policy::whole(selector, tuning))
            };
            let policies = self.staged(policies);
            let changes = policies.changes(&self.policies);
            let revision = policies.revision();
            self.tell(None, None, || format!("revision {revision}: {changes:?}"));
            self.policies = Arc::new(policies);
            for server in 0..self.servers.len() {
                let run = self.servers[server].run;
                let slow = self.dice.chance(0.1);
                let most = Duration::from_secs(if slow { 20 } else { 2 });
                let later = self.dice.between(Duration::ZERO, most);
                self.timeline
                    .at(self.now + later, Event::Learn { server, run });
            }
        }
    }
}

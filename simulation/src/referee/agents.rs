//! What agents promise: to beat in time, to know a live server, to come back.

use std::time::Duration;

use fleetbeat_agent::session::{Cause, Ending};
use fleetbeat_liveness::Moment;
use fleetbeat_liveness::backoff::{BREAKER_PROBE, JITTER_PERCENT};
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::from_agent::Message as Upward;

use crate::host::{Kin, Phase, Process};
use crate::net::{FlowId, Packet, Way};
use crate::world::World;

/// Timers of the simulation run late by up to 2 ms.
const TIMER: Duration = Duration::from_millis(5);

impl World {
    /// A message leaves the agent.
    pub(crate) fn check_promise(&mut self, host: usize, message: &Upward) {
        let clock = self.hosts[host].clock(self.now);
        let Some(Process {
            promise,
            phase: Phase::Attending { session, .. },
            ..
        }) = &mut self.hosts[host].process
        else {
            return;
        };
        let in_force = session.in_force().tuning.interval();
        let longest = promise.longest.max(in_force);
        let gap = promise.last_sent.map(|last| clock.since(last));
        promise.last_sent = Some(clock);
        promise.longest = in_force;
        let late = gap.filter(|gap| *gap > longest + TIMER);
        if let Some(gap) = late
            && !matches!(message, Upward::Goodbye(_))
        {
            self.object("1", Some(host), None, || {
                format!("the agent left {gap:.3?} between two messages where T = {longest:?}")
            });
        }
    }

    pub(crate) fn welcomed(&mut self, host: usize) {
        let clock = self.hosts[host].clock(self.now);
        if let Some(process) = &mut self.hosts[host].process {
            process.promise.last_sent = Some(clock);
            process.promise.longest = Duration::ZERO;
        }
        self.tally.welcomed += 1;
    }

    /// After the agent acted: what it runs is what its server waits for.
    pub(crate) fn check_agent(&mut self, host: usize) {
        let Some(Process {
            promise,
            phase: Phase::Attending { flow, session },
            ..
        }) = &mut self.hosts[host].process
        else {
            return;
        };
        let (id, runs) = (*flow, session.in_force().tuning);
        promise.longest = promise.longest.max(runs.interval());
        let Some(flow) = &self.flows[id] else { return };
        let Some(serving) = &flow.serving else { return };
        let live = serving
            .attendance
            .session()
            .filter(|session| session.ending().is_none());
        let Some(waits) = live.map(|session| session.expectation()) else {
            return;
        };
        let needs = runs.expectation();
        if needs.component_max(waits) != waits && promise.last_sent.is_some() {
            let server = flow.server;
            self.object("10", Some(host), Some(server), || {
                format!("the agent runs {runs} and the server waits only by {waits:?}")
            });
        }
    }

    /// An agent that calls its server silent must have a reason that is not the product's.
    pub(crate) fn check_agents_verdict(&mut self, host: usize, id: FlowId, ending: &Ending) {
        if ending.cause != Cause::ServerSilent {
            return;
        }
        self.tally.servers_given_up += 1;
        let Some(flow) = &self.flows[id] else { return };
        let server = flow.server;
        let is_message = |packet: &Packet| matches!(packet, Packet::Down(_));
        if flow.pipes[Way::Down as usize].inbox.iter().any(is_message) {
            return self.object("4", Some(host), Some(server), || {
                "the agent called its server silent before it read what waited".to_owned()
            });
        }
        let since = flow.truth.agent_read.unwrap_or(Moment::ZERO);
        let me = &self.servers[server];
        let stopped = me
            .process
            .iter()
            .flat_map(|process| &process.stops)
            .any(|stop| {
                stop.lane.is_none_or(|lane| lane == flow.lane)
                    && stop.ended.is_none_or(|ended| ended >= since)
            });
        let hindered = stopped
            || me.frozen
            || !me.serves(flow.run)
            || self.hosts[host].troubled >= since
            || flow.forgotten
            || flow.pipes.iter().any(|pipe| pipe.hindered_after(since))
            || flow.truth.failed.is_some_and(|failed| failed >= since);
        if !hindered {
            let silence = self.now.since(since);
            self.object("10", Some(host), Some(server), || {
                format!("the agent gave up a live server on a whole path after {silence:.3?}")
            });
        }
    }

    /// After everything healed and had its time, everybody who runs is online somewhere.
    pub(crate) fn check_everybody_is_back(&mut self) {
        for host in 0..self.hosts.len() {
            let me = &self.hosts[host];
            let excused = match me.kin {
                Kin::Sole => false,
                Kin::RolledBack => self.servers.len() > 1,
                Kin::Twin => true,
            };
            if !me.acts() || excused {
                continue;
            }
            let online = self.servers.iter().any(|server| {
                server.process.as_ref().is_some_and(|process| {
                    let agent = process.registry.get(crate::host::identity(me.agent));
                    agent.is_some_and(|agent| {
                        let watch = agent.watch();
                        watch.verdict == Verdict::Online && watch.session.is_some()
                    })
                })
            });
            if !online {
                let doing = me.process.as_ref().map(|process| match &process.phase {
                    Phase::Away { until } => {
                        format!("waits for {:.1?}", until.since(me.clock(self.now)))
                    }
                    Phase::Dialing { .. } => "connects".to_owned(),
                    Phase::Attending { flow, .. } => {
                        let passes = Way::BOTH.map(|way| self.passes(*flow, way));
                        format!("has connection {flow}, which passes {passes:?}")
                    }
                });
                self.object("20", Some(host), None, || {
                    format!("a running agent is not back after everything healed: {doing:?}")
                });
            }
        }
    }

    /// How long after the last fault everybody is back: the longest wait, an attempt, and a deadline for
    /// connections that nobody knows to be dead.
    pub(crate) fn all_back_within(&self) -> Duration {
        let wait = BREAKER_PROBE + BREAKER_PROBE * JITTER_PERCENT / 100;
        wait * 2 + Duration::from_secs(30) + self.plan.longest * 2
    }
}

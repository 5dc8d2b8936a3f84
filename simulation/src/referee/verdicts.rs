//! Verdicts: never early, never inside a grace, never of somebody who can be heard.

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_liveness::backoff::{BREAKER_PROBE, CAP, JITTER_PERCENT};
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_server::registry::{Entry, Session, Transition};

use super::Past;
use crate::flow::Flow;
use crate::host::{Phase, Process};
use crate::net::{FlowId, Packet, Way};
use crate::world::World;

/// Longest that an agent may stay away by its own backoff.
fn longest_wait() -> Duration {
    let longest = CAP.max(BREAKER_PROBE);
    longest + longest * JITTER_PERCENT / 100
}

impl World {
    /// Something was written into an agent's journal.
    pub(crate) fn transition(&mut self, server: usize, agent: usize, entry: &Entry) {
        self.count(server, agent, entry);
        let Transition::Verdict { from, to, grounds } = &entry.what else {
            return;
        };
        let (now, host) = (self.now, self.host_of(agent));
        *self.tally.verdicts.entry(to.as_str()).or_default() += 1;
        self.tell(host, Some(server), || {
            format!("server {server}: {from} → {to}, {grounds}")
        });
        let book = self.referee.book(server, agent, now);
        let (stood, since) = (book.verdict, book.since);
        if stood != *from {
            self.object("17", host, Some(server), || {
                format!("the verdict changes from {from} where {stood} stood")
            });
        }
        if *to == Verdict::Offline {
            self.check_offline(server, agent, *from, since);
            self.check_guilt(server, agent, *from);
        }
        let book = self.referee.book(server, agent, now);
        (book.verdict, book.since) = (*to, now);
    }

    fn check_offline(&mut self, server: usize, agent: usize, from: Verdict, since: Moment) {
        let (now, host) = (self.now, self.host_of(agent));
        let book = self.referee.book(server, agent, now);
        if let Some(seat) = book.seated {
            let Some(flow) = &self.flows[seat.flow] else {
                return;
            };
            let past = Past {
                read: flow.truth.read.unwrap_or(seat.opened),
                opened: seat.opened,
                deadline: flow.truth.deadline(),
                look_back: flow.truth.look_back(),
                convicted_on: Some(flow.lane),
            };
            return self.check_silence(server, host, past);
        }
        let (last, deadline) = (book.last, book.deadline);
        let deadline = last.map_or(deadline, |last| last.deadline);
        let due = match book.turn {
            // It said Hello and was told when to come back: it waits for that and no longer.
            Some(turn) if turn >= since => turn + deadline,
            _ => since + longest_wait() + deadline,
        };
        // A lane that was deaf and answers again settles what is left of its sessions.
        let settled = last.is_some_and(|last| last.convicted_on.is_some());
        if from == Verdict::Unknown && now < due && !settled {
            return self.object("9", host, Some(server), || {
                let early = due.since(now);
                format!("unknown became offline {early:.1?} before it had a fair chance to return")
            });
        }
        if let Some(past) = last {
            self.check_silence(server, host, past);
            if let Some(last) = &mut self.referee.book(server, agent, now).last {
                last.convicted_on = None;
            }
        } else if from == Verdict::Suspect {
            self.object("8", host, Some(server), || {
                "offline without a session before".to_owned()
            });
        }
    }

    /// A server that hears nobody although much is owed calls nobody offline.
    fn check_guilt(&mut self, server: usize, agent: usize, from: Verdict) {
        /// Half of them would do for a hold.
        const OWED: f64 = 40.0;
        /// After a hold its own rules go on for a while.
        const AFTER: Duration = Duration::from_mins(5);
        let (now, host) = (self.now, self.host_of(agent));
        let Some(last) = self.referee.book(server, agent, now).last else {
            return;
        };
        let x = last.look_back;
        let Some(process) = self.servers[server].process.as_ref() else {
            return;
        };
        let held_lately = process.held_since.is_some()
            || (process.released > Moment::ZERO && now.since(process.released) < AFTER);
        let silent_for = now.since(process.read);
        if from == Verdict::Unknown || held_lately {
            return;
        }
        let owed = process.owed_since(now.before(x));
        if silent_for > x && owed > OWED {
            self.object("6", host, Some(server), || {
                format!("offline although nobody was heard for {silent_for:.1?} and {owed:.0} were owed in {x:.1?}")
            });
        }
    }

    /// `past` counts as silent for good at this moment.
    fn check_silence(&mut self, server: usize, host: Option<usize>, past: Past) {
        let now = self.now;
        let silence = now.since(past.read);
        if silence < past.deadline {
            return self.object("7", host, Some(server), || {
                format!(
                    "offline after {silence:.3?} of silence where D = {:?} is owed",
                    past.deadline
                )
            });
        }
        let (grace, _) = self.graces(server, past.convicted_on, past.opened);
        if now < grace {
            let early = grace.since(now);
            self.object("5", host, Some(server), || {
                format!("offline {early:.3?} before the end of the grace after a stall")
            });
        }
    }

    /// A session was closed for its silence.
    pub(super) fn check_conviction(&mut self, id: FlowId, flow: &Flow, session: &Arc<Session>) {
        let (now, host, server) = (self.now, flow.host, flow.server);
        self.tally.convictions += 1;
        let is_message = |packet: &Packet| matches!(packet, Packet::Up(_));
        if flow.pipes[Way::Up as usize].inbox.iter().any(is_message) {
            return self.object("4", Some(host), Some(server), || {
                "convicted while its message waited in the kernel".to_owned()
            });
        }
        if self.newer_hello_waits(flow) {
            return self.object("4", Some(host), Some(server), || {
                "convicted while the agent's next Hello waited in the kernel".to_owned()
            });
        }
        let Some(arrived) = flow.truth.arrived else {
            return;
        };
        let me = &self.hosts[host];
        let hindered = !me.up()
            || me.troubled >= arrived
            || !me.acts()
            || !me.attends(flow.life, id)
            || flow.forgotten
            || flow.pipes.iter().any(|pipe| pipe.hindered_after(arrived))
            || flow.truth.failed.is_some_and(|failed| failed >= arrived);
        if !hindered {
            let silence = now.since(arrived);
            let expectation = session.expectation();
            return self.object("1", Some(host), Some(server), || {
                format!(
                    "a live agent on a whole path was convicted after {silence:.3?}, D = {:?}",
                    expectation.offline_after
                )
            });
        }
        self.note_lateness(server, session);
    }

    /// Whether a later connection of the same run of the agent waits to be read by this server.
    fn newer_hello_waits(&self, flow: &Flow) -> bool {
        /// A lane may not run for a moment without anybody noticing.
        const SOON: Duration = Duration::from_millis(400);
        let me = &self.hosts[flow.host];
        let Some(Process {
            phase: Phase::Attending { flow: newer, .. },
            ..
        }) = &me.process
        else {
            return false;
        };
        self.flows[*newer].as_ref().is_some_and(|newer| {
            let arrived = newer
                .truth
                .arrived
                .map_or(Duration::ZERO, |at| self.now.since(at));
            let waits = !newer.pipes[Way::Up as usize].inbox.is_empty() && arrived > SOON;
            waits && newer.server == flow.server && newer.life == flow.life
        })
    }

    /// How late a verdict was that nothing held up.
    fn note_lateness(&mut self, server: usize, session: &Session) {
        let heard = self.world_time(server, session.last_heard());
        let due = heard + session.limits().offline_after;
        let (_, hindered) = self.graces(server, None, Moment::ZERO);
        if hindered.max(self.held_until(server)) < due {
            self.tally.lateness.push(self.now.since(due));
        }
    }
}

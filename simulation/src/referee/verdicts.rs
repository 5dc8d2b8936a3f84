//! Verdicts: never early, never inside a grace, never of somebody who can be heard.

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_liveness::backoff::{BREAKER_PROBE, CAP, JITTER_PERCENT};
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_server::registry::{Entry, Session, Transition};

use super::Past;
use crate::flow::Flow;
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
            let lane = flow.lane;
            let past = Past {
                read: flow.truth.read.unwrap_or(seat.opened),
                opened: seat.opened,
                deadline: flow.truth.deadline(),
            };
            return self.check_silence(server, host, past, Some(lane));
        }
        let (last, deadline) = (book.last, book.deadline);
        let due = since + longest_wait() + last.map_or(deadline, |last| last.deadline);
        if from == Verdict::Unknown && now < due {
            return self.object("9", host, Some(server), || {
                let early = due.since(now);
                format!("unknown became offline {early:.1?} before it had a fair chance to return")
            });
        }
        if let Some(past) = last {
            self.check_silence(server, host, past, None);
        } else if from == Verdict::Suspect {
            self.object("8", host, Some(server), || {
                "offline without a session before".to_owned()
            });
        }
    }

    /// `past` counts as silent for good at this moment.
    fn check_silence(
        &mut self,
        server: usize,
        host: Option<usize>,
        past: Past,
        lane: Option<usize>,
    ) {
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
        let (grace, _) = self.graces(server, lane, past.opened);
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
        let Some(arrived) = flow.truth.arrived else {
            return;
        };
        let me = &self.hosts[host];
        let hindered = !me.up()
            || me.troubled >= arrived
            || !me.acts()
            || !me.attends(flow.life, id)
            || flow.forgotten
            || flow.pipes.iter().any(|pipe| pipe.stuck() || pipe.closed)
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
        self.note_lateness(server, flow, session);
    }

    /// How late a verdict was that nothing held up.
    fn note_lateness(&mut self, server: usize, flow: &Flow, session: &Arc<Session>) {
        let heard = self.world_time(server, session.last_heard());
        let due = heard + session.offline_after();
        let (_, hindered) = self.graces(server, Some(flow.lane), Moment::ZERO);
        if hindered < due && self.held_until(server) < due {
            self.tally.lateness.push(self.now.since(due));
        }
    }
}

//! Sessions open and end: fences, seats and counters.

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::{Moment, Revised, Tuning};
use fleetbeat_proto::v1::{self, Bye, CloseReason, FromServer, from_server, tuning_ack};
use fleetbeat_server::registry::{Entry, Session, Transition};

use super::{Past, Seat};
use crate::flow::{Flow, Serving, Truth};
use crate::net::FlowId;
use crate::world::World;

impl Truth {
    /// Something left for the agent.
    pub(crate) fn sent(&mut self, message: &FromServer) {
        let push = match &message.message {
            Some(from_server::Message::Welcome(welcome)) => welcome.tuning.as_ref(),
            Some(from_server::Message::Tuning(push)) => Some(push),
            Some(
                from_server::Message::Pong(_)
                | from_server::Message::Check(_)
                | from_server::Message::Bye(_),
            )
            | None => None,
        };
        let revised = push.and_then(|push| Revised::try_from(push.tuning?).ok());
        self.owed.extend(revised);
    }

    /// The server read the agent's answer to a push.
    pub(crate) fn acknowledged(&mut self, ack: &v1::TuningAck) {
        let newest = self.owed.last().filter(|_| self.owed.len() > 1);
        let answers =
            |revised: &&Revised| revised.revision == ack.revision && revised.hash() == ack.hash;
        let Some(newest) = newest.filter(answers).copied() else {
            return;
        };
        let told = ack
            .applied
            .and_then(|applied| Revised::try_from(applied).ok());
        match ack.outcome() {
            tuning_ack::Outcome::Applied => self.owed = vec![told.unwrap_or(newest)],
            tuning_ack::Outcome::Refused => {
                self.owed = told.map_or(self.owed.clone(), |told| vec![told]);
            }
            tuning_ack::Outcome::Unspecified => {}
        }
    }
}

impl World {
    /// A lane seated a session.
    pub(crate) fn opened(&mut self, id: FlowId, flow: &mut Flow, session: &Arc<Session>) {
        let (now, server, host) = (self.now, flow.server, flow.host);
        let agent = self.hosts[host].agent;
        let fence = session.fence;
        flow.truth.opened = Some((now, fence));
        flow.truth.owed = vec![session.acknowledged().unwrap_or(Revised {
            revision: 0,
            tuning: Tuning::default(),
        })];
        self.tally.opened += 1;
        self.tell(Some(host), Some(server), || {
            format!("server {server} opens session {fence}")
        });
        let book = self.referee.book(server, agent, now);
        book.known = true;
        let highest = book.highest;
        if highest.is_some_and(|highest| fence <= highest) {
            self.object("15", Some(host), Some(server), || {
                format!("session {fence} was seated although {highest:?} was seen before")
            });
        }
        let instance = flow.instance;
        let book = self.referee.book(server, agent, now);
        let twins = highest.is_some_and(|highest| highest.incarnation == fence.incarnation)
            && book.instance.is_some_and(|before| before != instance);
        (book.highest, book.instance) = (highest.max(Some(fence)), Some(instance));
        book.seated = Some(Seat {
            fence,
            flow: id,
            opened: now,
        });
        if twins {
            self.object("16", Some(host), Some(server), || {
                format!(
                    "two instances were seated as incarnation {}",
                    fence.incarnation
                )
            });
        }
    }

    /// The end of a session is written down.
    pub(crate) fn ended(&mut self, id: FlowId, flow: &Flow, session: &Arc<Session>) {
        let (now, server, host) = (self.now, flow.server, flow.host);
        let agent = self.hosts[host].agent;
        let Some(ending) = session.ending() else {
            return;
        };
        let reason = ending.reason;
        *self.tally.endings.entry(reason.word()).or_default() += 1;
        self.tell(Some(host), Some(server), || {
            format!(
                "server {server} ends session {}: {}, {}",
                session.fence,
                reason.word(),
                ending.detail
            )
        });
        let read = flow.truth.read.unwrap_or(now);
        let deadline = flow.truth.deadline();
        let opened = flow.truth.opened.map_or(now, |(at, _)| at);
        let book = self.referee.book(server, agent, now);
        if book.seated.is_some_and(|seat| seat.flow == id) {
            book.seated = None;
            book.last = Some(Past {
                read,
                opened,
                deadline,
                look_back: flow.truth.look_back(),
                convicted_on: (reason == CloseReason::MissedHeartbeats).then_some(flow.lane),
            });
        }
        self.check_seat(server, agent, host);
        if reason == CloseReason::MissedHeartbeats {
            self.check_conviction(id, flow, session);
        }
        if matches!(
            reason,
            CloseReason::ProtocolError | CloseReason::SlowConsumer
        ) {
            self.object("18", Some(host), Some(server), || {
                let word = reason.word();
                format!(
                    "an agent that keeps the contract and reads was closed as {word}: {}",
                    ending.detail
                )
            });
        }
    }

    /// Who sits must be who should.
    fn check_seat(&mut self, server: usize, agent: usize, host: usize) {
        let now = self.now;
        let seat = self.referee.book(server, agent, now).seated;
        let Some(process) = &self.servers[server].process else {
            return;
        };
        let known = process.registry.get(crate::host::identity(agent));
        let sits = known.and_then(|agent| agent.session());
        // One that is being ended leaves its seat before its task writes that down.
        let unseated = seat.is_some() && sits.is_none();
        let over = |seat: &Seat| {
            let flow = self.flows[seat.flow].as_ref();
            flow.and_then(|flow| flow.serving.as_ref())
                .is_none_or(|s| s.attendance.over())
        };
        let right = match (&seat, &sits) {
            (Some(seat), Some(session)) => seat.fence == session.fence,
            (Some(seat), None) => over(seat),
            (None, Some(_)) => false,
            (None, None) => true,
        };
        if !right {
            let sits = sits.map(|session| session.fence);
            self.object("15", Some(host), Some(server), || {
                format!("the seat should be {seat:?} and is {sits:?} (unseated: {unseated})")
            });
        }
    }

    /// Counts what the journal says of sessions.
    pub(super) fn count(&mut self, server: usize, agent: usize, entry: &Entry) {
        let host = self.host_of(agent);
        let run = &mut self.referee.runs[server];
        match &entry.what {
            Transition::SessionOpened { session, fence, .. } => {
                run.opened += 1;
                if run.open.insert(*session, *fence).is_some() {
                    self.object("17", host, Some(server), || {
                        "a session opened twice".to_owned()
                    });
                }
            }
            Transition::SessionClosed {
                session, reason, ..
            } => {
                run.closed += 1;
                *run.by_reason.entry(reason.word()).or_default() += 1;
                if run.open.remove(&session.id).is_none() {
                    let fence = session.fence;
                    self.object("17", host, Some(server), || {
                        format!("session {fence} was closed twice, or never opened")
                    });
                }
            }
            Transition::Verdict { .. }
            | Transition::TuningAnswered { .. }
            | Transition::Condition { .. }
            | Transition::CauseSettled { .. }
            | Transition::Silence(_)
            | Transition::Renamed { .. }
            | Transition::Overdue { .. }
            | Transition::Refused { .. }
            | Transition::Coalesced { .. } => {}
        }
    }

    /// An agent is told when its turn is.
    pub(crate) fn sent_away(&mut self, server: usize, host: usize, bye: &Bye) {
        if bye.reason() == CloseReason::Shed {
            let (now, agent) = (self.now, self.hosts[host].agent);
            let latest = Duration::from_nanos(bye.retry_after_max_ns());
            self.referee.book(server, agent, now).turn = Some(now + latest);
        }
    }

    /// Counters of the product against the referee's.
    pub(super) fn check_counters(&mut self, server: usize) {
        let Some(process) = &self.servers[server].process else {
            return;
        };
        let registry = &process.registry;
        let run = &self.referee.runs[server];
        let live = run.opened - run.closed;
        let gauges: u64 = registry.lanes().iter().map(|gauge| gauge.sessions()).sum();
        let meters = registry.meters().all();
        let opened: u64 = meters.iter().map(|meter| meter.sessions_opened()).sum();
        let mut wrong = (registry.session_count(), gauges, opened) != (live, live, run.opened);
        for reason in
            (0..=CloseReason::ServerLost as i32).filter_map(|n| CloseReason::try_from(n).ok())
        {
            let counted: u64 = meters
                .iter()
                .map(|meter| meter.sessions_closed(reason))
                .sum();
            wrong |= counted != run.by_reason.get(reason.word()).copied().unwrap_or(0);
        }
        if wrong {
            let shown = (registry.session_count(), gauges, opened);
            let truth = (live, live, run.opened);
            self.object("17", None, Some(server), || {
                format!("counted (live, by lane, opened) {shown:?} where it was {truth:?}, or a reason differs")
            });
        }
    }

    /// What the server waits for is never less than what it owes.
    pub(crate) fn check_patience(&mut self, flow: &Flow, serving: &Serving) {
        let Some(session) = serving
            .attendance
            .session()
            .filter(|s| s.ending().is_none())
        else {
            return;
        };
        let (waits, owed) = (session.expectation(), flow.truth.expectation());
        if let Some(owed) = owed
            && owed.component_max(waits) != waits
        {
            self.object("10", Some(flow.host), Some(flow.server), || {
                format!("the server waits by {waits:?} where it owes {owed:?}")
            });
        }
    }

    /// Any valid message of the session is life.
    pub(crate) fn check_life(&mut self, flow: &Flow, heard: Moment, clock: Moment, over: bool) {
        if heard != clock && !over {
            self.object("2", Some(flow.host), Some(flow.server), || {
                format!(
                    "a message was read at {clock:?} and the session counts as heard at {heard:?}"
                )
            });
        }
    }
}

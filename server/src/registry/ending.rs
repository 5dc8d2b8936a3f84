//! A session ends: one reason, counted once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::CloseReason;

use super::agent::{Last, State};
use super::{Ending, Farewell, Registry, Session, Transition};

impl Registry {
    /// Ends a session; only the first reason counts. Its own task stops, and writes the end down
    /// with [`Self::settle`], once nothing of it can be counted any more.
    pub fn end(
        &self,
        session: &Arc<Session>,
        reason: CloseReason,
        detail: &str,
        bye: Option<Farewell>,
    ) -> bool {
        let ending = Ending {
            reason,
            detail: detail.to_owned(),
        };
        if !session.decide(ending) {
            return false;
        }
        let agent = &session.agent;
        let mut state = agent.lock();
        if state.seats(session) {
            self.unseat(&mut state, session, reason, detail);
        }
        drop(state);
        self.touch(agent);
        match bye {
            Some(bye) => session.outbox.bye(bye),
            None => session.outbox.finish(),
        }
        session.wake();
        true
    }

    fn unseat(&self, state: &mut State, session: &Session, reason: CloseReason, detail: &str) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let heard = session.last_heard();
        state.session = None;
        state.applied = session.acknowledged();
        state.last_seen = Some(wall - now.since(heard));
        state.last = Some(Last {
            heard,
            opened: session.opened,
            expectation: session.expectation(),
            lane: session.lane,
        });
        let verdict = match reason {
            CloseReason::Goodbye => Verdict::Left,
            CloseReason::MissedHeartbeats => Verdict::Offline,
            CloseReason::ServerDrain | CloseReason::ServerLost => Verdict::Unknown,
            CloseReason::TransportError
            | CloseReason::PeerGaveUp
            | CloseReason::Superseded
            | CloseReason::SlowConsumer
            | CloseReason::Shed
            | CloseReason::ProtocolError
            | CloseReason::AuthRevoked
            | CloseReason::DuplicateIdentity
            | CloseReason::Unspecified => Verdict::Suspect,
        };
        let because = format!(
            "session {} ended: {}, {detail}",
            session.fence,
            reason.word()
        );
        state.judge(verdict, because, wall);
    }

    /// Writes down the end of a session whose task has stopped.
    pub fn settle(&self, session: &Arc<Session>) {
        let Some(Ending { reason, detail }) = session.ending().cloned() else {
            return;
        };
        session.meter.closed(reason);
        session.gauge.session_closed();
        self.sessions.fetch_sub(1, Ordering::Relaxed);
        let agent = &session.agent;
        let what = Transition::SessionClosed {
            session: Arc::clone(session),
            reason,
            detail,
        };
        agent.lock().journal.push(self.clock.wall(), what);
        self.record.mark(agent, &agent.recorded, agent.number);
    }
}

//! A session ends: one reason, counted once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fleetbeat_liveness::backoff::absence_grace;
use fleetbeat_liveness::expectation::Expectation;
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
        session.owe_nothing();
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
        let beaten = session.totals().beats > 0;
        let opened = match state.returning {
            Some(returning) if !beaten => returning,
            _ => session.opened,
        };
        let expectation = session.expectation();
        state.returning = (!beaten).then_some(opened);
        state.session = None;
        state.applied = session.acknowledged();
        state.last_seen = Some(wall - now.since(heard));
        state.last = Some(Last {
            heard,
            opened,
            limits: session.limits(),
            expectation,
            lane: session.lane,
        });
        let ended = format!(
            "session {} ended: {}, {detail}",
            session.fence,
            reason.word()
        );
        let own = self.lived_through(opened, now);
        let stall = own.max(session.gauge.lived_through(opened, now));
        if let Some(stall) = stall.filter(|stall| ours(reason, beaten, *stall, &expectation)) {
            let fair = absence_grace(
                self.session_count(),
                self.reconnect_per_s,
                expectation.offline_at_most,
            );
            state.decide_at = Some(now + fair);
            let because = format!("the server had been deaf for {stall:.3?}; {ended}");
            state.judge(Verdict::Unknown, because, wall);
        } else {
            state.judge(verdict_after(reason), ended, wall);
        }
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

/// Whether an ending so soon after a stall may be the server's own doing: the agent gave it up, or had
/// time to, or the session was only what an attempt during the stall had left behind.
fn ours(reason: CloseReason, beaten: bool, stall: Duration, expectation: &Expectation) -> bool {
    let gave_up_after = expectation
        .server_dead_after
        .saturating_sub(expectation.reverse_gap);
    match reason {
        CloseReason::PeerGaveUp => true,
        CloseReason::TransportError => !beaten || stall >= gave_up_after,
        CloseReason::MissedHeartbeats => !beaten,
        CloseReason::Goodbye
        | CloseReason::Superseded
        | CloseReason::SlowConsumer
        | CloseReason::ServerDrain
        | CloseReason::Shed
        | CloseReason::ProtocolError
        | CloseReason::AuthRevoked
        | CloseReason::DuplicateIdentity
        | CloseReason::ServerLost
        | CloseReason::Unspecified => false,
    }
}

fn verdict_after(reason: CloseReason) -> Verdict {
    match reason {
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
    }
}

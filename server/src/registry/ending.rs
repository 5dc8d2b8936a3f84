//! A session ends: one reason, counted once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fleetbeat_liveness::backoff::absence_grace;
use fleetbeat_liveness::expectation::Expectation;
use fleetbeat_liveness::grounds::Trigger;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::CloseReason;

use super::agent::{Last, State};
use super::loss::{Departure, Parting, loss_of};
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
            back_within: None,
        };
        self.conclude(session, ending, bye)
    }

    /// The agent said goodbye.
    pub fn leave(&self, session: &Arc<Session>, detail: &str, back_within: Option<Duration>) {
        let ending = Ending {
            reason: CloseReason::Goodbye,
            detail: detail.to_owned(),
            back_within,
        };
        self.conclude(session, ending, None);
    }

    fn conclude(&self, session: &Arc<Session>, ending: Ending, bye: Option<Farewell>) -> bool {
        let convicted = ending.reason == CloseReason::MissedHeartbeats;
        if !session.decide(ending) {
            return false;
        }
        session.owe_nothing();
        if convicted && let Some(late) = session.lateness(self.clock.now()) {
            self.lateness.count(late);
        }
        let agent = &session.agent;
        let mut state = agent.lock();
        if let Some(ending) = session.ending()
            && state.seats(session)
        {
            self.unseat(&mut state, session, ending);
            self.review_locked(agent, &mut state);
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

    fn unseat(&self, state: &mut State, session: &Session, ending: &Ending) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let reason = ending.reason;
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
        let how = how(ending);
        state.parting = Some(Box::new(Parting {
            silence: session.silence(now),
            promise: session.promise(),
            how: how.clone(),
        }));
        let own = self.lived_through(opened, now);
        let stall = own.max(session.gauge.lived_through(opened, now));
        let stall = stall.filter(|stall| ours(reason, beaten, *stall, &expectation));
        match loss_of(reason) {
            Some(loss) => state.lose(session, loss, stall.is_some(), (now, wall)),
            None => state.lose_nothing(),
        }
        if let Some(stall) = stall {
            let fair = absence_grace(
                self.session_count(),
                self.admission_per_s,
                expectation.offline_at_most,
            );
            state.decide_at = Some(now + fair);
            let grounds = session.grounds(Trigger::ServerDeaf { stall, how }, now);
            state.judge(Verdict::Unknown, grounds, wall);
            return;
        }
        state.departure = departure(ending, now);
        let grounds = if reason == CloseReason::MissedHeartbeats {
            self.conviction(session, now)
        } else {
            session.grounds(trigger(session, ending, how), now)
        };
        state.judge(verdict_after(reason), grounds, wall);
        if state.verdict == Verdict::Offline {
            state.stays_quiet(now, wall);
        }
    }

    /// Writes down the end of a session whose task has stopped.
    pub fn settle(&self, session: &Arc<Session>) {
        let Some(Ending { reason, detail, .. }) = session.ending().cloned() else {
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

fn how(ending: &Ending) -> String {
    if ending.reason == CloseReason::Goodbye {
        return ending.detail.clone();
    }
    format!("{}, {}", ending.reason.word(), ending.detail)
}

fn trigger(session: &Session, ending: &Ending, how: String) -> Trigger {
    if ending.reason == CloseReason::Goodbye {
        let back_within = ending.back_within;
        return Trigger::Left { how, back_within };
    }
    let fence = session.fence;
    Trigger::Ended { fence, how }
}

/// By when the agent means to be back.
fn departure(ending: &Ending, now: Moment) -> Option<Box<Departure>> {
    let within = ending.back_within?;
    Some(Box::new(Departure {
        by: now + within,
        within,
        how: ending.detail.clone(),
    }))
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

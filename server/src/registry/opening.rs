//! A session opens: the highest fence takes the agent's seat.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fleetbeat_liveness::admission::Entry;
use fleetbeat_liveness::backoff::reconnect_spread;
use fleetbeat_liveness::cause::{Account, Loss};
use fleetbeat_liveness::fence::{Claim, Fence, Held, InstanceId, claim, claim_without_proof};
use fleetbeat_liveness::grounds::{Grounds, Trigger};
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_liveness::skew::Skew;
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::{CloseReason, TuningPush};
use uuid::Uuid;

use super::agent::State;
use super::loss::Returned;
use super::roster::AGENTS_MOST;
use super::{Agent, Facts, Farewell, Link, Outbox, Registry, Session, Transition, session};

/// When a server that holds as many is asked again.
const FULL_WINDOW: (Duration, Duration) = (Duration::from_mins(5), Duration::from_mins(10));
/// Incarnations above this are taken only one by one, so that there is always a higher one to come back
/// with.
const INCARNATION_FREE: u64 = 1 << 62;
/// When an agent tries again that came to a stopping server.
const DRAIN_WINDOW: Duration = Duration::from_secs(10);
/// How long a twin is sent away.
const TWIN_PARK: (Duration, Duration) = (Duration::from_mins(5), Duration::from_mins(10));

/// A Hello, checked for form, that asks for a session.
#[derive(Debug)]
pub struct Opening {
    pub agent_id: Uuid,
    pub instance: InstanceId,
    pub fence: Fence,
    pub facts: Facts,
    /// What the agent says it runs.
    pub applied: Option<Revised>,
    pub volatile_state: bool,
    /// Where the agent connects from.
    pub ip: IpAddr,
    /// How it says that its session before ended.
    pub account: Option<Account>,
    /// Its wall clock, microseconds since the Unix epoch.
    pub wall_unix_us: Option<i64>,
    pub lane: usize,
    pub outbox: Arc<Outbox>,
    pub link: Arc<Link>,
}

#[cfg(test)]
impl Opening {
    /// The first of an agent that reports nothing, from a host of no group.
    pub(crate) fn trial(agent: [u8; 16]) -> Self {
        Self {
            agent_id: Uuid::from_bytes(agent),
            instance: fleetbeat_liveness::fence::InstanceId(agent),
            fence: Fence {
                incarnation: 1,
                connection: 1,
            },
            facts: Facts::default(),
            applied: None,
            volatile_state: false,
            ip: std::net::Ipv4Addr::LOCALHOST.into(),
            account: None,
            wall_unix_us: None,
            lane: 0,
            outbox: Arc::default(),
            link: Arc::default(),
        }
    }
}

/// A session that opened.
#[derive(Debug)]
pub struct Opened {
    pub session: Arc<Session>,
    /// Tuning that Welcome has to carry.
    pub push: Option<TuningPush>,
    pub base: Revised,
    pub reconnect_spread: Duration,
}

/// A Hello that was turned away, and what to tell the agent.
#[derive(Debug)]
pub struct Refused(pub Farewell);

impl Registry {
    /// Seats a new session, or turns it away. The older session is told after it was replaced.
    pub fn open(&self, opening: Opening) -> Result<Opened, Refused> {
        if self.is_full() && self.get(opening.agent_id).is_none() {
            let detail = format!("this server knows {AGENTS_MOST} agents and takes no other");
            let bye = Farewell::new(CloseReason::Shed, detail);
            return Err(Refused(bye.within(FULL_WINDOW.0, FULL_WINDOW.1)));
        }
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let entry = self.admission.lock().ask(now);
        if let Entry::Later(earliest, latest) = entry {
            return Err(self.send_away(&opening, now, (earliest, latest)));
        }
        let agent = self.meet(opening.agent_id);
        let base = Revised {
            revision: 0,
            tuning: Tuning::default(),
        };
        let told = opening.applied;
        let mut state = agent.lock();
        if let Err(refused) = self.admit(&agent, &mut state, &opening, now) {
            self.review_locked(&agent, &mut state);
            drop(state);
            self.record.mark(&agent, &agent.recorded, agent.number);
            return Err(refused);
        }
        self.told(told.map_or(0, |told| told.revision));
        let meter = self.meters.meter(opening.lane, &opening.facts.group);
        let gauge = Arc::clone(&self.lanes[opening.lane]);
        meter.opened(state.fence.is_some());
        gauge.session_opened();
        self.sessions.fetch_add(1, Ordering::Relaxed);
        let session = Session::open(session::Opened {
            id: Uuid::now_v7(),
            agent: Arc::clone(&agent),
            fence: opening.fence,
            lane: opening.lane,
            address: opening.facts.address.clone(),
            ip: opening.ip,
            now,
            wall,
            outbox: Arc::clone(&opening.outbox),
            link: Arc::clone(&opening.link),
            meter,
            gauge,
            in_force: told.unwrap_or(base),
            acknowledged: told,
            refused: state.still_refused(&opening),
        });
        self.compare(&mut state, &session, &opening);
        let older = Self::seat(&mut state, &session, opening.facts, opening.instance);
        self.review_locked(&agent, &mut state);
        drop(state);
        self.touch(&agent);
        if let Some(older) = older {
            let detail = format!("session {} took over", session.fence);
            let bye = Farewell::new(CloseReason::Superseded, detail.as_str());
            self.end(&older, CloseReason::Superseded, &detail, Some(bye));
        }
        let push = self.push_for_welcome(&session, told, now);
        let spread = reconnect_spread(
            self.session_count(),
            self.reconnect_per_s,
            session.offline_after(),
        );
        Ok(Opened {
            session,
            push,
            base,
            reconnect_spread: spread,
        })
    }

    /// Too many come at once. Who says Hello lives, although there is no room: it has until its turn, and
    /// then as long as an agent has that just fell silent.
    fn send_away(
        &self,
        opening: &Opening,
        now: Moment,
        (earliest, latest): (Duration, Duration),
    ) -> Refused {
        self.count_shed();
        let detail = format!("too many agents come at once, this one's turn is in {earliest:.1?}");
        if let Some(agent) = self.get(opening.agent_id) {
            self.unserved(&agent, opening);
            let mut state = agent.lock();
            let fresh = state.fence.is_none_or(|known| opening.fence > known);
            if state.session.is_none() && fresh && state.verdict != Verdict::Left {
                let wall = self.clock.wall();
                let last = state.last;
                let deaf = last.is_some_and(|last| self.deaf_to(last.opened, last.lane, now));
                state.breaks_silence(opening.instance, deaf, (now, wall));
                let told = opening.applied.map(|applied| applied.tuning);
                let own = told.unwrap_or_default().deadline_at_most();
                let before = state.last.map(|last| last.expectation.offline_at_most);
                let until = now + latest + own.max(before.unwrap_or_default());
                state.decide_at = state.decide_at.max(Some(until));
                let because = format!("said Hello, and was told to come back in {earliest:.1?}");
                let grounds = state.absent_grounds(Trigger::Doubt { because }, now);
                if state.verdict == Verdict::Unknown {
                    state.rest_on(grounds);
                } else {
                    state.judge(Verdict::Unknown, grounds, wall);
                }
                drop(state);
                self.touch(&agent);
            } else if fresh {
                state.returns_later(now + latest);
            }
        }
        Refused(Farewell::new(CloseReason::Shed, detail).within(earliest, latest))
    }

    /// Whoever says Hello again no longer serves the older session of the same instance, or of one before
    /// it: that is over, and must not be judged while the newer one waits for its turn.
    fn unserved(&self, agent: &Agent, opening: &Opening) {
        let state = agent.lock();
        let claim = claim(state.held.as_ref(), opening.fence, opening.instance);
        let older = state.session.clone().filter(|_| claim == Claim::Takeover);
        drop(state);
        if let Some(older) = older {
            let detail = "its agent came again and waits for its turn";
            let bye = Farewell::new(CloseReason::Superseded, detail);
            self.end(&older, CloseReason::Superseded, detail, Some(bye));
        }
    }

    fn admit(
        &self,
        agent: &Agent,
        state: &mut State,
        opening: &Opening,
        now: Moment,
    ) -> Result<(), Refused> {
        let incumbent_lives = state.session.as_ref().is_some_and(|session| {
            now.since(session.last_heard()) < session.expectation().suspect_after
        });
        let spoke = |session: &Arc<Session>| session.last_heard() > session.opened;
        let clone = state.symptoms.twins.returns(opening.instance)
            && incumbent_lives
            && state.session.as_ref().is_some_and(spoke);
        let judged = if clone {
            Claim::Twins
        } else if opening.volatile_state || !incumbent_lives {
            claim_without_proof(state.held.as_ref(), opening.fence, opening.instance)
        } else {
            claim(state.held.as_ref(), opening.fence, opening.instance)
        };
        if self.is_draining() {
            let bye = Farewell::new(CloseReason::ServerDrain, "the server is stopping");
            return Err(Refused(bye.within(Duration::ZERO, DRAIN_WINDOW)));
        }
        let next = state.fence.map_or(1, |known| known.incarnation + 1);
        if opening.fence.incarnation > INCARNATION_FREE.max(next) {
            let detail = format!("incarnation {} is out of reach", opening.fence.incarnation);
            return Err(Refused(Farewell::new(CloseReason::ProtocolError, detail)));
        }
        let below = state.fence.filter(|known| opening.fence <= *known);
        let claim = match (judged, below) {
            (Claim::First | Claim::Takeover, Some(floor)) => Claim::Stale { floor },
            (judged, _) => judged,
        };
        let farewell = match claim {
            Claim::First | Claim::Takeover => return Ok(()),
            Claim::Stale { floor } => Farewell {
                stale_floor: Some(floor),
                ..Farewell::new(
                    CloseReason::Superseded,
                    format!(
                        "fence {} is not above {floor}, which was seen already",
                        opening.fence
                    ),
                )
            },
            Claim::Twins => {
                state.symptoms.twins.prove(now);
                let (here, there) = (&state.facts.address, &opening.facts.address);
                state.symptoms.rivals = Some(Box::new((here.clone(), there.clone())));
                let detail = format!(
                    "agent {} runs twice as incarnation {}: at {} and at {}; give one of them a \
                     state directory of its own",
                    agent.id, opening.fence.incarnation, state.facts.address, opening.facts.address
                );
                Farewell::new(CloseReason::DuplicateIdentity, detail)
                    .within(TWIN_PARK.0, TWIN_PARK.1)
            }
        };
        let because = farewell.detail.clone();
        let (fence, address) = (opening.fence, opening.facts.address.clone());
        state.journal.push(
            self.clock.wall(),
            Transition::Refused {
                fence,
                address,
                because,
            },
        );
        Err(Refused(farewell))
    }

    /// What the Hello says beside the session that ended, or that it replaces.
    fn compare(&self, state: &mut State, session: &Session, opening: &Opening) {
        let (now, wall) = (session.opened, session.opened_wall);
        let deaf = |opened| {
            let own = self.lived_through(opened, now);
            own.max(session.gauge.lived_through(opened, now))
        };
        let older = state.session.clone();
        if let Some(older) = &older {
            state.lose(
                older,
                Loss::Replaced,
                deaf(older.opened).is_some(),
                (now, wall),
            );
        }
        let (from, to) = (&state.facts.name, &opening.facts.name);
        if from != to && state.fence.is_some() {
            let (from, to) = (from.clone(), to.clone());
            state.journal.push(wall, Transition::Renamed { from, to });
        }
        let returned = Returned {
            instance: opening.instance,
            boot_id: &opening.facts.boot_id,
            account: opening.account,
            held: self.held_since().is_some(),
        };
        state.settle_loss(&returned, (now, wall));
        let alive = older
            .is_some_and(|older| now.since(older.last_heard()) < older.expectation().suspect_after);
        let symptoms = &mut state.symptoms;
        let twins = &mut symptoms.twins;
        twins.seated(opening.instance, opening.ip, alive, now);
        symptoms.volatile_state = opening.volatile_state;
        let unread = deaf(Moment::ZERO).unwrap_or_default();
        let server_us = wall.unix_timestamp_nanos() / 1_000;
        let server_us = i64::try_from(server_us).unwrap_or(i64::MAX);
        let told = opening.wall_unix_us;
        symptoms.skew = told.and_then(|agent_us| Skew::of(agent_us, server_us, unread));
    }

    fn seat(
        state: &mut State,
        session: &Arc<Session>,
        facts: Facts,
        instance: InstanceId,
    ) -> Option<Arc<Session>> {
        let wall = session.opened_wall;
        let (fence, address) = (session.fence, session.address.clone());
        state.held = Some(Held { fence, instance });
        state.fence = Some(fence);
        state.facts = Arc::new(facts);
        state.decide_at = None;
        let before = state.session.as_ref().map(|older| older.opened);
        let before = before.or(state.last.map(|last| last.opened));
        state.returning = state.returning.or(before);
        state.last = None;
        state.parting = None;
        state.departure = None;
        let opened = Transition::SessionOpened {
            session: session.id,
            instance,
            fence,
            address,
        };
        state.journal.push(wall, opened);
        let opened = Grounds::bare(Trigger::Opened { fence });
        state.judge(Verdict::Online, opened, wall);
        state.session.replace(Arc::clone(session))
    }

    fn push_for_welcome(
        &self,
        session: &Session,
        told: Option<Revised>,
        now: Moment,
    ) -> Option<TuningPush> {
        let policies = self.policies();
        let attributes = session.agent.facts().attributes(session.agent.id);
        let desired = policies.effective(&attributes).tuning;
        let behind = told.is_some_and(|told| {
            told.revision > policies.revision() || told.tuning == desired.tuning
        });
        let refused = session.refused();
        if behind || refused.is_some_and(|(revision, _)| revision == desired.revision) {
            None
        } else {
            session.push_in_welcome(desired, now)
        }
    }
}

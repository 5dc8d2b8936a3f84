//! What becomes of one stream: from Hello to its end, without a socket, a timer or a task.
//!
//! Tell it what arrives, that time is up, or that a nomination waits; it acts on the registry and fills
//! the outbox.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::grounds::Heard;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::retune::{Answer, Outcome, Revised};
use fleetbeat_liveness::strain::Strain;
use fleetbeat_proto::v1::{
    CloseReason, FromAgent, Goodbye, Hello, Ping, TuningAck, Welcome, from_agent::Message,
    tuning_ack,
};
use fleetbeat_proto::{PROTOCOL, free_text, nanos};
use tracing::{debug, info};

use super::Context;
use super::greeting::Greeting;
use crate::registry::{Farewell, Link, Opening, Outbox, Refused, Registry, Session};

/// A nominated session whose bytes wait in the kernel at so many looks, 5 ms apart, is not read any more:
/// its connection is blocked. Looks and not time, because a lane that was stalled did not look.
const BLOCKED_LOOKS: u32 = 100;
/// More messages than these in a window mean a broken agent: the shortest T makes 50 beats in it,
/// and a stall of a minute hands over 300 at once.
const FLOOD: u32 = 2_000;
const FLOOD_WINDOW: Duration = Duration::from_secs(10);
/// A promise to be back is believed up to this.
const BACK_MOST: Duration = Duration::from_hours(24);
/// A round trip above this is a broken clock, not a slow path.
const RTT_MOST: Duration = Duration::from_hours(1);

/// See the module. Dropped while its session lives, it ends that as a broken connection.
#[derive(Debug)]
pub struct Attendance {
    outbox: Arc<Outbox>,
    link: Arc<Link>,
    context: Arc<Context>,
    peer: SocketAddr,
    state: State,
    flood: (Moment, u32),
}

#[derive(Debug)]
enum State {
    /// Nothing was said yet.
    Greeting,
    Live {
        session: Arc<Session>,
        next_seq: u64,
        strain: Strain,
    },
    /// Turned away before a session began.
    Refused,
    /// The session's end is written down.
    Settled,
}

impl Attendance {
    /// A stream of `peer` opened; what it is to be told comes out of `outbox`, and `link` is its
    /// connection's.
    #[must_use]
    pub fn new(
        context: Arc<Context>,
        outbox: Arc<Outbox>,
        link: Arc<Link>,
        peer: SocketAddr,
    ) -> Self {
        let flood = (context.clock.now(), 0);
        Self {
            outbox,
            link,
            context,
            peer,
            state: State::Greeting,
            flood,
        }
    }

    /// A message was read.
    pub fn received(&mut self, FromAgent { message }: FromAgent) {
        match (&self.state, message) {
            (State::Greeting, Some(Message::Hello(hello))) => self.greet(hello),
            (State::Greeting, _) => self.refuse("the first message is not Hello"),
            (State::Live { .. }, message) => self.live(message),
            (State::Refused | State::Settled, _) => {}
        }
    }

    /// The agent closed its side.
    pub fn ended(&mut self) {
        let detail = "the agent closed its side without Goodbye";
        self.broken(CloseReason::TransportError, detail);
    }

    /// The stream can no longer be read.
    pub fn broken(&mut self, reason: CloseReason, detail: &str) {
        match &self.state {
            State::Greeting => {
                self.outbox.finish();
                self.state = State::Refused;
            }
            State::Live { session, .. } => {
                let bye =
                    (reason == CloseReason::ProtocolError).then(|| Farewell::new(reason, detail));
                self.context.registry.end(session, reason, detail, bye);
            }
            State::Refused | State::Settled => {}
        }
    }

    /// Hello did not come in time.
    pub fn late(&mut self) {
        self.refuse("no Hello within 10 s of opening the stream");
    }

    /// The session, while it is not written down as over.
    #[must_use]
    pub fn session(&self) -> Option<&Arc<Session>> {
        match &self.state {
            State::Live { session, .. } => Some(session),
            State::Greeting | State::Refused | State::Settled => None,
        }
    }

    /// Nothing more is to be read.
    #[must_use]
    pub fn over(&self) -> bool {
        match &self.state {
            State::Greeting => false,
            State::Live { session, .. } => session.ending().is_some(),
            State::Refused | State::Settled => true,
        }
    }

    /// Writes the end down, once it is [`Attendance::over`]; returns its reason when there was a session.
    pub fn finish(&mut self) -> Option<CloseReason> {
        let State::Live { session, .. } = std::mem::replace(&mut self.state, State::Settled) else {
            return None;
        };
        self.context.registry.settle(&session);
        let ending = session.ending()?;
        info!(
            agent.id = %session.agent.id,
            session.id = %session.id,
            close.reason = ending.reason.word(),
            close.detail = ending.detail,
            "Session closed"
        );
        Some(ending.reason)
    }

    // ------------------------------------------------ before the session

    fn greet(&mut self, hello: Hello) {
        let greeting = match Greeting::read(hello, self.peer) {
            Ok(greeting) => greeting,
            Err(malformed) => return self.refuse(&malformed.to_string()),
        };
        let opening = Opening {
            agent_id: greeting.agent_id,
            instance: greeting.instance,
            fence: greeting.fence,
            facts: greeting.facts,
            applied: greeting.applied,
            volatile_state: greeting.volatile_state,
            ip: greeting.ip,
            account: greeting.account,
            wall_unix_us: greeting.wall_unix_us,
            lane: self.context.lane,
            outbox: Arc::clone(&self.outbox),
            link: Arc::clone(&self.link),
        };
        let opened = match self.context.registry.open(opening) {
            Ok(opened) => opened,
            Err(Refused(farewell)) => {
                info!(agent.id = %greeting.agent_id, peer = %self.peer, detail = farewell.detail, "Hello refused");
                self.outbox.bye(farewell);
                self.state = State::Refused;
                return;
            }
        };
        let session = opened.session;
        info!(
            agent.id = %session.agent.id,
            session.id = %session.id,
            session.fence = %session.fence,
            peer = %self.peer,
            "Session opened"
        );
        self.outbox.welcome(Welcome {
            protocol: PROTOCOL,
            session_id: session.id.as_bytes().to_vec(),
            server: self.context.server.clone(),
            tuning: opened.push,
            reconnect_spread_ns: nanos(opened.reconnect_spread),
            base: Some(opened.base.into()),
        });
        self.state = State::Live {
            session,
            next_seq: 1,
            strain: Strain::default(),
        };
    }

    fn refuse(&mut self, detail: &str) {
        debug!(peer = %self.peer, detail, "Stream refused");
        self.outbox
            .bye(Farewell::new(CloseReason::ProtocolError, detail));
        self.state = State::Refused;
    }

    // ------------------------------------------------ a message of the session

    fn live(&mut self, message: Option<Message>) {
        let State::Live {
            session,
            next_seq,
            strain,
        } = &mut self.state
        else {
            return;
        };
        if session.ending().is_some() {
            return;
        }
        let now = self.context.clock.now();
        let registry = &self.context.registry;
        if session.heard(now, kind(message.as_ref())) {
            registry.heard_again(session, lateness(session, message.as_ref(), now));
        }
        let outcome = match message {
            Some(Message::Ping(ping)) => {
                if told(session, strain, &ping) {
                    registry.strained(session, strain.strained());
                }
                beat(session, next_seq, &ping, now)
            }
            Some(Message::TuningAck(ack)) => {
                answer(&ack).map(|(answer, reason)| registry.answered(session, answer, &reason))
            }
            Some(Message::Goodbye(goodbye)) => {
                part(registry, session, &goodbye);
                Ok(())
            }
            Some(Message::Hello(_)) => Err(broken("a second Hello on one stream")),
            Some(Message::CheckReply(_) | Message::ProbeReport(_)) | None => Ok(()),
        };
        let outcome = outcome.and_then(|()| flood(&mut self.flood, now));
        if let Err((reason, detail)) = outcome {
            let bye = Farewell::new(reason, detail.as_str());
            registry.end(session, reason, &detail, Some(bye));
        }
    }

    // ------------------------------------------------ conviction

    /// Answers the judge's nomination, if there is one. Receipt and conviction run on one task: what the
    /// kernel holds is read first, and a heartbeat at the last instant saves the session.
    pub fn convict_or_spare(&self) {
        let Some(session) = self.session() else {
            return;
        };
        let Some(nominated) = session.nominated() else {
            return;
        };
        let now = self.context.clock.now();
        let registry = &self.context.registry;
        let silence = now.since(session.last_heard());
        let limit = session.limits().offline_after;
        let spared = silence < limit
            || registry.behind_anywhere(now)
            || self
                .context
                .gauge
                .grace_for(session.opened)
                .is_some_and(|until| now < until)
            || registry
                .grace_for(session.opened)
                .is_some_and(|until| now < until);
        if spared {
            session.spare();
            registry.rejudge(&session.agent);
        } else if self.link.quiet_since(nominated) {
            let detail = format!(
                "nothing valid arrived for {silence:.3?}, longer than {limit:?} (D = {:?})",
                session.offline_after()
            );
            let bye = Farewell::new(CloseReason::MissedHeartbeats, detail.as_str());
            registry.end(session, CloseReason::MissedHeartbeats, &detail, Some(bye));
        } else if self.link.looks_in_vain() >= BLOCKED_LOOKS {
            let detail = "bytes wait, but the peer blocks the connection by not reading";
            registry.end(session, CloseReason::SlowConsumer, detail, None);
        }
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.broken(CloseReason::TransportError, "the connection broke");
        self.finish();
    }
}

type Broken = (CloseReason, String);

fn broken(detail: impl Into<String>) -> Broken {
    (CloseReason::ProtocolError, detail.into())
}

/// How much longer the gap before a PING was here than at the agent; nothing for other messages, or without
/// an earlier one.
fn lateness(session: &Session, message: Option<&Message>, now: Moment) -> Option<Duration> {
    let Some(Message::Ping(ping)) = message else {
        return None;
    };
    let (sent_ns, received) = session.outbox.last_ping()?;
    let sent_gap = Duration::from_nanos(ping.sent_ns.checked_sub(sent_ns)?);
    Some(now.since(received).saturating_sub(sent_gap))
}

fn beat(session: &Session, next_seq: &mut u64, ping: &Ping, now: Moment) -> Result<(), Broken> {
    if ping.seq != *next_seq {
        return Err(broken(format!(
            "Ping {} where {next_seq} was next",
            ping.seq
        )));
    }
    *next_seq = next_seq.wrapping_add(1);
    let told = ping.rtt_ns.map(Duration::from_nanos);
    let plausible = ping.rtt_seq.is_some_and(|seq| seq < ping.seq);
    session.beat(now, told.filter(|rtt| plausible && *rtt <= RTT_MOST));
    if session.answers(ping.seq) {
        let unread = session.outbox.pong(ping.seq, ping.sent_ns, now);
        if unread > session.offline_after() {
            let detail = format!("answers were not read for {unread:.3?}");
            return Err((CloseReason::SlowConsumer, detail));
        }
    }
    Ok(())
}

fn answer(ack: &TuningAck) -> Result<(Answer, String), Broken> {
    let outcome = match ack.outcome() {
        tuning_ack::Outcome::Applied => Outcome::Applied,
        tuning_ack::Outcome::Refused => Outcome::Refused,
        tuning_ack::Outcome::Unspecified => return Err(broken("TuningAck without an outcome")),
    };
    let in_force = ack.applied.map(Revised::try_from).transpose();
    let in_force = in_force.map_err(|error| broken(format!("TuningAck: {error}")))?;
    let (revision, hash) = (ack.revision, ack.hash);
    Ok((
        Answer {
            revision,
            hash,
            outcome,
            in_force,
        },
        free_text(&ack.reason),
    ))
}

fn part(registry: &Registry, session: &Arc<Session>, goodbye: &Goodbye) {
    let detail = free_text(&goodbye.detail);
    if goodbye.reason() == CloseReason::PeerGaveUp {
        registry.end(session, CloseReason::PeerGaveUp, &detail, None);
        return;
    }
    let back_within = goodbye.back_within_ns.map(Duration::from_nanos);
    registry.leave(
        session,
        &detail,
        back_within.map(|within| within.min(BACK_MOST)),
    );
}

fn kind(message: Option<&Message>) -> Heard {
    match message {
        Some(Message::Hello(_)) => Heard::Hello,
        Some(Message::Ping(ping)) => Heard::Ping(ping.seq),
        Some(Message::CheckReply(_)) => Heard::CheckReply,
        Some(Message::TuningAck(_)) => Heard::TuningAck,
        Some(Message::ProbeReport(_)) => Heard::ProbeReport,
        Some(Message::Goodbye(_)) => Heard::Goodbye,
        None => Heard::Other,
    }
}

/// Takes the agent's account of itself; true when it began or ceased to be strained.
fn told(session: &Session, strain: &mut Strain, ping: &Ping) -> bool {
    let lag = Duration::from_nanos(ping.lag_ns.unwrap_or_default());
    let queue = ping.queue_depth.unwrap_or_default();
    session.vitals.told(lag, queue);
    strain.beat(lag, queue)
}

fn flood((since, count): &mut (Moment, u32), now: Moment) -> Result<(), Broken> {
    if now.since(*since) >= FLOOD_WINDOW {
        (*since, *count) = (now, 0);
    }
    *count += 1;
    if *count > FLOOD {
        return Err(broken(format!(
            "more than {FLOOD} messages within {FLOOD_WINDOW:?}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fleetbeat_liveness::beat::Beats;
use fleetbeat_liveness::{Moment, Revised, Tuning};
use fleetbeat_proto::v1::session_service_client::SessionServiceClient;
use fleetbeat_proto::v1::tuning_ack::Outcome;
use fleetbeat_proto::v1::{
    Bye, CheckReply, CloseReason, FromAgent, FromServer, Goodbye, Ping, Pong, TuningAck,
    TuningPush, Welcome, from_agent, from_server,
};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use tonic::transport::Channel;

use super::agent::Agent;
use super::outgoing::{Outgoing, Sent};
use crate::clock;

const OPEN_WITHIN: Duration = Duration::from_secs(10);
const GOODBYE_WITHIN: Duration = Duration::from_secs(10);
/// Messages that may wait for the transport. A transport that takes none for that long is stuck.
const QUEUE: usize = 8;

/// How a session, or the attempt at one, ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) welcomed: bool,
    pub(super) lived: Duration,
    /// What Welcome told for the case that the session is lost.
    pub(super) spread: Duration,
}

#[derive(Debug)]
pub(super) enum End {
    /// This agent said Goodbye.
    Left,
    /// The server ended the stream without a word.
    Refused,
    Unreachable,
    ServerSilent,
    Bye(Bye),
}

/// Opens a session and keeps it until it ends or `stop` asks for a Goodbye.
pub(super) async fn run(agent: &mut Agent, channel: &Channel, stop: &CancellationToken) -> Ended {
    let not_opened = |end| Ended {
        end,
        welcomed: false,
        lived: Duration::ZERO,
        spread: Duration::ZERO,
    };
    let (queue, waiting) = mpsc::channel(QUEUE);
    let sent = Arc::new(Sent::default());
    let outgoing = Outgoing {
        queue: waiting,
        sent: Arc::clone(&sent),
        live: Arc::clone(&agent.live),
    };
    let first = FromAgent {
        message: Some(from_agent::Message::Hello(agent.hello())),
    };
    if queue.try_send(first).is_err() {
        return not_opened(End::Unreachable);
    }
    let opened = tokio::select! {
        () = stop.cancelled() => return not_opened(End::Left),
        opened = timeout(OPEN_WITHIN, open(channel, outgoing)) => opened,
    };
    let ended = match opened {
        Ok(Ok((welcome, incoming))) => {
            let session = Session::new(agent, welcome, queue, Arc::clone(&sent));
            session.run(incoming, stop).await
        }
        Ok(Err(end)) => not_opened(end),
        Err(_elapsed) => not_opened(End::Unreachable),
    };
    agent.counts.messages += sent.messages();
    agent.counts.pings += sent.pings();
    agent.counts.longest_gap_ns = agent.counts.longest_gap_ns.max(sent.longest_gap_ns());
    ended
}

async fn open(
    channel: &Channel,
    outgoing: Outgoing,
) -> Result<(Welcome, Streaming<FromServer>), End> {
    let mut client = SessionServiceClient::new(channel.clone());
    let opened = client
        .open(outgoing)
        .await
        .map_err(|_status| End::Unreachable)?;
    let mut incoming = opened.into_inner();
    match incoming.message().await {
        Ok(Some(FromServer {
            message: Some(from_server::Message::Welcome(welcome)),
        })) => Ok((welcome, incoming)),
        Ok(Some(FromServer {
            message: Some(from_server::Message::Bye(bye)),
        })) => Err(End::Bye(bye)),
        Ok(_) => Err(End::Refused),
        Err(_status) => Err(End::Unreachable),
    }
}

struct Session<'a> {
    agent: &'a mut Agent,
    queue: mpsc::Sender<FromAgent>,
    sent: Arc<Sent>,
    opened: Moment,
    spread: Duration,
    heard: Moment,
    beats: Beats,
    tuning: Tuning,
    next_seq: u64,
    answered_seq: u64,
    /// Round trip and its sequence number, told once.
    rtt: Option<(u64, u64)>,
}

impl<'a> Session<'a> {
    fn new(
        agent: &'a mut Agent,
        welcome: Welcome,
        queue: mpsc::Sender<FromAgent>,
        sent: Arc<Sent>,
    ) -> Self {
        let now = clock::moment();
        agent.counts.sessions += 1;
        agent.live.connected.fetch_add(1, Relaxed);
        let base = welcome.base.and_then(|base| Revised::try_from(base).ok());
        let tuning = agent
            .in_force
            .or(base)
            .map_or_else(Tuning::default, |revised| revised.tuning);
        let mut beats = Beats::new(tuning.interval());
        beats.welcomed(now);
        let mut session = Self {
            agent,
            queue,
            sent,
            opened: now,
            spread: Duration::from_nanos(welcome.reconnect_spread_ns),
            heard: now,
            beats,
            tuning,
            next_seq: 1,
            answered_seq: 0,
            rtt: None,
        };
        if let Some(push) = welcome.tuning {
            session.retune(push);
        }
        session
    }

    async fn run(mut self, mut incoming: Streaming<FromServer>, stop: &CancellationToken) -> Ended {
        let end = self.steady(&mut incoming, stop).await;
        let confirmed = match &end {
            End::Left => self.leave(CloseReason::Goodbye, &mut incoming).await,
            End::ServerSilent => {
                self.send(from_agent::Message::Goodbye(goodbye(
                    CloseReason::PeerGaveUp,
                )));
                false
            }
            End::Refused | End::Unreachable | End::Bye(_) => false,
        };
        if !confirmed {
            self.agent.counts.in_doubt += self.sent.pings().saturating_sub(self.answered_seq);
        }
        self.agent.counts.left = confirmed;
        self.agent.live.connected.fetch_sub(1, Relaxed);
        let lived = clock::moment().since(self.opened);
        Ended {
            end,
            welcomed: true,
            lived,
            spread: self.spread,
        }
    }

    async fn steady(
        &mut self,
        incoming: &mut Streaming<FromServer>,
        stop: &CancellationToken,
    ) -> End {
        let timer = sleep_until(clock::instant(self.wake()));
        tokio::pin!(timer);
        loop {
            tokio::select! {
                biased;
                received = incoming.message() => match received {
                    Ok(Some(FromServer { message: Some(message) })) => {
                        if let Some(end) = self.receive(message) {
                            return end;
                        }
                    }
                    Ok(Some(FromServer { message: None })) => self.heard = clock::moment(),
                    Ok(None) => return End::Refused,
                    Err(_status) => return End::Unreachable,
                },
                () = stop.cancelled() => return End::Left,
                () = timer.as_mut() => {
                    if let Some(end) = self.due() {
                        return end;
                    }
                }
            }
            let wake = clock::instant(self.wake());
            if timer.deadline() != wake {
                timer.as_mut().reset(wake);
            }
        }
    }

    /// When something is due: a PING, or the end of patience with the server.
    fn wake(&self) -> Moment {
        self.beats.due().min(self.server_dead())
    }

    fn server_dead(&self) -> Moment {
        self.heard + self.tuning.expectation().server_dead_after
    }

    fn due(&mut self) -> Option<End> {
        let now = clock::moment();
        if now >= self.server_dead() {
            return Some(End::ServerSilent);
        }
        if now >= self.beats.due() {
            let rtt = self.rtt.take();
            let ping = Ping {
                seq: self.next_seq,
                // Stamped when the transport takes it.
                sent_ns: 0,
                rtt_ns: rtt.map(|(_, rtt)| rtt),
                rtt_seq: rtt.map(|(seq, _)| seq),
                lag_ns: None,
                queue_depth: None,
            };
            if self.send(from_agent::Message::Ping(ping)) {
                self.next_seq += 1;
            }
            self.beats.ping_sent(now, &mut rand::rng());
        }
        None
    }

    fn receive(&mut self, message: from_server::Message) -> Option<End> {
        let now = clock::moment();
        self.heard = now;
        match message {
            from_server::Message::Pong(pong) => self.pong(&pong, now),
            from_server::Message::Tuning(push) => self.retune(push),
            from_server::Message::Check(check) => {
                self.agent.counts.checks += 1;
                self.send(from_agent::Message::CheckReply(CheckReply {
                    nonce: check.nonce,
                }));
                self.beats.message_sent(now, &mut rand::rng());
            }
            from_server::Message::Bye(bye) => return Some(End::Bye(bye)),
            from_server::Message::Welcome(_) => {}
        }
        None
    }

    fn pong(&mut self, pong: &Pong, now: Moment) {
        if pong.seq == 0 || pong.seq >= self.next_seq {
            return;
        }
        self.agent.counts.pongs += 1;
        self.agent.live.pongs.fetch_add(1, Relaxed);
        self.answered_seq = self.answered_seq.max(pong.seq);
        let took = now.as_nanos().saturating_sub(pong.sent_ns);
        self.rtt = Some((pong.seq, took.saturating_sub(pong.hold_ns)));
    }

    /// Applies at once and acknowledges at once, or refuses with the reason.
    fn retune(&mut self, push: TuningPush) {
        let pushed = push.tuning.unwrap_or_default();
        let now = clock::moment();
        let (outcome, reason) = match Revised::try_from(pushed) {
            Ok(revised) => {
                self.apply(revised, now);
                (Outcome::Applied, String::new())
            }
            Err(unusable) => {
                self.agent.counts.refusals += 1;
                (Outcome::Refused, unusable.to_string())
            }
        };
        let ack = TuningAck {
            revision: pushed.revision,
            hash: pushed.hash,
            outcome: outcome.into(),
            reason,
            applied: self.agent.in_force.map(Into::into),
            traceparent: push.traceparent,
        };
        self.send(from_agent::Message::TuningAck(ack));
    }

    fn apply(&mut self, revised: Revised, now: Moment) {
        self.agent.counts.acks += 1;
        self.agent.live.acks.fetch_add(1, Relaxed);
        if self.agent.in_force == Some(revised) {
            self.beats.message_sent(now, &mut rand::rng());
            return;
        }
        self.agent.in_force = Some(revised);
        self.tuning = revised.tuning;
        self.beats
            .retuned(revised.tuning.interval(), now, &mut rand::rng());
    }

    /// Says Goodbye, half-closes, and reads until the server ends the stream. Whether it did so in
    /// order: then it received all that was sent before.
    async fn leave(&mut self, reason: CloseReason, incoming: &mut Streaming<FromServer>) -> bool {
        if !self.send(from_agent::Message::Goodbye(goodbye(reason))) {
            return false;
        }
        let (closed, _) = mpsc::channel(1);
        self.queue = closed;
        let ended = timeout(GOODBYE_WITHIN, async {
            loop {
                match incoming.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return true,
                    Err(_status) => return false,
                }
            }
        });
        ended.await.unwrap_or(false)
    }

    /// Hands a message on; false when the transport has been stuck for several.
    fn send(&mut self, message: from_agent::Message) -> bool {
        self.queue
            .try_send(FromAgent {
                message: Some(message),
            })
            .is_ok()
    }
}

fn goodbye(reason: CloseReason) -> Goodbye {
    Goodbye {
        reason: reason.into(),
        back_within_ns: None,
        detail: String::new(),
    }
}

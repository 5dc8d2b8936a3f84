use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fleetbeat_liveness::backoff::tolerable;
use fleetbeat_liveness::beat::Beats;
use fleetbeat_liveness::{Moment, Revised, Tuning};
use fleetbeat_proto::v1::tuning_ack::Outcome;
use fleetbeat_proto::v1::{
    CheckReply, CloseReason, FromAgent, FromServer, Goodbye, Ping, Pong, TuningAck, TuningPush,
    Welcome, from_agent, from_server,
};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::agent::Agent;
use super::outgoing::Sent;
use super::session::{End, Ended};
use crate::clock;

const GOODBYE_WITHIN: Duration = Duration::from_secs(10);

/// A session that was welcomed.
pub(super) struct Session<'a> {
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
    pub(super) fn new(
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

    pub(super) async fn run(
        mut self,
        mut incoming: Streaming<FromServer>,
        stop: &CancellationToken,
    ) -> Ended {
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
            spread: tolerable(self.spread, self.tuning.deadline()),
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
        let spread = pong.reconnect_spread_ns.map(Duration::from_nanos);
        self.spread = spread.unwrap_or(self.spread);
        self.agent.counts.pongs += 1;
        self.answered_seq = self.answered_seq.max(pong.seq);
        let took = now.as_nanos().saturating_sub(pong.sent_ns);
        let took = took.saturating_sub(pong.hold_ns);
        self.agent.live.answered(Duration::from_nanos(took));
        self.rtt = Some((pong.seq, took));
    }

    /// Applies at once and acknowledges at once, or refuses with the reason.
    fn retune(&mut self, push: TuningPush) {
        let pushed = push.tuning.unwrap_or_default();
        let now = clock::moment();
        self.agent.live.tuning_arrived(pushed.revision);
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

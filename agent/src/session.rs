//! One session as a pure machine: from Hello to its end, without a socket, a clock or a task.
//!
//! Feed it what arrives and what time it is; it says what to send, what to keep and when it wants to
//! be woken. Receiving, beating and judging the server do not wait for each other.

mod ending;
mod judge;
mod pulse;
mod tuning;

pub use crate::clock::Pause;
pub use ending::{Cause, Ending, Told};

use std::collections::VecDeque;
use std::time::Duration;

use fleetbeat_liveness::adaptive::{Pace, server_dead_after};
use fleetbeat_liveness::backoff::{Patience, tolerable};
use fleetbeat_liveness::beat::Beats;
use fleetbeat_liveness::{Expectation, Moment, Revised};
use fleetbeat_proto::v1::from_agent::Message as Upward;
use fleetbeat_proto::v1::from_server::Message as Downward;
use fleetbeat_proto::{PROTOCOL, free_text, nanos, v1};
use rand::Rng;

use judge::Judge;
use pulse::{Answer, Pulse};
use tuning::Unkept;

const MAX_TEXT: usize = 255;

/// What the machine wants done, in this order.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are messages, and a box would cost every beat an allocation"
)]
pub enum Output {
    Send(Upward),
    /// The server welcomed this agent.
    Welcomed {
        session_id: Vec<u8>,
        server: String,
    },
    /// `Revised` is in force: make it survive a restart, then call [`Session::kept`].
    Keep(Revised),
    /// A tuning was refused and the one before stays in force.
    Refused {
        revision: u64,
        reason: String,
    },
    /// The session is over. What was to be sent before is sent first.
    End(Ending),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Hello is on its way, Welcome is due by then.
    Greeting {
        by: Moment,
        patience: Duration,
    },
    Live {
        since: Moment,
    },
    Over,
}

/// See the module.
#[derive(Debug)]
pub struct Session<R> {
    rng: R,
    phase: Phase,
    in_force: Revised,
    /// What a restart would come back with, as far as the server knows.
    acknowledged: Option<Revised>,
    unkept: Option<Unkept>,
    beats: Beats,
    pace: Pace,
    judge: Judge,
    pulse: Pulse,
    spread: Duration,
    /// The last time in which this process could not run, and when that was noticed.
    paused: Option<(Pause, Moment)>,
    outputs: VecDeque<Output>,
}

impl<R: Rng> Session<R> {
    /// Hello was handed to the transport at `now`; it reported `applied`. Welcome has to come within
    /// [`Patience::FIRST`].
    pub fn greet(now: Moment, applied: Option<Revised>, rng: R) -> Self {
        Self::greet_patiently(now, applied, Patience::FIRST, rng)
    }

    /// As [`Session::greet`]; Welcome has to come within `patience`.
    pub fn greet_patiently(
        now: Moment,
        applied: Option<Revised>,
        patience: Duration,
        rng: R,
    ) -> Self {
        let in_force = applied.unwrap_or(Revised {
            revision: 0,
            tuning: fleetbeat_liveness::Tuning::default(),
        });
        Self {
            rng,
            phase: Phase::Greeting {
                by: now + patience,
                patience,
            },
            in_force,
            acknowledged: applied,
            unkept: None,
            beats: Beats::new(in_force.tuning.interval()),
            pace: Pace::new(&in_force.tuning),
            judge: Judge::new(now),
            pulse: Pulse::new(now),
            spread: Duration::ZERO,
            paused: None,
            outputs: VecDeque::new(),
        }
    }

    /// The next thing to do; `None` until something happens.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Session::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Moment {
        match self.phase {
            Phase::Greeting { by, .. } => by,
            Phase::Live { .. } => self
                .ping_due()
                .min(self.proof_due())
                .min(self.judge.due(self.dead_after())),
            Phase::Over => Moment::FAR,
        }
    }

    /// What this agent and the server expect of each other.
    pub fn expectation(&self) -> Expectation {
        self.in_force.tuning.expectation()
    }

    pub fn in_force(&self) -> &Revised {
        &self.in_force
    }

    pub fn handle_message(&mut self, now: Moment, message: v1::FromServer) {
        match (self.phase, message.message) {
            (Phase::Over, _) | (Phase::Greeting { .. }, None) => {}
            (Phase::Greeting { .. }, Some(Downward::Welcome(welcome))) => {
                self.welcomed(now, welcome);
            }
            (_, Some(Downward::Bye(bye))) => self.told(now, &bye),
            (Phase::Greeting { .. }, Some(_)) => {
                self.give_up(
                    now,
                    Cause::Broken,
                    "the server sent something before Welcome",
                );
            }
            (Phase::Live { .. }, Some(Downward::Welcome(_))) => {
                self.give_up(now, Cause::Broken, "the server sent Welcome twice");
            }
            (Phase::Live { .. }, None) => self.judge.heard(now),
            (Phase::Live { .. }, Some(Downward::Pong(pong))) => {
                self.answered(now, &pong);
            }
            (Phase::Live { .. }, Some(Downward::Check(check))) => {
                self.judge.heard(now);
                let nonce = check.nonce;
                self.send(now, Upward::CheckReply(v1::CheckReply { nonce }));
            }
            (Phase::Live { .. }, Some(Downward::Tuning(push))) => {
                self.judge.heard(now);
                self.pushed(now, push);
            }
        }
    }

    /// To be called at [`Session::poll_timeout`], late calls included. `waiting` counts the messages
    /// that the transport did not take yet.
    pub fn handle_timeout(&mut self, now: Moment, waiting: usize) {
        match self.phase {
            Phase::Greeting { by, patience } if now >= by => {
                let detail = format!("no Welcome within {patience:?} of Hello");
                self.give_up(now, Cause::Unanswered, &detail);
            }
            Phase::Live { .. } => {
                let dead_after = self.dead_after();
                if self.judge.convicts(now, dead_after) {
                    let detail = format!("nothing arrived from the server for {dead_after:?}");
                    self.give_up(now, Cause::ServerSilent, &detail);
                } else if now >= self.ping_due() {
                    self.ping(now, waiting);
                } else if now >= self.proof_due() {
                    self.prove(now, waiting);
                }
            }
            Phase::Greeting { .. } | Phase::Over => {}
        }
    }

    /// The agent's own loop ran `late` behind its timer.
    pub fn lagged(&mut self, late: Duration) {
        self.pulse.lagged(late);
    }

    /// This process could not run for a while, to be called before anything else that is known by then.
    /// No round trip that spans it is worth anything. For less than the deadline the server may still hold
    /// the session, which a PING shows at once.
    pub fn paused(&mut self, now: Moment, pause: Pause, waiting: usize) {
        if !self.live() {
            return;
        }
        self.pulse.forget();
        self.paused = Some((pause, now));
        match pause {
            Pause::Suspended(slept) if slept > self.expectation().offline_at_most => {
                self.give_up(now, Cause::Slept, "longer than the server waits");
            }
            Pause::Suspended(_) | Pause::Stalled(_) => self.ping(now, waiting),
        }
    }

    /// The stream ended or broke without a word of the server.
    pub fn broken(&mut self, now: Moment, detail: &str) {
        self.end(now, Cause::Broken, detail);
    }

    /// The server, or a proxy before it, broke the stream because it takes the heartbeats for abuse.
    pub fn rejected(&mut self, now: Moment, detail: &str) {
        self.end(now, Cause::Calmed, detail);
    }

    /// A planned end.
    pub fn leave(&mut self, now: Moment, detail: &str, back_within: Option<Duration>) {
        self.goodbye(now, v1::CloseReason::Goodbye, detail, back_within);
        self.end(now, Cause::Goodbye, detail);
    }

    /// The server cannot be confirmed.
    pub fn give_up(&mut self, now: Moment, cause: Cause, detail: &str) {
        self.goodbye(now, v1::CloseReason::PeerGaveUp, detail, None);
        self.end(now, cause, detail);
    }

    pub fn live(&self) -> bool {
        matches!(self.phase, Phase::Live { .. })
    }

    fn dead_after(&self) -> Duration {
        server_dead_after(&self.expectation(), self.pace.p95())
    }

    /// A PONG that answers no PING of this stream proves nothing.
    fn answered(&mut self, now: Moment, pong: &v1::Pong) {
        let trip = match self.pulse.answered(now, pong) {
            Answer::Stranger => return,
            Answer::Life => None,
            Answer::Trip(trip) => Some(trip),
        };
        self.judge.heard(now);
        let spread = pong.reconnect_spread_ns.map(Duration::from_nanos);
        self.spread = spread.unwrap_or(self.spread);
        let lag = Duration::from_nanos(pong.lag_ns.unwrap_or(0));
        let interval = self.pace.answered(trip, lag, &self.in_force.tuning);
        self.beats.paced(interval, now, &mut self.rng);
    }

    fn ping_due(&self) -> Moment {
        let held = self
            .unkept
            .as_ref()
            .map_or(Moment::ZERO, |unkept| unkept.ping_from);
        self.beats.due().max(held)
    }

    /// When the silence that a push found is as long as was promised, although no ack went yet.
    fn proof_due(&self) -> Moment {
        self.unkept
            .as_ref()
            .map_or(Moment::FAR, |unkept| unkept.prove_by)
    }

    fn welcomed(&mut self, now: Moment, welcome: v1::Welcome) {
        if let Err(why) = check_welcome(&welcome) {
            self.give_up(now, Cause::Broken, &why);
            return;
        }
        self.phase = Phase::Live { since: now };
        self.judge.heard(now);
        self.spread = Duration::from_nanos(welcome.reconnect_spread_ns);
        self.outputs.push_back(Output::Welcomed {
            session_id: welcome.session_id,
            server: welcome.server,
        });
        if self.acknowledged.is_none()
            && let Some(base) = &welcome.base
        {
            self.take_base(base);
        }
        let push = welcome.tuning.map(|push| self.judge_push(now, push));
        self.beats.welcomed(now);
        self.ping(now, 0);
        if let Some(verdict) = push {
            self.answer_push(now, verdict);
        }
    }

    fn told(&mut self, now: Moment, bye: &v1::Bye) {
        let detail = free_text(&bye.detail);
        self.end(now, Cause::Told(Told::from_wire(bye)), &detail);
    }

    fn ping(&mut self, now: Moment, waiting: usize) {
        self.beats.ping_sent(now, &mut self.rng);
        self.prove(now, waiting);
    }

    /// A PING that leaves the schedule alone: a fleet that was retuned together would come in step.
    fn prove(&mut self, now: Moment, waiting: usize) {
        let ping = self.pulse.ping(now, waiting);
        self.put(Upward::Ping(ping));
    }

    fn send(&mut self, now: Moment, message: Upward) {
        // With N = 1 the server's next answer is owed within R: without its PING it would look silent.
        if self.in_force.tuning.misses() > 1 {
            self.beats.message_sent(now, &mut self.rng);
        }
        self.put(message);
    }

    /// Every message proves life.
    fn put(&mut self, message: Upward) {
        if let Some(unkept) = &mut self.unkept {
            unkept.prove_by = Moment::FAR;
        }
        self.outputs.push_back(Output::Send(message));
    }

    fn goodbye(
        &mut self,
        now: Moment,
        reason: v1::CloseReason,
        detail: &str,
        back_within: Option<Duration>,
    ) {
        if self.phase != Phase::Over {
            let goodbye = v1::Goodbye {
                reason: reason.into(),
                back_within_ns: back_within.map(nanos),
                detail: free_text(detail),
            };
            self.send(now, Upward::Goodbye(goodbye));
        }
    }

    fn end(&mut self, now: Moment, cause: Cause, detail: &str) {
        let lived = match self.phase {
            Phase::Greeting { .. } => None,
            Phase::Live { since } => Some(now.since(since)),
            Phase::Over => return,
        };
        self.phase = Phase::Over;
        self.beats.ended();
        // An ending that comes so soon after a pause is the pause's doing.
        let late = self.expectation().suspect_after;
        let paused = self.paused.filter(|(_, at)| now.since(*at) <= late);
        self.outputs.push_back(Output::End(Ending {
            cause,
            paused: paused.map(|(pause, _)| pause),
            detail: free_text(detail),
            lived,
            spread: tolerable(self.spread, self.in_force().tuning.deadline()),
        }));
    }
}

fn check_welcome(welcome: &v1::Welcome) -> Result<(), String> {
    if welcome.protocol != PROTOCOL {
        return Err(format!(
            "the server speaks version {} of the contract, this agent speaks {}",
            welcome.protocol, PROTOCOL
        ));
    }
    if welcome.session_id.len() != 16 {
        return Err(format!(
            "the server's session id has {} bytes instead of 16",
            welcome.session_id.len()
        ));
    }
    if welcome.server.len() > MAX_TEXT || welcome.server.chars().any(char::is_control) {
        return Err("the server's name is too long or holds control characters".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;

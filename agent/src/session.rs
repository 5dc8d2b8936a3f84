//! One session as a pure machine: from Hello to its end, without a socket, a clock or a task.
//!
//! Feed it what arrives and what time it is; it says what to send, what to keep and when it wants to
//! be woken. Receiving, beating and judging the server do not wait for each other.

mod ending;
mod judge;
mod pulse;

pub(crate) use ending::{Cause, Ending, Told};

use std::collections::VecDeque;
use std::time::Duration;

use fleetbeat_liveness::beat::Beats;
use fleetbeat_liveness::{Expectation, Moment, Revised};
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::from_agent::Message as Upward;
use fleetbeat_proto::v1::from_server::Message as Downward;
use rand::Rng;

use crate::contract;
use judge::Judge;
use pulse::Pulse;

/// The server has this long from Hello to Welcome.
const WELCOME_WITHIN: Duration = Duration::from_secs(10);
/// An ack that waits for a slow disk holds the next PING up by this much and no more.
const ACK_BEFORE_PING: Duration = Duration::from_millis(100);
/// A W3C trace context is this long; anything longer is none.
const MAX_TRACEPARENT: usize = 55;
const MAX_TEXT: usize = 255;

/// What the machine wants done, in this order.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are messages, and a box would cost every beat an allocation"
)]
pub(crate) enum Output {
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
    },
    Live {
        since: Moment,
    },
    Over,
}

/// A tuning that is in force and whose ack waits for the disk.
#[derive(Debug)]
struct Unkept {
    revised: Revised,
    traceparent: String,
    ping_from: Moment,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Session<R> {
    rng: R,
    phase: Phase,
    in_force: Revised,
    /// What a restart would come back with, as far as the server knows.
    acknowledged: Option<Revised>,
    unkept: Option<Unkept>,
    beats: Beats,
    judge: Judge,
    pulse: Pulse,
    spread: Duration,
    outputs: VecDeque<Output>,
}

impl<R: Rng> Session<R> {
    /// Hello was handed to the transport at `now`; it reported `applied`.
    pub(crate) fn greet(now: Moment, applied: Option<Revised>, rng: R) -> Self {
        let in_force = applied.unwrap_or(Revised {
            revision: 0,
            tuning: fleetbeat_liveness::Tuning::default(),
        });
        Self {
            rng,
            phase: Phase::Greeting {
                by: now + WELCOME_WITHIN,
            },
            in_force,
            acknowledged: applied,
            unkept: None,
            beats: Beats::new(in_force.tuning.interval()),
            judge: Judge::new(now),
            pulse: Pulse::new(now),
            spread: Duration::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// The next thing to do; `None` until something happens.
    pub(crate) fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Session::handle_timeout`] wants to be called.
    pub(crate) fn poll_timeout(&self) -> Moment {
        match self.phase {
            Phase::Greeting { by } => by,
            Phase::Live { .. } => self.ping_due().min(self.judge.due(self.dead_after())),
            Phase::Over => Moment::FAR,
        }
    }

    /// What this agent and the server expect of each other.
    pub(crate) fn expectation(&self) -> Expectation {
        self.in_force.tuning.expectation()
    }

    pub(crate) fn in_force(&self) -> &Revised {
        &self.in_force
    }

    pub(crate) fn handle_message(&mut self, now: Moment, message: v1::FromServer) {
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
                // One that answers no PING of this stream proves nothing.
                if self.pulse.answered(now, &pong) {
                    self.judge.heard(now);
                }
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
    pub(crate) fn handle_timeout(&mut self, now: Moment, waiting: usize) {
        match self.phase {
            Phase::Greeting { by } if now >= by => {
                self.give_up(now, Cause::Broken, "no Welcome within 10 s of Hello");
            }
            Phase::Live { .. } => {
                let dead_after = self.dead_after();
                if self.judge.convicts(now, dead_after) {
                    let detail = format!("nothing arrived from the server for {dead_after:?}");
                    self.give_up(now, Cause::ServerSilent, &detail);
                } else if now >= self.ping_due() {
                    self.ping(now, waiting);
                }
            }
            Phase::Greeting { .. } | Phase::Over => {}
        }
    }

    /// `revised` survives a restart, or cannot be made to: either way it is in force.
    pub(crate) fn kept(&mut self, now: Moment, revised: Revised) {
        let Some(unkept) = self.unkept.take_if(|unkept| unkept.revised == revised) else {
            return;
        };
        self.acknowledged = Some(revised);
        if self.live() {
            self.ack(now, &revised, Ok(()), unkept.traceparent);
        }
    }

    /// The agent's own loop ran `late` behind its timer.
    pub(crate) fn lagged(&mut self, late: Duration) {
        self.pulse.lagged(late);
    }

    /// The host was suspended. For less than the deadline the server may still hold the session, which a
    /// PING shows at once.
    pub(crate) fn slept(&mut self, now: Moment, slept: Duration, waiting: usize) {
        if !self.live() {
            return;
        }
        self.pulse.forget();
        if slept > self.expectation().offline_after {
            self.give_up(now, Cause::Slept, &format!("the host slept for {slept:?}"));
        } else {
            self.ping(now, waiting);
        }
    }

    /// The stream ended or broke without a word.
    pub(crate) fn broken(&mut self, now: Moment, detail: &str) {
        self.end(now, Cause::Broken, detail);
    }

    /// A planned end.
    pub(crate) fn leave(&mut self, now: Moment, detail: &str) {
        self.goodbye(now, v1::CloseReason::Goodbye, detail);
        self.end(now, Cause::Goodbye, detail);
    }

    /// The server cannot be confirmed.
    pub(crate) fn give_up(&mut self, now: Moment, cause: Cause, detail: &str) {
        self.goodbye(now, v1::CloseReason::PeerGaveUp, detail);
        self.end(now, cause, detail);
    }

    fn live(&self) -> bool {
        matches!(self.phase, Phase::Live { .. })
    }

    fn dead_after(&self) -> Duration {
        self.expectation().server_dead_after
    }

    fn ping_due(&self) -> Moment {
        let held = self
            .unkept
            .as_ref()
            .map_or(Moment::ZERO, |unkept| unkept.ping_from);
        self.beats.due().max(held)
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

    /// Nothing was ever acknowledged: the server's base holds until then.
    fn take_base(&mut self, base: &v1::RevisedTuning) {
        match contract::revised(base) {
            Ok(base) => {
                self.in_force = base;
                self.beats = Beats::new(base.tuning.interval());
            }
            Err(reason) => self.outputs.push_back(Output::Refused {
                revision: base.revision,
                reason,
            }),
        }
    }

    fn pushed(&mut self, now: Moment, push: v1::TuningPush) {
        let verdict = self.judge_push(now, push);
        self.answer_push(now, verdict);
    }

    /// Puts a valid push in force.
    fn judge_push(&mut self, now: Moment, push: v1::TuningPush) -> Verdict {
        let wire = push.tuning.unwrap_or_default();
        let traceparent = trace(push.traceparent);
        let revised = match contract::revised(&wire).and_then(|revised| self.check_order(revised)) {
            Ok(revised) => revised,
            Err(reason) => {
                return Verdict::Refused {
                    wire,
                    reason,
                    traceparent,
                };
            }
        };
        if let Some(unkept) = &mut self.unkept
            && unkept.revised == revised
        {
            unkept.traceparent = traceparent;
            return Verdict::Waiting;
        }
        if self.unkept.is_none() && self.acknowledged == Some(revised) {
            return Verdict::Known {
                revised,
                traceparent,
            };
        }
        self.in_force = revised;
        self.beats
            .retuned(revised.tuning.interval(), now, &mut self.rng);
        self.unkept = Some(Unkept {
            revised,
            traceparent,
            ping_from: now + ACK_BEFORE_PING,
        });
        Verdict::Adopted(revised)
    }

    fn check_order(&self, revised: Revised) -> Result<Revised, String> {
        let newest = self
            .unkept
            .as_ref()
            .map(|unkept| unkept.revised)
            .or(self.acknowledged);
        match newest {
            Some(newest) if revised.revision < newest.revision => Err(format!(
                "revision {} is older than {}, which is in force",
                revised.revision, newest.revision
            )),
            Some(_) | None => Ok(revised),
        }
    }

    fn answer_push(&mut self, now: Moment, verdict: Verdict) {
        match verdict {
            Verdict::Adopted(revised) => self.outputs.push_back(Output::Keep(revised)),
            Verdict::Waiting => {}
            Verdict::Known {
                revised,
                traceparent,
            } => {
                self.ack(now, &revised, Ok(()), traceparent);
            }
            Verdict::Refused {
                wire,
                reason,
                traceparent,
            } => {
                self.outputs.push_back(Output::Refused {
                    revision: wire.revision,
                    reason: reason.clone(),
                });
                self.ack_wire(now, wire.revision, wire.hash, Err(reason), traceparent);
            }
        }
    }

    fn ack(&mut self, now: Moment, of: &Revised, result: Result<(), String>, trace: String) {
        self.ack_wire(now, of.revision, of.hash(), result, trace);
    }

    fn ack_wire(
        &mut self,
        now: Moment,
        revision: u64,
        hash: u64,
        result: Result<(), String>,
        traceparent: String,
    ) {
        let outcome = match result {
            Ok(()) => v1::tuning_ack::Outcome::Applied,
            Err(_) => v1::tuning_ack::Outcome::Refused,
        };
        let ack = v1::TuningAck {
            revision,
            hash,
            outcome: outcome.into(),
            reason: result
                .err()
                .map(|reason| contract::text(&reason))
                .unwrap_or_default(),
            applied: Some(contract::revised_to_wire(&self.in_force)),
            traceparent,
        };
        self.send(now, Upward::TuningAck(ack));
    }

    fn told(&mut self, now: Moment, bye: &v1::Bye) {
        let detail = contract::text(&bye.detail);
        self.end(now, Cause::Told(Told::from_wire(bye)), &detail);
    }

    fn ping(&mut self, now: Moment, waiting: usize) {
        let ping = self.pulse.ping(now, waiting);
        self.beats.ping_sent(now, &mut self.rng);
        self.outputs.push_back(Output::Send(Upward::Ping(ping)));
    }

    fn send(&mut self, now: Moment, message: Upward) {
        self.beats.message_sent(now, &mut self.rng);
        self.outputs.push_back(Output::Send(message));
    }

    fn goodbye(&mut self, now: Moment, reason: v1::CloseReason, detail: &str) {
        if self.phase != Phase::Over {
            let goodbye = v1::Goodbye {
                reason: reason.into(),
                back_within_ns: None,
                detail: contract::text(detail),
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
        self.outputs.push_back(Output::End(Ending {
            cause,
            detail: contract::text(detail),
            lived,
            spread: self.spread,
        }));
    }
}

/// What became of a push.
#[derive(Debug)]
enum Verdict {
    Adopted(Revised),
    /// In force already, its ack waits for the disk.
    Waiting,
    /// In force and acknowledged already.
    Known {
        revised: Revised,
        traceparent: String,
    },
    Refused {
        wire: v1::RevisedTuning,
        reason: String,
        traceparent: String,
    },
}

fn check_welcome(welcome: &v1::Welcome) -> Result<(), String> {
    if welcome.protocol != contract::PROTOCOL {
        return Err(format!(
            "the server speaks version {} of the contract, this agent speaks {}",
            welcome.protocol,
            contract::PROTOCOL
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

fn trace(traceparent: String) -> String {
    let fits = traceparent.len() <= MAX_TRACEPARENT && traceparent.is_ascii();
    if fits { traceparent } else { String::new() }
}

#[cfg(test)]
mod tests;

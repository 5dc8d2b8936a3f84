//! A push of tuning: in force at once, acknowledged when it would survive a restart.

use std::time::Duration;

use fleetbeat_liveness::beat::Beats;
use fleetbeat_liveness::{Moment, Revised};
use fleetbeat_proto::v1::from_agent::Message as Upward;
use fleetbeat_proto::{free_text, v1};
use rand::Rng;

use super::{Output, Session};

/// An ack that waits for a slow disk holds the next PING up by this much and no more.
const ACK_BEFORE_PING: Duration = Duration::from_millis(100);
/// A W3C trace context is this long; anything longer is none.
const MAX_TRACEPARENT: usize = 55;

/// A tuning that is in force and whose ack waits for the disk.
#[derive(Debug)]
pub(super) struct Unkept {
    revised: Revised,
    traceparent: String,
    /// No PING before this, so that the ack goes first.
    pub ping_from: Moment,
    /// A message has to go by then, whatever the disk does; [`Moment::FAR`] once one went.
    pub prove_by: Moment,
}

/// What became of a push.
#[derive(Debug)]
pub(super) enum Verdict {
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

impl<R: Rng> Session<R> {
    /// `revised` survives a restart, or cannot be made to: either way it is in force.
    pub fn kept(&mut self, now: Moment, revised: Revised) {
        let Some(unkept) = self.unkept.take_if(|unkept| unkept.revised == revised) else {
            return;
        };
        self.acknowledged = Some(revised);
        if self.live() {
            self.ack(now, &revised, Ok(()), unkept.traceparent);
        }
    }

    /// Nothing was ever acknowledged: the server's base holds until then.
    pub(super) fn take_base(&mut self, base: &v1::RevisedTuning) {
        match read(*base) {
            Ok(base) => {
                self.in_force = base;
                self.beats = Beats::new(base.tuning.interval());
                self.pace.retuned(&base.tuning);
            }
            Err(reason) => self.outputs.push_back(Output::Refused {
                revision: base.revision,
                reason,
            }),
        }
    }

    pub(super) fn pushed(&mut self, now: Moment, push: v1::TuningPush) {
        let verdict = self.judge_push(now, push);
        self.answer_push(now, verdict);
    }

    /// Puts a valid push in force.
    pub(super) fn judge_push(&mut self, now: Moment, push: v1::TuningPush) -> Verdict {
        let wire = push.tuning.unwrap_or_default();
        let traceparent = trace(push.traceparent);
        let revised = match read(wire).and_then(|revised| self.check_order(revised)) {
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
        let prove_by = self.owed().max(now);
        self.pace.retuned(&revised.tuning);
        self.beats
            .retuned(revised.tuning.interval(), now, &mut self.rng);
        self.unkept = Some(Unkept {
            revised,
            traceparent,
            ping_from: now + ACK_BEFORE_PING,
            prove_by,
        });
        Verdict::Adopted(revised)
    }

    /// When the next message goes by what was promised until here. Pushes in quick succession do not move
    /// it: each re-draws the PING, none sends anything before its ack.
    fn owed(&self) -> Moment {
        self.ping_due().min(self.proof_due())
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

    pub(super) fn answer_push(&mut self, now: Moment, verdict: Verdict) {
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
                .map(|reason| free_text(&reason))
                .unwrap_or_default(),
            applied: Some(self.in_force.into()),
            traceparent,
        };
        self.send(now, Upward::TuningAck(ack));
    }
}

fn trace(traceparent: String) -> String {
    let fits = traceparent.len() <= MAX_TRACEPARENT && traceparent.is_ascii();
    if fits { traceparent } else { String::new() }
}

/// What a push asks for.
fn read(wire: v1::RevisedTuning) -> Result<Revised, String> {
    Revised::try_from(wire).map_err(|reason| free_text(&reason.to_string()))
}

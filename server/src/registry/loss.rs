//! What is remembered of a session that ended, until its agent returns.

#[cfg(test)]
mod tests;

use std::time::Duration;

use fleetbeat_liveness::beat::Promise;
use fleetbeat_liveness::cause::{Account, Ages, Cut, Loss, Return, settle};
use fleetbeat_liveness::fence::InstanceId;
use fleetbeat_liveness::flapping::Flapping;
use fleetbeat_liveness::grounds::Silence;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::CloseReason;
use time::OffsetDateTime;
use uuid::Uuid;

use super::agent::State;
use super::{Ending, Quiet, Quieted, Session, Transition};

/// How the last session ended.
#[derive(Debug)]
pub(super) struct Parting {
    pub silence: Silence,
    pub promise: Promise,
    pub how: String,
}

/// What an agent said when it left.
#[derive(Debug)]
pub(super) struct Departure {
    pub by: Moment,
    pub within: Duration,
    pub how: String,
}

/// The losses of one agent.
#[derive(Debug, Default)]
pub(super) struct Losses {
    pub flapping: Flapping,
    ages: Ages,
    /// The last session, when it was lost and nobody knows yet why.
    open: Option<Box<Lost>>,
    pub toll: Toll,
}

/// What was counted of one agent since the server started. What may be the server's own doing does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Toll {
    /// Sessions that ended without anybody meaning it.
    pub disconnects: u32,
    /// Times that the same instance came back after it lost a session.
    pub reconnects: u32,
}

#[derive(Debug)]
struct Lost {
    session: Uuid,
    loss: Loss,
    cut: Cut,
    instance: Option<InstanceId>,
    boot_id: String,
    server_deaf: bool,
    /// Nobody came back yet, and it is not the server that kept the agent away.
    silent: bool,
    heard: Moment,
    heard_wall: OffsetDateTime,
    tuning: Tuning,
}

/// What a Hello tells about the ending before it.
#[derive(Clone, Debug)]
pub(super) struct Returned<'a> {
    pub instance: InstanceId,
    pub boot_id: &'a str,
    pub account: Option<Account>,
    /// Verdicts are held.
    pub held: bool,
}

impl State {
    /// A session was lost at `now`. `server_deaf` when the server itself may be to blame: then it counts for
    /// nothing.
    pub(super) fn lose(
        &mut self,
        session: &Session,
        loss: Loss,
        server_deaf: bool,
        (now, wall): (Moment, OffsetDateTime),
    ) {
        if !server_deaf {
            self.losses.flapping.lost(now);
            self.losses.toll.disconnects += u32::from(loss != Loss::Replaced);
        }
        let heard = session.last_heard();
        let cut = Cut {
            age: heard.since(session.opened),
            idle: (loss == Loss::Broke).then(|| now.since(heard)),
        };
        self.losses.open = Some(Box::new(Lost {
            session: session.id,
            loss,
            cut: Cut {
                age: cut.age + cut.idle.unwrap_or_default(),
                ..cut
            },
            instance: self.held.map(|held| held.instance),
            boot_id: self.facts.boot_id.clone(),
            server_deaf,
            silent: !server_deaf && !session.ending().is_some_and(sent_away),
            heard,
            heard_wall: wall - now.since(heard),
            tuning: session.in_force().tuning,
        }));
    }

    /// A live session spoke again.
    pub(super) fn heard_after(
        &mut self,
        session: &Session,
        gap: Duration,
        lateness: Option<Duration>,
        at: OffsetDateTime,
    ) {
        let tuning = session.in_force().tuning;
        if gap <= tuning.expectation().suspect_after {
            return;
        }
        let quiet = Quiet {
            session: session.id,
            began: at - gap,
            gap,
            tuning,
            lateness,
            ended: Quieted::Heard,
        };
        self.journal.push(at, Transition::Silence(quiet));
    }

    /// The agent is offline: its silence is open until it returns.
    pub(super) fn stays_quiet(&mut self, now: Moment, at: OffsetDateTime) {
        self.quiet(Quieted::Open, now, at);
    }

    /// The agent said Hello, and is seated or put off: its silence is over. Where the server is deaf the silence
    /// may be its own, unless the agent was called offline before.
    pub(super) fn breaks_silence(
        &mut self,
        instance: InstanceId,
        deaf: bool,
        (now, at): (Moment, OffsetDateTime),
    ) {
        let Some(before) = self.losses.open.as_ref().and_then(|lost| lost.instance) else {
            return;
        };
        let lived = before == instance;
        let ended = if lived {
            Quieted::Returned
        } else {
            Quieted::Died
        };
        if !deaf || self.verdict == Verdict::Offline {
            self.quiet(ended, now, at);
        }
        if let Some(lost) = &mut self.losses.open {
            lost.silent = false;
        }
    }

    /// Writes down the silence of the lost session, unless it is over, was short or the server's own.
    fn quiet(&mut self, ended: Quieted, now: Moment, at: OffsetDateTime) {
        let Some(lost) = &self.losses.open else {
            return;
        };
        let gap = now.since(lost.heard);
        if !lost.silent || gap <= lost.tuning.expectation().suspect_after {
            return;
        }
        let quiet = Quiet {
            session: lost.session,
            began: lost.heard_wall,
            gap,
            tuning: lost.tuning,
            lateness: None,
            ended,
        };
        self.journal.push(at, Transition::Silence(quiet));
    }

    /// The last session ended as it was meant to: there is no cause to settle.
    pub(super) fn lose_nothing(&mut self) {
        self.losses.open = None;
    }

    /// An agent that left said Hello, and was told to come again until `turn`: it is not overdue before it
    /// has had D beyond that.
    pub(super) fn returns_later(&mut self, turn: Moment) {
        if let (Some(departure), Some(last)) = (&mut self.departure, self.last) {
            let by = turn + last.expectation.offline_at_most;
            departure.by = departure.by.max(by);
        }
    }

    /// The agent is back: settles why it lost its session, if it did.
    pub(super) fn settle_loss(
        &mut self,
        returned: &Returned<'_>,
        (now, at): (Moment, OffsetDateTime),
    ) {
        self.breaks_silence(returned.instance, returned.held, (now, at));
        let Some(lost) = self.losses.open.take() else {
            return;
        };
        let restarted = lost.instance.map(|before| before != returned.instance);
        if restarted == Some(false) && !lost.server_deaf {
            self.losses.toll.reconnects += 1;
        }
        let told = !lost.boot_id.is_empty() && !returned.boot_id.is_empty();
        let back = Return {
            loss: lost.loss,
            restarted,
            booted: told && lost.boot_id != returned.boot_id,
            account: returned.account,
            server_deaf: lost.server_deaf,
        };
        let settled = settle(back, lost.cut, &mut self.losses.ages);
        let session = lost.session;
        let what = Transition::CauseSettled { session, settled };
        self.journal.push(at, what);
    }
}

/// Whether the server ended a session that it heard, so that the agent comes back no sooner than it is told to.
fn sent_away(ending: &Ending) -> bool {
    matches!(
        ending.reason,
        CloseReason::SlowConsumer | CloseReason::ProtocolError
    )
}

/// How a session was lost, `None` when it was not.
pub(super) fn loss_of(reason: CloseReason) -> Option<Loss> {
    match reason {
        CloseReason::TransportError | CloseReason::ProtocolError => Some(Loss::Broke),
        CloseReason::MissedHeartbeats => Some(Loss::Silent),
        CloseReason::PeerGaveUp => Some(Loss::GaveUp),
        CloseReason::Superseded => Some(Loss::Replaced),
        CloseReason::SlowConsumer => Some(Loss::SlowConsumer),
        CloseReason::Goodbye
        | CloseReason::ServerDrain
        | CloseReason::Shed
        | CloseReason::AuthRevoked
        | CloseReason::DuplicateIdentity
        | CloseReason::ServerLost
        | CloseReason::Unspecified => None,
    }
}

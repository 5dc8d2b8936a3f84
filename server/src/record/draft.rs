//! From transitions to rows: pure, but for the totals of sessions.

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::grounds::Grounds;
use fleetbeat_proto::nanos;
use fleetbeat_proto::v1::CloseReason;
use time::OffsetDateTime;
use uuid::Uuid;

use super::beats::Beats;
use crate::registry::{AgentView, Entry, Quiet, Quieted, Session, Transition};
use crate::store::agents::{Identity, State};
use crate::store::batch::Batch;
use crate::store::events::{Happened, Kind};
use crate::store::facts::Facts;
use crate::store::metrics::Bucket;
use crate::store::runs::Run;
use crate::store::sessions::{Caused, Closed, Opened};
use crate::store::silences::{Ended, Silence};
use crate::store::tuning::{Answer, Outcome};

/// An answer to a push that took longer is noted.
const LATE: Duration = Duration::from_secs(10);

/// A batch in the making.
#[derive(Debug)]
pub(super) struct Draft<'r> {
    run: &'r Run,
    beats: &'r mut Beats,
    /// Where beats are counted that end with their session.
    bucket: Bucket,
    batch: Batch,
}

impl<'r> Draft<'r> {
    pub(super) fn new(run: &'r Run, beats: &'r mut Beats, bucket: Bucket) -> Self {
        Self {
            run,
            beats,
            bucket,
            batch: Batch::default(),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.batch.rows()
    }

    /// What happened to one agent, which now stands at `view`. Once per agent and batch.
    pub(super) fn agent(
        &mut self,
        view: &AgentView,
        desired_revision: u64,
        live: Option<&Arc<Session>>,
        entries: Vec<Entry>,
        at: OffsetDateTime,
    ) {
        let told = entries.iter().rev().find_map(|entry| {
            if let Transition::SessionOpened {
                instance, fence, ..
            } = entry.what
            {
                Some((instance, fence, entry.at))
            } else {
                None
            }
        });
        if let Some((instance, fence, seen_at)) = told {
            let instance_id = Some(Uuid::from_bytes(instance.0));
            self.batch
                .identities
                .push(identity(view, fence, instance_id, seen_at));
        }
        let untold = ends_untold(&entries);
        for entry in entries {
            self.entry(view, live, untold, entry);
        }
        self.state(view, desired_revision, at);
    }

    /// An agent that was only refused has no fence, and so no state.
    pub(super) fn state(&mut self, view: &AgentView, desired_revision: u64, at: OffsetDateTime) {
        let Some(fence) = view.fence else { return };
        self.batch.states.push(State {
            agent_id: view.id,
            verdict: view.verdict.into(),
            verdict_since: view.since,
            last_seen_at: view.last_seen,
            session_id: view.session.as_ref().map(|session| session.id),
            fence,
            applied: view.applied,
            desired_revision: Some(desired_revision),
            at,
        });
    }

    /// A session whose end was not told by its agent's journal.
    pub(super) fn unheard(&mut self, session: &Arc<Session>, at: OffsetDateTime) {
        let Some(ending) = session.ending() else {
            return;
        };
        self.closed(session, ending.reason, &ending.detail, at);
    }

    pub(super) fn seal(self) -> Batch {
        sorted(self.batch)
    }

    fn entry(
        &mut self,
        view: &AgentView,
        live: Option<&Arc<Session>>,
        untold: Option<Uuid>,
        Entry { at, what }: Entry,
    ) {
        match what {
            Transition::SessionOpened {
                session,
                instance,
                fence,
                address,
            } => {
                let shown = live.filter(|live| live.id == session).cloned();
                let detail = format!("session {fence} from {address}");
                if shown.is_some() || untold != Some(session) {
                    self.beats.opened(session, shown);
                    let instance_id = Some(Uuid::from_bytes(instance.0));
                    self.open(view.id, session, instance_id, fence, address, at);
                }
                self.event(view.id, Some(session), at, Kind::SessionOpened, detail);
            }
            Transition::SessionClosed {
                session,
                reason,
                detail,
            } => {
                self.closed(&session, reason, &detail, at);
            }
            Transition::Verdict { to, grounds, .. } => {
                let session = view.session.as_ref().map(|session| session.id);
                self.event(
                    view.id,
                    session,
                    at,
                    Kind::VerdictChanged(to.into()),
                    grounds.to_string(),
                );
                self.resting_on(grounds_of(&grounds));
            }
            Transition::Condition {
                condition,
                began,
                detail,
            } => {
                let kind = if began {
                    Kind::ConditionBegan
                } else {
                    Kind::ConditionEnded
                };
                let session = view.session.as_ref().map(|session| session.id);
                self.event(view.id, session, at, kind, format!("{condition}: {detail}"));
                self.resting_on(Facts {
                    condition: Some(condition.as_str().to_owned()),
                    ..Facts::default()
                });
            }
            Transition::CauseSettled {
                session: session_id,
                settled,
            } => {
                let cause = settled.cause;
                self.batch.causes.push(Caused {
                    session_id,
                    cause: cause.into(),
                });
                let detail = format!("{cause}: {}", settled.because);
                self.event(view.id, Some(session_id), at, Kind::CauseSettled, detail);
                self.resting_on(Facts {
                    cause: Some(cause.as_str().to_owned()),
                    ..Facts::default()
                });
            }
            Transition::Silence(quiet) => self.silence(view, &quiet),
            Transition::Renamed { from, to } => {
                let detail = format!("was called {from}, is called {to}");
                self.event(view.id, None, at, Kind::Renamed, detail);
            }
            Transition::Overdue { grounds } => {
                self.event(view.id, None, at, Kind::Overdue, grounds.to_string());
                self.resting_on(grounds_of(&grounds));
            }
            Transition::TuningAnswered {
                session,
                revision,
                refusal,
                took,
            } => {
                self.answered(view.id, session, revision, refusal, took, at);
            }
            Transition::Refused {
                fence,
                address,
                because,
            } => {
                let detail = format!("session {fence} from {address} was refused: {because}");
                self.event(view.id, None, at, Kind::SessionRefused, detail);
            }
            Transition::Coalesced { count, since } => {
                let detail = format!("{count} changes since {since} were only counted");
                self.event(view.id, None, at, Kind::HistoryIncomplete, detail);
            }
        }
    }

    fn open(
        &mut self,
        agent_id: Uuid,
        session_id: Uuid,
        instance_id: Option<Uuid>,
        fence: Fence,
        address: String,
        at: OffsetDateTime,
    ) {
        self.batch.opened.push(Opened {
            session_id,
            agent_id,
            server_id: self.run.server_id,
            run_id: self.run.run_id,
            instance_id,
            fence,
            address,
            at,
        });
    }

    fn closed(
        &mut self,
        session: &Arc<Session>,
        reason: CloseReason,
        detail: &str,
        at: OffsetDateTime,
    ) {
        let agent_id = session.agent.id;
        let (rollup, open) = self.beats.closed(session, self.bucket);
        if open {
            let (fence, address) = (session.fence, session.address.clone());
            self.open(
                agent_id,
                session.id,
                None,
                fence,
                address,
                session.opened_wall,
            );
        }
        self.batch.beats.extend(rollup);
        self.batch.closed.push(Closed {
            session_id: session.id,
            at,
            reason,
            detail: detail.to_owned(),
            beats: session.totals().beats,
        });
        let kind = Kind::SessionClosed(reason);
        self.event(agent_id, Some(session.id), at, kind, detail.to_owned());
    }

    fn silence(&mut self, view: &AgentView, quiet: &Quiet) {
        self.batch.silences.push(Silence {
            began: quiet.began,
            session_id: quiet.session,
            agent_id: view.id,
            group: view.facts.group.clone(),
            gap_ns: nanos(quiet.gap),
            interval_ns: nanos(quiet.tuning.interval()),
            timeout_ns: nanos(quiet.tuning.timeout()),
            lateness_ns: quiet.lateness.map(nanos),
            ended: match quiet.ended {
                Quieted::Heard => Ended::Heard,
                Quieted::Returned => Ended::Returned,
                Quieted::Died => Ended::Died,
                Quieted::Open => Ended::Open,
            },
        });
    }

    fn answered(
        &mut self,
        agent_id: Uuid,
        session_id: Uuid,
        revision: u64,
        refusal: String,
        took: Duration,
        at: OffsetDateTime,
    ) {
        let refused = !refusal.is_empty();
        if refused || took > LATE {
            self.batch.answers.push(Answer {
                revision,
                agent_id,
                session_id,
                outcome: if refused {
                    Outcome::Refused
                } else {
                    Outcome::Late
                },
                reason: refusal.clone(),
                at,
                took_ns: Some(nanos(took)),
            });
        }
        let (kind, detail) = if refused {
            (Kind::TuningRefused(revision), refusal)
        } else {
            (
                Kind::TuningAcked(revision),
                format!("applied after {took:?}"),
            )
        };
        self.event(agent_id, Some(session_id), at, kind, detail);
    }

    fn event(
        &mut self,
        agent_id: Uuid,
        session_id: Option<Uuid>,
        at: OffsetDateTime,
        kind: Kind,
        detail: String,
    ) {
        self.batch.events.push(Happened {
            at,
            agent_id,
            session_id,
            server_id: self.run.server_id,
            kind,
            detail,
            facts: None,
        });
    }

    /// What the last event rests on.
    fn resting_on(&mut self, facts: Facts) {
        if let Some(event) = self.batch.events.last_mut() {
            event.facts = Some(facts);
        }
    }
}

fn grounds_of(grounds: &Grounds) -> Facts {
    Facts {
        grounds: Some(grounds.into()),
        ..Facts::default()
    }
}

/// The session whose end may be among the transitions that found no room. It gets a row with its
/// end, should that come yet: a row that nobody ends would count as live for ever.
fn ends_untold(entries: &[Entry]) -> Option<Uuid> {
    let mut open = None;
    for entry in entries {
        match &entry.what {
            Transition::SessionOpened { session, .. } => open = Some(*session),
            Transition::SessionClosed { session, .. } if open == Some(session.id) => open = None,
            Transition::Coalesced { .. } => return open,
            Transition::SessionClosed { .. }
            | Transition::Verdict { .. }
            | Transition::Condition { .. }
            | Transition::CauseSettled { .. }
            | Transition::Silence(_)
            | Transition::Renamed { .. }
            | Transition::Overdue { .. }
            | Transition::TuningAnswered { .. }
            | Transition::Refused { .. } => {}
        }
    }
    None
}

fn identity(
    view: &AgentView,
    fence: Fence,
    instance_id: Option<Uuid>,
    seen_at: OffsetDateTime,
) -> Identity {
    let facts = &view.facts;
    Identity {
        agent_id: view.id,
        name: facts.name.clone(),
        group: facts.group.clone(),
        labels: facts.labels.clone(),
        agent_version: facts.agent_version.clone(),
        boot_id: facts.boot_id.clone(),
        instance_id,
        address: facts.address.clone(),
        fence,
        seen_at,
    }
}

/// Every list in the order of its key, so that two writers never wait for each other in a circle;
/// where a key repeats, the later row stands. Events keep their order: across agents by time.
pub(super) fn sorted(mut batch: Batch) -> Batch {
    batch.identities.sort_by_key(|row| row.agent_id);
    batch.opened.sort_by_key(|row| row.session_id);
    batch.closed.sort_by_key(|row| row.session_id);
    batch.causes.sort_by_key(|row| row.session_id);
    batch.states.sort_by_key(|row| row.agent_id);
    batch.events.sort_by_key(|row| row.at);
    batch
        .answers
        .sort_by_key(|row| (row.revision, row.agent_id));
    batch.answers.reverse();
    batch
        .answers
        .dedup_by_key(|row| (row.revision, row.agent_id));
    batch.answers.reverse();
    // Of a silence that was open and ended the end holds.
    batch.silences.reverse();
    batch
        .silences
        .sort_by_key(|row| (row.began, row.session_id));
    batch
        .silences
        .dedup_by_key(|row| (row.began, row.session_id));
    batch
        .beats
        .sort_by_key(|row| (row.bucket, row.agent_id, row.session_id));
    batch
}

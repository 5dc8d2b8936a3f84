//! What every session has beaten since it was looked at last.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::registry::{Session, Totals};
use crate::store::metrics::{BeatRollup, Bucket};

/// Looks, at least 10 s apart, that a session whose end never came may survive.
const PATIENCE: u8 = 6;

/// What was recorded of the sessions that have not ended in the record.
#[derive(Debug, Default)]
pub(super) struct Beats {
    sessions: HashMap<Uuid, Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    /// `None` while nobody has shown it.
    session: Option<Arc<Session>>,
    totals: Totals,
    /// A row says that it opened.
    opened: bool,
    /// Looks since its agent had another session or none.
    gone: u8,
}

impl Beats {
    /// Its opening is written down; `session` when it still is its agent's.
    pub(super) fn opened(&mut self, id: Uuid, session: Option<Arc<Session>>) {
        let recorded = self.sessions.entry(id).or_default();
        recorded.opened = true;
        recorded.session = session.or(recorded.session.take());
    }

    /// The last difference of a session whose task has stopped. Tells whether its opening still has
    /// to be written down.
    pub(super) fn closed(
        &mut self,
        session: &Session,
        bucket: Bucket,
    ) -> (Option<BeatRollup>, bool) {
        let before = self.sessions.remove(&session.id).unwrap_or_default();
        (rollup(session, before.totals, bucket), !before.opened)
    }

    /// The difference of a live session.
    pub(super) fn look(&mut self, session: &Arc<Session>, bucket: Bucket) -> Option<BeatRollup> {
        let recorded = self.sessions.entry(session.id).or_default();
        recorded.gone = 0;
        recorded.session.get_or_insert_with(|| Arc::clone(session));
        let now = session.totals();
        let before = std::mem::replace(&mut recorded.totals, now);
        rollup_between(session, before, now, bucket)
    }

    /// After every live session was looked at: those that ended some looks ago without a word from
    /// their agent's journal, because it had no room.
    pub(super) fn unheard(&mut self) -> Vec<Arc<Session>> {
        let mut unheard = Vec::new();
        self.sessions.retain(|_, recorded| {
            let session = recorded.session.as_ref();
            if session.is_some_and(|session| session.ending().is_none()) {
                return true;
            }
            recorded.gone = recorded.gone.saturating_add(1);
            let due = recorded.gone > PATIENCE;
            unheard.extend(session.filter(|_| due).cloned());
            // One that was never shown has nothing to count.
            session.is_some() || !due
        });
        unheard
    }

    /// Every session that has ended without a word from a journal, however lately.
    pub(super) fn ended(&self) -> Vec<Arc<Session>> {
        let sessions = self
            .sessions
            .values()
            .filter_map(|recorded| recorded.session.clone());
        sessions
            .filter(|session| session.ending().is_some())
            .collect()
    }
}

fn rollup(session: &Session, before: Totals, bucket: Bucket) -> Option<BeatRollup> {
    rollup_between(session, before, session.totals(), bucket)
}

fn rollup_between(
    session: &Session,
    before: Totals,
    now: Totals,
    bucket: Bucket,
) -> Option<BeatRollup> {
    let delta = difference(before, now);
    if delta == Totals::default() {
        return None;
    }
    Some(BeatRollup {
        bucket,
        agent_id: session.agent.id,
        session_id: session.id,
        beats: delta.beats,
        late: delta.late,
        rtt_count: delta.rtt_count,
        rtt_sum_ns: delta.rtt_sum_ns,
        rtt_extremes_ns: session.take_rtt_extremes(),
    })
}

/// The counters only grow, and each by itself: read while a beat is counted they may be one apart.
fn difference(before: Totals, now: Totals) -> Totals {
    Totals {
        beats: now.beats.saturating_sub(before.beats),
        rtt_count: now.rtt_count.saturating_sub(before.rtt_count),
        rtt_sum_ns: now.rtt_sum_ns.saturating_sub(before.rtt_sum_ns),
        late: now.late.saturating_sub(before.late),
    }
}

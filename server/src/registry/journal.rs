use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::cause::Settled;
use fleetbeat_liveness::condition::Condition;
use fleetbeat_liveness::fence::{Fence, InstanceId};
use fleetbeat_liveness::grounds::Grounds;
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::CloseReason;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Session;

/// Transitions an agent holds for the recorder. The recorder takes them several times a second; the
/// bound matters only while it has no room itself.
const HELD: usize = 64;

/// What the recorder has to write down about one agent.
#[derive(Clone, Debug)]
pub struct Entry {
    pub at: OffsetDateTime,
    pub what: Transition,
}

/// A silence that outlasted T + W.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// Session that fell silent.
    pub session: Uuid,
    /// Receipt of the last message before it.
    pub began: OffsetDateTime,
    pub gap: Duration,
    /// What the agent had acknowledged.
    pub tuning: Tuning,
    /// How much longer the gap was here than between the agent's two sendings.
    pub lateness: Option<Duration>,
    pub ended: Quieted,
}

/// How a silence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quieted {
    /// The session spoke again.
    Heard,
    /// The same instance opened another session.
    Returned,
    /// Another instance opened one.
    Died,
    /// It is offline.
    Open,
}

/// One change of an agent's state.
#[derive(Clone, Debug)]
pub enum Transition {
    SessionOpened {
        session: Uuid,
        instance: InstanceId,
        fence: Fence,
        address: String,
    },
    /// The session's task has stopped: its totals are final.
    SessionClosed {
        session: Arc<Session>,
        reason: CloseReason,
        detail: String,
    },
    Verdict {
        from: Verdict,
        to: Verdict,
        grounds: Arc<Grounds>,
    },
    /// A condition began, or ended.
    Condition {
        condition: Condition,
        began: bool,
        detail: String,
    },
    /// The agent returned, and it is known why this session was lost.
    CauseSettled { session: Uuid, settled: Settled },
    /// The agent was silent for longer than T + W.
    Silence(Quiet),
    /// The agent goes by another name.
    Renamed { from: String, to: String },
    /// An agent that left is not back by the time it told.
    Overdue { grounds: Arc<Grounds> },
    /// `refusal` is empty when the agent applied the revision. `took` runs from push to answer.
    TuningAnswered {
        session: Uuid,
        revision: u64,
        refusal: String,
        took: Duration,
    },
    /// A Hello that was turned away.
    Refused {
        fence: Fence,
        address: String,
        because: String,
    },
    /// Stands for transitions that found no room.
    Coalesced { count: u64, since: OffsetDateTime },
}

/// The transitions of one agent, oldest first, bounded.
#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: VecDeque<Entry>,
}

impl Journal {
    /// Appends; past the bound the newest entries fold into one that counts them.
    pub(super) fn push(&mut self, at: OffsetDateTime, what: Transition) {
        if self.entries.len() < HELD {
            self.entries.push_back(Entry { at, what });
            return;
        }
        if let Some(Entry {
            at: last,
            what: Transition::Coalesced { count, .. },
        }) = self.entries.back_mut()
        {
            *count += 1;
            *last = at;
        } else if let Some(newest) = self.entries.pop_back() {
            let what = Transition::Coalesced {
                count: 2,
                since: newest.at,
            };
            self.entries.push_back(Entry { at, what });
        }
    }

    pub(super) fn take(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries).into()
    }
}

#[cfg(test)]
mod tests {
    use fleetbeat_liveness::grounds::Trigger;

    use super::*;

    #[test]
    fn past_the_bound_entries_are_counted_and_none_before_it_is_lost() {
        let mut journal = Journal::default();
        let at = |n: usize| OffsetDateTime::UNIX_EPOCH + Duration::from_secs(n as u64);
        for n in 0..HELD + 10 {
            let because = n.to_string();
            let grounds = Arc::new(Grounds::bare(Trigger::Doubt { because }));
            let (from, to) = (Verdict::Online, Verdict::Suspect);
            journal.push(at(n), Transition::Verdict { from, to, grounds });
        }
        let entries = journal.take();
        assert_eq!(entries.len(), HELD);
        assert_eq!(entries[HELD - 2].at, at(HELD - 2));
        let Entry {
            at: last,
            what: Transition::Coalesced { count, since },
        } = &entries[HELD - 1]
        else {
            panic!("the last entry counts what found no room");
        };
        assert_eq!((*count, *since, *last), (11, at(HELD - 1), at(HELD + 9)));
        assert!(journal.take().is_empty());
    }

    /// Hard case E2: what an agent holds for the recorder is small, and nothing once that took it.
    #[test]
    fn the_grounds_in_a_journal_are_small_and_its_room_is_given_back() {
        assert!(size_of::<Grounds>() <= 256, "{}", size_of::<Grounds>());
        let mut journal = Journal::default();
        let (count, since) = (2, OffsetDateTime::UNIX_EPOCH);
        journal.push(since, Transition::Coalesced { count, since });
        assert_eq!(journal.take().len(), 1);
        assert_eq!(journal.entries.capacity(), 0);
    }
}

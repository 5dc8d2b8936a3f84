//! Related symptoms told as one, and what the server could not hear.

use std::collections::VecDeque;

use parking_lot::Mutex;
use time::OffsetDateTime;
use uuid::Uuid;

/// Ended incidents that are remembered.
const REMEMBERED: usize = 200;
/// Incidents that wait for the recorder; past it the oldest that have ended are counted only.
const WAITING: usize = 1_000;

/// What an incident is about. The names are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nearly nobody is heard: verdicts are held.
    MassSilence,
    /// Much less is heard than is owed, yet too much to doubt the server.
    PartialSilence,
    /// Nearly nobody of one group is heard, while the rest is.
    GroupSilence,
    /// The whole process did not run for a while.
    ServerStalled,
    /// One lane did not run for a while.
    LaneStalled,
    /// One lane does not answer.
    LaneDeaf,
    /// The server was deaf, or gave graces for it, for over 10 % of a minute.
    VerdictsLate,
}

/// Something that happened to many, or to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    pub id: Uuid,
    pub kind: Kind,
    /// The group, or empty for the whole server.
    pub group: String,
    pub began: OffsetDateTime,
    /// `None` while it lasts.
    pub ended: Option<OffsetDateTime>,
    /// The evidence, as a sentence.
    pub because: String,
    /// How it ended, as a sentence; empty while it lasts.
    pub outcome: String,
}

/// Every incident of this run. Written by the judge, read by operators, taken by the recorder.
#[derive(Debug, Default)]
pub struct Incidents(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: Vec<Incident>,
    /// Newest last.
    ended: VecDeque<Incident>,
    /// Written down again at each change, newest last, each at most once.
    waiting: VecDeque<Incident>,
    unrecorded: u64,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::MassSilence,
        Self::PartialSilence,
        Self::GroupSilence,
        Self::ServerStalled,
        Self::LaneStalled,
        Self::LaneDeaf,
        Self::VerdictsLate,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MassSilence => "mass_silence",
            Self::PartialSilence => "partial_silence",
            Self::GroupSilence => "group_silence",
            Self::ServerStalled => "server_stalled",
            Self::LaneStalled => "lane_stalled",
            Self::LaneDeaf => "lane_deaf",
            Self::VerdictsLate => "verdicts_late",
        }
    }
}

impl Incidents {
    /// An incident begins; [`Self::end`] it by its id.
    pub fn begin(&self, kind: Kind, group: &str, at: OffsetDateTime, because: String) -> Uuid {
        let incident = Incident {
            id: Uuid::now_v7(),
            kind,
            group: group.to_owned(),
            began: at,
            ended: None,
            because,
            outcome: String::new(),
        };
        let id = incident.id;
        let mut state = self.0.lock();
        state.write_down(&incident);
        state.open.push(incident);
        id
    }

    /// It is over. Nothing happens when it is not open.
    pub fn end(&self, id: Uuid, at: OffsetDateTime, outcome: String) {
        let mut state = self.0.lock();
        let Some(place) = state.open.iter().position(|open| open.id == id) else {
            return;
        };
        let mut incident = state.open.swap_remove(place);
        incident.ended = Some(at);
        incident.outcome = outcome;
        state.write_down(&incident);
        if state.ended.len() == REMEMBERED {
            state.ended.pop_front();
        }
        state.ended.push_back(incident);
    }

    /// Those that last, oldest first.
    #[must_use]
    pub fn open(&self) -> Vec<Incident> {
        let mut open = self.0.lock().open.clone();
        open.sort_by_key(|incident| incident.began);
        open
    }

    /// Those that last and the last that have ended, newest first.
    #[must_use]
    pub fn recent(&self) -> Vec<Incident> {
        let state = self.0.lock();
        let mut recent: Vec<_> = state.open.iter().chain(&state.ended).cloned().collect();
        recent.sort_by_key(|incident| std::cmp::Reverse((incident.began, incident.id)));
        recent
    }

    /// What changed since the last call.
    pub fn take(&self) -> Vec<Incident> {
        self.0.lock().waiting.drain(..).collect()
    }

    /// Changes that found no room, since the start.
    #[must_use]
    pub fn unrecorded(&self) -> u64 {
        self.0.lock().unrecorded
    }
}

impl State {
    fn write_down(&mut self, incident: &Incident) {
        self.waiting.retain(|waiting| waiting.id != incident.id);
        if self.waiting.len() == WAITING {
            self.waiting.pop_front();
            self.unrecorded += 1;
        }
        self.waiting.push_back(incident.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    #[test]
    fn an_incident_is_open_until_it_ends_and_told_once_per_change() {
        let incidents = Incidents::default();
        let id = incidents.begin(Kind::MassSilence, "", AT, "nobody speaks".into());
        let other = incidents.begin(Kind::GroupSilence, "edge", AT, "edge is silent".into());
        assert_eq!(incidents.open().len(), 2);
        incidents.end(id, AT, "half is back".into());
        incidents.end(id, AT, "again".into());
        assert_eq!(incidents.open().first().map(|open| open.id), Some(other));
        let changed = incidents.take();
        let told: Vec<_> = changed.iter().map(|i| (i.id, i.outcome.as_str())).collect();
        assert_eq!(told, [(other, ""), (id, "half is back")]);
        assert!(incidents.take().is_empty());
        assert_eq!(incidents.recent().len(), 2);
    }

    #[test]
    fn what_waits_and_what_is_remembered_is_bounded() {
        let incidents = Incidents::default();
        for _ in 0..WAITING + 5 {
            let id = incidents.begin(Kind::LaneStalled, "", AT, String::new());
            incidents.end(id, AT, String::new());
        }
        assert_eq!(incidents.take().len(), WAITING);
        assert_eq!(incidents.unrecorded(), 5);
        assert_eq!(incidents.recent().len(), REMEMBERED);
    }
}

//! What the members of a phase show, from look to look.

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::rollout::{AgentId, Part, Shown, Standing};
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::nanos;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Course;
use crate::registry::{Agent, Presence, Registry, Toll};

/// A member that has been offline for so long has had every chance to return: longer than the longest
/// pause of an agent between two attempts.
const GONE_AFTER: Duration = Duration::from_secs(90);
/// Members looked at before other tasks of the control runtime get their turn.
const AT_ONCE: usize = 1_000;

/// The members of one phase with what each showed by the last look. Not stored: a server that starts
/// counts from what it sees first.
#[derive(Debug)]
pub(in crate::tuning) struct Frozen {
    /// The revision that the phase was pushed with.
    pub revision: u64,
    members: Vec<Member>,
    looked: Option<Duration>,
}

#[derive(Debug)]
struct Member {
    id: AgentId,
    part: Part,
    /// `None` while this server does not know it.
    known: Option<Known>,
    /// It showed a round trip in this phase.
    timed: bool,
}

#[derive(Debug)]
struct Known {
    agent: Arc<Agent>,
    toll: Toll,
    session: Option<Uuid>,
    /// Round trips of that session.
    timed: u64,
}

/// What a look came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Looked {
    /// Somebody stands otherwise than before.
    pub moved: bool,
    /// Nobody can say how so many are.
    pub unknown: usize,
    pub members: usize,
}

impl Frozen {
    /// To be made before the phase is pushed, so that nothing the push does is missed.
    pub(super) fn new(course: &Course, registry: &Registry) -> Self {
        let progress = &course.rollout.progress;
        let cohort = progress.cohort.keys().map(|id| (*id, Part::Candidate));
        let rest = course.rest.iter().map(|id| (*id, Part::Rest));
        let members = cohort.chain(rest).map(|(id, part)| Member {
            id,
            part,
            known: Known::of(registry, id),
            timed: false,
        });
        Self {
            revision: progress.revision,
            members: members.collect(),
            looked: None,
        }
    }

    /// Looks at everybody at `now` on the monotonic clock. With `counts` what they showed since the last
    /// look is added to the evidence; else it is passed over.
    pub(super) async fn look(
        &mut self,
        registry: &Registry,
        course: &mut Course,
        (now, wall): (Duration, OffsetDateTime),
        counts: bool,
    ) -> Looked {
        let since = self.looked.replace(now).unwrap_or(now);
        let elapsed = now.saturating_sub(since);
        let mut looked = Looked {
            members: self.members.len(),
            ..Looked::default()
        };
        let (mut cohort, mut rest) = (0, 0);
        for members in self.members.chunks_mut(AT_ONCE) {
            for member in members {
                let Some((presence, shown)) = member.look(registry, elapsed) else {
                    // It may be well, on another server.
                    looked.unknown += 1;
                    continue;
                };
                looked.unknown += usize::from(presence.verdict == Verdict::Unknown);
                if counts {
                    course.evidence.add(member.part, &shown);
                    member.timed |= !shown.rtt.is_empty();
                }
                match member.part {
                    Part::Candidate => cohort += u32::from(member.timed),
                    Part::Rest => rest += u32::from(member.timed),
                }
                looked.moved |=
                    member.part == Part::Candidate && stand(course, member, &presence, wall);
            }
            tokio::task::yield_now().await;
        }
        course.evidence.timed(Part::Candidate, cohort);
        course.evidence.timed(Part::Rest, rest);
        looked
    }
}

impl Member {
    fn look(&mut self, registry: &Registry, elapsed: Duration) -> Option<(Presence, Shown)> {
        if self.known.is_none() {
            self.known = Known::of(registry, self.id);
        }
        let known = self.known.as_mut()?;
        let presence = known.agent.presence();
        let toll = presence.toll;
        let mut shown = Shown {
            disconnects: toll.disconnects.saturating_sub(known.toll.disconnects),
            reconnects: toll.reconnects.saturating_sub(known.toll.reconnects),
            ..Shown::default()
        };
        known.toll = toll;
        if let Some(session) = &presence.session {
            shown.connected = elapsed;
            let timed = session.totals().rtt_count;
            let fresh = if known.session == Some(session.id) {
                timed.saturating_sub(known.timed)
            } else {
                timed
            };
            let fresh = usize::try_from(fresh).unwrap_or(usize::MAX);
            shown.rtt = session.rtt_window().newest(fresh).map(nanos).collect();
            (known.session, known.timed) = (Some(session.id), timed);
        }
        Some((presence, shown))
    }
}

impl Known {
    fn of(registry: &Registry, id: AgentId) -> Option<Self> {
        let agent = registry.get(Uuid::from_bytes(id))?;
        let presence = agent.presence();
        let session = presence.session.as_ref();
        Some(Self {
            toll: presence.toll,
            session: session.map(|session| session.id),
            timed: session.map_or(0, |session| session.totals().rtt_count),
            agent,
        })
    }
}

/// Tells the rollout where a member of its cohort stands; true when that is news. Read from what the agent
/// runs and not from the answers as they come, so that a start of the server misses none.
fn stand(course: &mut Course, member: &Member, presence: &Presence, wall: OffsetDateTime) -> bool {
    let progress = &course.rollout.progress;
    let Some(before) = progress.cohort.get(&member.id).copied() else {
        return false;
    };
    let revision = progress.revision;
    let refused = |(refused, _): &(u64, String)| *refused >= revision;
    let gone = presence.verdict == Verdict::Offline && wall - presence.since > GONE_AFTER;
    let standing = match &presence.session {
        _ if presence.verdict == Verdict::Left || gone => Standing::Left,
        Some(session) if session.refused().as_ref().is_some_and(refused) => Standing::Refused,
        Some(session) if before == Standing::Waiting && session.waiting_for().is_none() => {
            let attributes = session.agent.facts().attributes(session.agent.id);
            let wanted = course.candidate.effective(&attributes).tuning.tuning;
            match session.acknowledged() {
                Some(runs) if runs.tuning == wanted => Standing::Applied,
                Some(_) | None => Standing::Waiting,
            }
        }
        Some(_) | None => Standing::Waiting,
    };
    course.rollout.tell(&member.id, revision, standing);
    standing > before
}

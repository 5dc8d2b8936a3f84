//! What must hold, checked against what really happened. Numbers are those of the design's invariants.

mod agents;
mod endings;
mod late;
mod verdicts;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::verdict::Verdict;
use uuid::Uuid;

use crate::net::FlowId;
use crate::story::Violation;
use crate::world::World;

/// What the referee writes down about the fleet.
#[derive(Debug, Default)]
pub(crate) struct Referee {
    books: Vec<BTreeMap<usize, Book>>,
    runs: Vec<Run>,
}

/// What the present run of one server counted.
#[derive(Debug, Default)]
struct Run {
    opened: u64,
    closed: u64,
    /// Ended sessions by the word of their reason.
    by_reason: BTreeMap<&'static str, u64>,
    open: BTreeMap<Uuid, Fence>,
}

/// One agent as the present run of one server should see it.
#[derive(Debug)]
struct Book {
    verdict: Verdict,
    since: Moment,
    highest: Option<Fence>,
    /// Who spoke under the highest fence, when this run saw it.
    instance: Option<[u8; 16]>,
    seated: Option<Seat>,
    /// The session before the present one, or the last.
    last: Option<Past>,
    /// It had a session here, or an earlier run knew it.
    known: bool,
    /// D of what an earlier run knew.
    deadline: Duration,
    /// The latest time to come back that it was told last.
    turn: Option<Moment>,
}

#[derive(Debug, Clone, Copy)]
struct Seat {
    fence: Fence,
    flow: FlowId,
    opened: Moment,
}

/// A session that is over.
#[derive(Debug, Clone, Copy)]
struct Past {
    read: Moment,
    opened: Moment,
    deadline: Duration,
    /// How far back its silence makes the server look.
    look_back: Duration,
    /// The lane that ended it just then, when it was for its silence.
    convicted_on: Option<usize>,
}

impl Book {
    fn new(now: Moment) -> Self {
        Self {
            verdict: Verdict::Unknown,
            since: now,
            highest: None,
            instance: None,
            seated: None,
            last: None,
            known: false,
            deadline: Duration::ZERO,
            turn: None,
        }
    }
}

impl Referee {
    pub(crate) fn new(servers: usize) -> Self {
        Self {
            books: (0..servers).map(|_| BTreeMap::new()).collect(),
            runs: (0..servers).map(|_| Run::default()).collect(),
        }
    }

    fn book(&mut self, server: usize, agent: usize, now: Moment) -> &mut Book {
        self.books[server]
            .entry(agent)
            .or_insert_with(|| Book::new(now))
    }

    /// The process ended: a new run counts from zero and knows what was recorded.
    pub(crate) fn server_gone(&mut self, server: usize) {
        self.books[server].clear();
        self.runs[server] = Run::default();
    }

    pub(crate) fn restored(
        &mut self,
        server: usize,
        agent: usize,
        fence: Fence,
        verdict: Verdict,
        deadline: Duration,
        now: Moment,
    ) {
        let book = self.book(server, agent, now);
        if book.highest < Some(fence) {
            // Whose it was is not on record.
            (book.highest, book.instance) = (Some(fence), None);
        }
        book.known = true;
        if book.seated.is_none() && book.last.is_none() {
            book.verdict = verdict;
            book.deadline = deadline;
            book.since = now;
        }
    }
}

impl World {
    /// Writes down the first thing that may not be.
    pub(crate) fn object(
        &mut self,
        invariant: &'static str,
        host: Option<usize>,
        server: Option<usize>,
        text: impl FnOnce() -> String,
    ) {
        if self.violation.is_none() {
            let text = text();
            self.tell(host, server, || {
                format!("VIOLATION of invariant {invariant}: {text}")
            });
            self.violation = Some(Violation {
                invariant,
                text,
                at: self.now,
                host,
                server,
            });
        }
    }

    /// Until when the grace of every stop lasts that a session opened at `opened` lived through, at
    /// least and at most; `lane` leaves out the stops of other lanes.
    pub(crate) fn graces(
        &self,
        server: usize,
        lane: Option<usize>,
        opened: Moment,
    ) -> (Moment, Moment) {
        const MOST: Duration = Duration::from_mins(1);
        /// A stop shows only against the tick that it swallowed.
        const TICK: Duration = Duration::from_millis(110);
        let me = &self.servers[server];
        let slack = TICK + me.period;
        let stops = me.process.iter().flat_map(|process| &process.stops);
        let (mut least, mut most) = (Moment::ZERO, Moment::ZERO);
        // Two stops with next to nothing between them may be seen as one.
        let mut joined: HashMap<Option<usize>, (Moment, Moment)> = HashMap::new();
        for stop in stops {
            if lane.is_some() && stop.lane.is_some() && stop.lane != lane {
                continue;
            }
            let Some(ended) = stop.ended else {
                most = Moment::FAR;
                continue;
            };
            let length = ended.since(stop.began);
            let before = joined.get(&stop.lane);
            let began = before
                .filter(|(_, ended)| stop.began.since(*ended) <= slack)
                .map_or(stop.began, |(began, _)| *began);
            joined.insert(stop.lane, (began, ended));
            let seen = length.saturating_sub(slack);
            if began >= opened + slack && seen > Duration::from_secs(1) {
                least = least.max(ended + seen.min(MOST));
            }
            // Reading what waits, and looking again, takes a moment after any stop.
            let settle = Duration::from_millis(1_900);
            let longest = ended.since(began) + slack;
            most = most.max(ended + longest.min(MOST).max(settle));
        }
        (least, most)
    }
}

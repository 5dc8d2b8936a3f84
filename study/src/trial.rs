//! One agent and its server on one path until the agent dies and is found.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use fleetbeat_liveness::adaptive::Pace;
use fleetbeat_liveness::beat::Beats;
use fleetbeat_liveness::verdict::Next;
use fleetbeat_liveness::{Moment, Tuning};
use rand::RngExt as _;
use rand::rngs::StdRng;

use crate::path::{Direction, Path};
use crate::watch::{Judging, Watch};

/// What a trial showed.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) false_verdicts: u64,
    /// From death to the verdict; unset when the agent had no session when it died.
    pub(crate) found_after: Option<Duration>,
    pub(crate) messages: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Beat,
    Ping {
        sent: Moment,
        trip: Option<Duration>,
    },
    Reply,
    Acked,
    Pong {
        sent: Moment,
    },
    Check,
    Push,
    Look,
    Connect,
    Retune,
}

/// See the module. Events of an earlier session are void.
pub(crate) struct Trial<'a> {
    path: &'a Path,
    rng: StdRng,
    judging: Judging,
    tuning: Tuning,
    dies: Moment,
    retune: Option<Tuning>,
    now: Moment,
    events: BinaryHeap<Reverse<(Moment, u64, u64, Event)>>,
    order: u64,
    session: u64,
    live: bool,
    up: Direction,
    down: Direction,
    beats: Beats,
    pace: Pace,
    trip: Option<Duration>,
    beat_at: Moment,
    watch: Watch,
    outcome: Seen,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(
        path: &'a Path,
        tuning: Tuning,
        judging: Judging,
        dies: Moment,
        rng: StdRng,
    ) -> Self {
        let mut trial = Self {
            path,
            rng,
            judging,
            tuning,
            dies,
            retune: None,
            now: Moment::ZERO,
            events: BinaryHeap::new(),
            order: 0,
            session: 0,
            live: false,
            up: Direction::default(),
            down: Direction::default(),
            beats: Beats::new(tuning.interval()),
            pace: Pace::new(&tuning),
            trip: None,
            beat_at: Moment::FAR,
            watch: Watch::new(tuning, judging, Moment::ZERO),
            outcome: Seen::default(),
        };
        trial.at(path.open(Moment::ZERO), Event::Connect);
        trial
    }

    /// The server pushes `tuning` at `at`.
    pub(crate) fn retuned(mut self, at: Moment, tuning: Tuning) -> Self {
        self.retune = Some(tuning);
        self.at(at, Event::Retune);
        self
    }

    pub(crate) fn run(mut self) -> Seen {
        while let Some(Reverse((now, _, session, event))) = self.events.pop() {
            self.now = now;
            if now >= self.dies && !self.live {
                break;
            }
            if session == self.session || event == Event::Retune {
                self.happens(event);
            }
        }
        self.outcome
    }

    fn at(&mut self, at: Moment, event: Event) {
        self.order += 1;
        self.events
            .push(Reverse((at, self.order, self.session, event)));
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Connect => self.connect(),
            Event::Look => self.look(),
            Event::Retune => self.push(),
            Event::Ping { sent, trip } => {
                self.watch.heard(self.now);
                self.watch.measured(trip);
                self.send_down(Event::Pong { sent });
            }
            Event::Reply => self.watch.heard(self.now),
            Event::Acked => {
                self.watch.heard(self.now);
                self.watch.acknowledged(self.tuning);
            }
            Event::Beat | Event::Pong { .. } | Event::Check | Event::Push => self.reaches(event),
        }
    }

    /// Something is for the agent, which may not run or not live any more.
    fn reaches(&mut self, event: Event) {
        let runs = self.path.runs(self.now);
        if runs > self.now {
            if event == Event::Beat {
                self.beat_at = runs;
            }
            self.at(runs, event);
        } else if self.now < self.dies {
            self.agent_acts(event);
        }
    }

    fn agent_acts(&mut self, event: Event) {
        match event {
            Event::Beat if self.now == self.beat_at => self.beat(),
            Event::Pong { sent } => self.answered(self.now.since(sent)),
            Event::Check => {
                self.beats.message_sent(self.now, &mut self.rng);
                self.send_up(Event::Reply);
            }
            Event::Push => self.adopt(),
            // A beat that was put off or brought forward; the rest is the server's.
            Event::Beat
            | Event::Connect
            | Event::Look
            | Event::Retune
            | Event::Ping { .. }
            | Event::Reply
            | Event::Acked => {}
        }
        self.schedule_beat();
    }

    fn answered(&mut self, trip: Duration) {
        self.trip = Some(trip);
        let interval = self.pace.answered(Some(trip), Duration::ZERO, &self.tuning);
        self.beats.paced(interval, self.now, &mut self.rng);
    }

    fn connect(&mut self) {
        if self.now >= self.dies {
            return;
        }
        self.live = true;
        self.up = Direction::default();
        self.down = Direction::default();
        self.pace = Pace::new(&self.tuning);
        self.trip = None;
        self.watch = Watch::new(self.tuning, self.judging, self.now);
        self.beats = Beats::new(self.tuning.interval());
        self.beats.welcomed(self.now);
        self.schedule_beat();
        self.look();
    }

    fn schedule_beat(&mut self) {
        if self.beat_at != self.beats.due() {
            self.beat_at = self.beats.due();
            self.at(self.beat_at, Event::Beat);
        }
    }

    fn beat(&mut self) {
        self.beats.ping_sent(self.now, &mut self.rng);
        let trip = self.trip.take();
        self.send_up(Event::Ping {
            sent: self.now,
            trip,
        });
    }

    fn send_up(&mut self, event: Event) {
        self.outcome.messages += 1;
        let at = self.up.send(self.now, self.path, &mut self.rng);
        self.at(at, event);
    }

    fn send_down(&mut self, event: Event) {
        self.outcome.messages += 1;
        let at = self.down.send(self.now, self.path, &mut self.rng);
        self.at(at, event);
    }

    fn look(&mut self) {
        match self.watch.judge(self.now) {
            Next::Wait { until } => self.at(until, Event::Look),
            Next::Suspect { next } | Next::Check { next } => {
                self.send_down(Event::Check);
                self.at(next, Event::Look);
            }
            Next::Convict => self.convict(),
        }
    }

    fn convict(&mut self) {
        self.live = false;
        self.session += 1;
        if self.now >= self.dies {
            self.outcome.found_after = Some(self.now.since(self.dies));
            return;
        }
        self.outcome.false_verdicts += 1;
        let open = self.path.open(self.now);
        let spread = Duration::from_secs_f64(self.rng.random());
        let back = open + self.path.round_trip(open) * 2 + spread;
        self.at(self.path.open(back), Event::Connect);
    }

    fn push(&mut self) {
        let Some(tuning) = self.retune else { return };
        if self.live {
            self.watch.pushed(tuning);
            self.send_down(Event::Push);
        } else {
            self.tuning = tuning;
        }
    }

    fn adopt(&mut self) {
        let Some(tuning) = self.retune else { return };
        self.tuning = tuning;
        self.pace.retuned(&tuning);
        self.beats
            .retuned(tuning.interval(), self.now, &mut self.rng);
        self.beats.message_sent(self.now, &mut self.rng);
        self.send_up(Event::Acked);
    }
}

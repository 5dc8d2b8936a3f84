//! When nearly everyone falls silent.
//!
//! A server that hears less than a fifth of what its sessions owe it cannot tell their deaths from its own
//! isolation: it holds its verdicts. The hold ends when half of what was owed at its beginning arrives again,
//! or after its bound, `max(D, 30 s)`: a server that heard anybody meanwhile goes on to judge, one that heard
//! nobody says that it does not know. Small fleets, which owe too little to tell, are never held.
//!
//! What a server did not hear for a while may come as late again (see [`crate::deafness`]): whoever asks is
//! told the span of the deafness when it ends, and gives the grace for it.

use std::time::Duration;

use crate::expectation::Expectation;
use crate::hearing::{Counts, Hearing, Share};
use crate::moment::Moment;

/// Verdicts are held below this share of what is owed.
const HELD_BELOW: f64 = 0.2;
/// The hold ends from this share of what was owed at its beginning.
const ENDS_FROM: f64 = 0.5;
/// How finely a look-back is met: to 1/64.
const FINENESS: u32 = 64;
/// The shortest bound of a hold.
const BOUND_LEAST: Duration = Duration::from_secs(30);

/// What may be said of an agent whose deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Its silence is its own.
    Judge,
    /// Ask again when [`Hold::sample`] told a change.
    Wait,
    /// The server cannot show that it hears: nobody can say. Ask again when [`Hold::sample`] told a change.
    Unknown,
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// Verdicts are held from here on, at most until `until`.
    Began { evidence: Evidence, until: Moment },
    /// The first sign of hearing after nobody was heard at all, from `since` on.
    Heard { since: Moment },
    /// Half of what was owed arrives again; next to nothing did from `since` on.
    Recovered { since: Moment },
    /// The bound has passed. The server heard somebody meanwhile, so that the silence of the others is
    /// their own; or it heard nobody, and does not know.
    Passed { heard_somebody: bool },
}

/// Why verdicts are held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    pub look_back: Duration,
    /// Heard and owed in it.
    pub share: Share,
}

/// Whether verdicts of one server are held.
#[derive(Debug, Clone)]
pub struct Hold {
    hearing: Hearing,
    state: State,
    counts: Counts,
    /// When [`Counts::heard`] and [`Counts::afar`] were seen to grow last.
    heard_at: Moment,
    afar_at: Moment,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Open,
    Held(Held),
    /// Past the bound, until what is owed arrives.
    Passed(Held),
}

#[derive(Debug, Clone, Copy)]
struct Held {
    /// From when on next to nothing was heard.
    silent_since: Moment,
    look_back: Duration,
    until: Moment,
    /// At the beginning: sessions that end meanwhile go on to be missed.
    owed_per_s: f64,
    ear: Ear,
    /// What the ear had counted at the beginning.
    counted: u64,
}

/// What shows that a server hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ear {
    /// Messages from other hosts: an agent on the server's own host proves no network.
    Afar,
    /// Any message, where the whole fleet lives on the server's host.
    Any,
}

impl Hold {
    #[must_use]
    pub fn new() -> Self {
        Self {
            hearing: Hearing::new(FINENESS),
            state: State::Open,
            counts: Counts::default(),
            heard_at: Moment::ZERO,
            afar_at: Moment::ZERO,
        }
    }

    /// To be called often, before anybody is judged.
    pub fn sample(&mut self, now: Moment, counts: Counts) -> Option<Change> {
        let before = (self.heard_at, self.afar_at);
        if counts.heard != self.counts.heard {
            self.heard_at = now;
        }
        if counts.afar != self.counts.afar {
            self.afar_at = now;
        }
        let first = |held: &Held, old: &Counts| {
            held.ear.count(old) == held.counted && held.ear.count(&counts) != held.counted
        };
        let old = std::mem::replace(&mut self.counts, counts);
        self.hearing.sample(now, counts);
        match self.state {
            State::Held(held) | State::Passed(held) if first(&held, &old) => {
                let since = match held.ear {
                    Ear::Afar => before.1,
                    Ear::Any => before.0,
                };
                // A few that go on to speak leave gaps of their own.
                let gap = now.since(since);
                let deaf = gap >= held.look_back / 2 || self.is_passed();
                deaf.then_some(Change::Heard { since })
            }
            State::Held(held) | State::Passed(held) if self.recovered(&held) && self.holds() => {
                self.state = State::Open;
                Some(Change::Recovered {
                    since: held.silent_since,
                })
            }
            State::Held(held) if now >= held.until => {
                self.state = State::Passed(held);
                let heard_somebody = self.heard_since(&held);
                Some(Change::Passed { heard_somebody })
            }
            State::Passed(held) if self.heard_since(&held) && !self.silent(held.look_back) => {
                self.state = State::Open;
                None
            }
            State::Open | State::Held(_) | State::Passed(_) => None,
        }
    }

    /// Whether an agent that was last heard at `heard`, longer ago than D, may be judged. The first of many
    /// that may not begins the hold.
    pub fn ask(
        &mut self,
        now: Moment,
        heard: Moment,
        expectation: &Expectation,
    ) -> (Leave, Option<Change>) {
        match &self.state {
            State::Held(_) => (Leave::Wait, None),
            State::Passed(held) if !self.heard_since(held) => (Leave::Unknown, None),
            State::Passed(_) => (Leave::Judge, None),
            State::Open if !self.silent(expectation.look_back) => (Leave::Judge, None),
            State::Open => {
                let change = self.begin(now, heard, expectation);
                (Leave::Wait, Some(change))
            }
        }
    }

    /// Verdicts are held, or nobody can say.
    #[must_use]
    pub fn holds(&self) -> bool {
        match &self.state {
            State::Open => false,
            State::Held(_) => true,
            State::Passed(held) => !self.heard_since(held),
        }
    }

    /// Those that may not be judged have to wait, see [`Leave::Wait`].
    #[must_use]
    pub fn waits(&self) -> bool {
        matches!(self.state, State::Held(_))
    }

    fn is_passed(&self) -> bool {
        matches!(self.state, State::Passed(_))
    }

    fn begin(&mut self, now: Moment, heard: Moment, expectation: &Expectation) -> Change {
        let look_back = expectation.look_back;
        let share = self.hearing.over(look_back);
        let until = now + bound(expectation);
        let ear = if self.counts.owed_afar_per_s > 0.0 {
            Ear::Afar
        } else {
            Ear::Any
        };
        let silent_since = if share.heard < 1.0 {
            self.heard_at
        } else {
            heard
        };
        self.state = State::Held(Held {
            silent_since,
            look_back,
            until,
            owed_per_s: self.counts.owed_per_s,
            ear,
            counted: ear.count(&self.counts),
        });
        let evidence = Evidence { look_back, share };
        Change::Began { evidence, until }
    }

    /// Somebody was heard since the hold began.
    fn heard_since(&self, held: &Held) -> bool {
        held.ear.count(&self.counts) != held.counted
    }

    fn silent(&self, look_back: Duration) -> bool {
        self.hearing.over(look_back).is_below(HELD_BELOW)
    }

    fn recovered(&self, held: &Held) -> bool {
        let owed = held.owed_per_s * held.look_back.as_secs_f64();
        self.hearing.over(held.look_back).heard >= owed * ENDS_FROM
    }
}

impl Ear {
    fn count(self, counts: &Counts) -> u64 {
        match self {
            Self::Afar => counts.afar,
            Self::Any => counts.heard,
        }
    }
}

impl Default for Hold {
    fn default() -> Self {
        Self::new()
    }
}

/// `max(D, 30 s)`.
fn bound(expectation: &Expectation) -> Duration {
    expectation.offline_after.max(BOUND_LEAST)
}

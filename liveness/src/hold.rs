//! When nearly everyone falls silent.
//!
//! A server that hears less than a fifth of what its sessions owe it cannot tell their deaths from its own
//! isolation: it holds its verdicts. The hold ends when half of what was owed at its beginning arrives again,
//! or after its bound, `max(D, 30 s)`: a server that heard anybody at all meanwhile goes on to judge, one that
//! heard nobody says that it does not know. Small fleets, which owe too little to tell, are never held.
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
/// Fewer owed messages prove nothing.
const OWED_LEAST: f64 = 20.0;
/// How finely a look-back is met: to 1/64.
const FINENESS: u32 = 64;
/// The shortest bound of a hold.
const BOUND_LEAST: Duration = Duration::from_secs(30);

/// What may be said of an agent whose deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Its silence is its own.
    Judge,
    /// Ask again when [`Hold::sample`] told a change, or at `until`.
    Wait { until: Moment },
    /// The server cannot show that it hears: nobody can say.
    Unknown,
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// Verdicts are held from here on, at most until `until`.
    Began { evidence: Evidence, until: Moment },
    /// The first sign of hearing after nobody was heard at all, from `since` on.
    Heard { since: Moment },
    /// Half of what was owed arrives again; nothing was missed by more than what was silent from `since` on.
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
    /// From when on next to nothing was heard, at the latest.
    silent_since: Moment,
    look_back: Duration,
    until: Moment,
    /// At the beginning: sessions that end meanwhile go on to be missed.
    owed_per_s: f64,
    /// [`Counts::afar`] at the beginning.
    afar: u64,
    /// Nobody was heard at all when it began, nor since.
    deaf: bool,
}

impl Hold {
    #[must_use]
    pub fn new() -> Self {
        Self {
            hearing: Hearing::new(FINENESS),
            state: State::Open,
            counts: Counts::default(),
        }
    }

    /// To be called often, before anybody is judged.
    pub fn sample(&mut self, now: Moment, counts: Counts) -> Option<Change> {
        self.hearing.sample(now, counts);
        self.counts = counts;
        match &mut self.state {
            State::Open => None,
            State::Held(held) | State::Passed(held) if held.deaf && counts.afar > held.afar => {
                held.deaf = false;
                Some(Change::Heard {
                    since: held.silent_since,
                })
            }
            State::Held(held) => {
                let held = *held;
                if self.recovered(&held) {
                    self.state = State::Open;
                    Some(Change::Recovered {
                        since: held.silent_since,
                    })
                } else if now >= held.until {
                    self.state = State::Passed(held);
                    Some(Change::Passed {
                        heard_somebody: !held.deaf,
                    })
                } else {
                    None
                }
            }
            State::Passed(held) => {
                let Held {
                    deaf, look_back, ..
                } = *held;
                // A deaf server is owed nothing once the kernel has given up its sessions.
                if !deaf && !self.silent(look_back) {
                    self.state = State::Open;
                }
                None
            }
        }
    }

    /// Whether an agent that is silent for longer than D may be judged. The first of many that may not
    /// begins the hold.
    pub fn ask(&mut self, now: Moment, expectation: &Expectation) -> (Leave, Option<Change>) {
        match &self.state {
            State::Held(held) => (Leave::Wait { until: held.until }, None),
            State::Passed(held) if held.deaf => (Leave::Unknown, None),
            State::Passed(_) => (Leave::Judge, None),
            State::Open if !self.silent(expectation.look_back) => (Leave::Judge, None),
            State::Open => {
                let change = self.begin(now, expectation);
                let until = now + bound(expectation);
                (Leave::Wait { until }, Some(change))
            }
        }
    }

    /// Verdicts are held, or nobody can say.
    #[must_use]
    pub fn holds(&self) -> bool {
        match &self.state {
            State::Open => false,
            State::Held(_) => true,
            State::Passed(held) => held.deaf,
        }
    }

    /// Those that may not be judged have to wait, see [`Leave::Wait`].
    #[must_use]
    pub fn waits(&self) -> bool {
        matches!(self.state, State::Held(_))
    }

    fn begin(&mut self, now: Moment, expectation: &Expectation) -> Change {
        let look_back = expectation.look_back;
        let share = self.hearing.over(look_back);
        let until = now + bound(expectation);
        self.state = State::Held(Held {
            silent_since: now.before(look_back),
            look_back,
            until,
            owed_per_s: self.counts.owed_per_s,
            afar: self.counts.afar,
            deaf: share.afar < 1.0,
        });
        let evidence = Evidence { look_back, share };
        Change::Began { evidence, until }
    }

    fn silent(&self, look_back: Duration) -> bool {
        let share = self.hearing.over(look_back);
        share.owed >= OWED_LEAST && share.heard < share.owed * HELD_BELOW
    }

    fn recovered(&self, held: &Held) -> bool {
        let owed = held.owed_per_s * held.look_back.as_secs_f64();
        self.hearing.over(held.look_back).heard >= owed * ENDS_FROM
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

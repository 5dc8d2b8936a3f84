//! A path as TCP shows it: in order, with retransmissions that back off, and with spells in which it is
//! slow, cut, or its host does not run.

use std::time::Duration;

use fleetbeat_liveness::Moment;
use rand::{Rng, RngExt as _};

use crate::draw::{LogNormal, exponential};

/// Linux never retransmits sooner than this after the round trip.
const RTO_LEAST: Duration = Duration::from_millis(200);
const RTO_MOST: Duration = Duration::from_mins(2);

/// How a kind of path behaves. Times are drawn anew for each agent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    /// One way.
    pub(crate) delay: LogNormal,
    /// Share of segments that are lost.
    pub(crate) loss: f64,
    pub(crate) slow: Option<Slow>,
    /// Nothing passes.
    pub(crate) cut: Option<Spells>,
    /// The agent's host does not run; its kernel neither.
    pub(crate) pause: Option<Spells>,
}

/// Spells that begin at random, this far apart on average.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spells {
    pub(crate) every: Duration,
    pub(crate) lasts: LogNormal,
    pub(crate) most: Duration,
}

/// While it lasts, delay and loss are these.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slow {
    pub(crate) spells: Spells,
    pub(crate) delay: LogNormal,
    pub(crate) loss: f64,
}

/// One path with its spells laid out.
#[derive(Debug)]
pub(crate) struct Path {
    profile: Profile,
    slow: Vec<(Moment, Moment)>,
    cut: Vec<(Moment, Moment)>,
    pause: Vec<(Moment, Moment)>,
}

impl Path {
    pub(crate) fn lay(profile: Profile, until: Moment, rng: &mut impl Rng) -> Self {
        Self {
            profile,
            slow: lay(profile.slow.map(|slow| slow.spells), until, rng),
            cut: lay(profile.cut, until, rng),
            pause: lay(profile.pause, until, rng),
        }
    }

    /// `now`, or when the host runs again.
    pub(crate) fn runs(&self, now: Moment) -> Moment {
        within(&self.pause, now).unwrap_or(now)
    }

    /// When something could be sent and would arrive.
    pub(crate) fn open(&self, now: Moment) -> Moment {
        let mut at = now;
        while let Some(end) = self.blocked(at) {
            at = end;
        }
        at
    }

    fn blocked(&self, at: Moment) -> Option<Moment> {
        within(&self.cut, at).or_else(|| within(&self.pause, at))
    }

    fn delay(&self, at: Moment, rng: &mut impl Rng) -> Duration {
        match self
            .profile
            .slow
            .filter(|_| within(&self.slow, at).is_some())
        {
            Some(slow) => slow.delay.draw(rng),
            None => self.profile.delay.draw(rng),
        }
    }

    fn lost(&self, at: Moment, rng: &mut impl Rng) -> bool {
        let slow = self
            .profile
            .slow
            .filter(|_| within(&self.slow, at).is_some());
        let loss = slow.map_or(self.profile.loss, |slow| slow.loss);
        self.blocked(at).is_some() || rng.random_bool(loss)
    }

    /// A round trip of two median delays, now.
    pub(crate) fn round_trip(&self, at: Moment) -> Duration {
        let slow = self
            .profile
            .slow
            .filter(|_| within(&self.slow, at).is_some());
        slow.map_or(self.profile.delay, |slow| slow.delay).median() * 2
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    /// When everything that was sent so far has arrived.
    clear: Moment,
}

impl Direction {
    /// When what is sent at `now` arrives: not before what was sent earlier. Behind a segment that is
    /// being retransmitted it travels with that one.
    pub(crate) fn send(&mut self, now: Moment, path: &Path, rng: &mut impl Rng) -> Moment {
        let stuck = self.clear > now;
        let mut sent = now;
        let mut rto = RTO_LEAST + path.round_trip(now);
        while !stuck && path.lost(sent, rng) {
            sent = sent + rto;
            rto = (rto * 2).min(RTO_MOST);
        }
        self.clear = self.clear.max(sent + path.delay(sent, rng));
        self.clear
    }
}

fn lay(spells: Option<Spells>, until: Moment, rng: &mut impl Rng) -> Vec<(Moment, Moment)> {
    let mut laid = Vec::new();
    let Some(spells) = spells else { return laid };
    let mut at = Moment::ZERO;
    loop {
        at = at + exponential(spells.every, rng);
        if at >= until {
            return laid;
        }
        let end = at + spells.lasts.draw(rng).min(spells.most);
        laid.push((at, end));
        at = end;
    }
}

/// The end of the spell that holds at `at`.
fn within(spells: &[(Moment, Moment)], at: Moment) -> Option<Moment> {
    let next = spells.partition_point(|(from, _)| *from <= at);
    let (_, end) = spells[..next].last()?;
    (at < *end).then_some(*end)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn cut(from: u64, to: u64) -> Path {
        let profile = Profile {
            name: "cut",
            delay: LogNormal::new(10.0, 0.0),
            loss: 0.0,
            slow: None,
            cut: None,
            pause: None,
        };
        let mut path = Path::lay(profile, at(100), &mut StdRng::seed_from_u64(1));
        path.cut = vec![(at(from), at(to))];
        path
    }

    /// Hard case A2: the next byte comes late by up to as long as the path was away.
    #[test]
    fn a_cut_path_delivers_after_it_healed_by_backed_off_retransmission() {
        let mut rng = StdRng::seed_from_u64(1);
        let path = cut(10, 40);
        let mut up = Direction::default();
        assert_eq!(
            up.send(at(5), &path, &mut rng).since(at(5)),
            Duration::from_millis(10)
        );
        let first = up.send(at(12), &path, &mut rng);
        assert!(first > at(40) && first <= at(70), "{first:?}");
        let behind = up.send(at(20), &path, &mut rng);
        assert_eq!(behind, first, "in order, and together with the first");
    }

    #[test]
    fn spells_follow_each_other_and_nothing_is_sent_inside() {
        let path = cut(10, 40);
        assert_eq!(path.open(at(9)), at(9));
        assert_eq!(path.open(at(10)), at(40));
        assert_eq!(path.open(at(40)), at(40));
        assert_eq!(
            path.runs(at(20)),
            at(20),
            "the host runs, only its path is cut"
        );
    }
}

//! Whether a candidate does harm, and when nobody can say.
//!
//! Counts of the members on the candidate are compared with those on the last good revision over the
//! same time by the conditional test of two Poisson rates (Przyborowski and Wilenski 1940): of all
//! events, those of the candidate are binomial with its share of the member-hours. A site that fails for
//! both sides alike does not disturb it, because the sides are drawn by hash. The p99 of round trips is
//! compared through exact bounds by rank, with a *member* as one draw: a slow host sends many slow
//! samples that are no evidence of their own. Acknowledgements have nothing to compare with (the rest was
//! asked nothing), so they are held against an allowed share.

use std::time::Duration;

use super::Standing;
use crate::histogram;
use crate::odds::{binomial_at_least, binomial_critical, poisson_at_least, poisson_at_most};

/// Chance with which harm must be found for a phase to count as judged.
const POWER: f64 = 0.8;
const P99: f64 = 0.99;

/// What one side showed since the phase began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Side {
    pub members: u32,
    pub member_hours: f64,
    /// Endings that were not planned.
    pub disconnects: u32,
    pub reconnects: u32,
    /// Round trips in the buckets of [`crate::histogram`].
    pub rtt: Vec<u64>,
}

/// What the candidate is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// Members on the last good revision over the same time.
    Rest,
    /// The same members before the rollout, because nobody is left on the last good revision: what
    /// else changed since then is told as the candidate's doing.
    Before,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    pub candidate: Side,
    pub old: Side,
    pub against: Against,
}

/// Limits of one kind of event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// The candidate's rate over the old one's that is no harm, at least 1.
    pub tolerated: f64,
    /// The ratio that must be found, for a phase without it to count as judged.
    pub harm: f64,
    /// Events per member-hour that are never tolerated.
    pub limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guards {
    /// Chance that a harmless rollout is halted, over all phases, looks and guards.
    pub false_halts: f64,
    pub disconnects: Rate,
    pub reconnects: Rate,
    /// The candidate's p99 over the old one's that is no harm, at least 1.
    pub rtt_tolerated: f64,
    /// The p99 that is never tolerated.
    pub rtt_limit: Duration,
    /// Allowed share of refusing members.
    pub refused: f64,
    /// Allowed share of members that left or did not acknowledge within `ack_within`.
    pub unacked: f64,
    pub ack_within: Duration,
}

impl Default for Guards {
    fn default() -> Self {
        let rate = Rate {
            tolerated: 1.5,
            harm: 5.0,
            limit: 1.0,
        };
        Self {
            false_halts: 0.01,
            disconnects: rate,
            reconnects: rate,
            rtt_tolerated: 1.5,
            rtt_limit: Duration::from_secs(2),
            refused: 0.01,
            unacked: 0.05,
            ack_within: Duration::from_secs(30),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    Disconnects,
    Reconnects,
    Rtt,
    Refusals,
    Unacked,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    Fine,
    /// Beyond the old side by more than is tolerated. Rates per member-hour, p99 in seconds.
    Worse {
        candidate: f64,
        old: f64,
    },
    /// Beyond the absolute limit. Rates per member-hour, p99 in seconds, shares of the cohort.
    OverLimit {
        candidate: f64,
        limit: f64,
    },
    /// Neither harm nor its absence shows.
    TooLittle(Need),
}

/// What would do for an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Need {
    /// Hours of members on the candidate, without any event.
    MemberHours(f64),
    /// Members on each side.
    Members(u32),
    /// Members of the cohort, all of which acknowledge.
    Cohort(u32),
    /// The bound for acknowledgements has not passed.
    Time,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finding {
    pub guard: Guard,
    pub answer: Answer,
    pub against: Against,
}

impl Finding {
    #[must_use]
    pub fn is_bad(&self) -> bool {
        matches!(self.answer, Answer::Worse { .. } | Answer::OverLimit { .. })
    }

    #[must_use]
    pub fn is_little(&self) -> bool {
        matches!(self.answer, Answer::TooLittle(_))
    }
}

impl Guards {
    /// Tests per look: two rates and the round trip against the old side and against a limit, and two
    /// shares.
    pub const TESTS: f64 = 8.0;

    pub(super) fn are_sound(&self) -> bool {
        let share = |share: f64| share > 0.0 && share < 1.0;
        let rate = |rate: Rate| {
            rate.tolerated >= 1.0
                && rate.harm > rate.tolerated
                && rate.harm.is_finite()
                && rate.limit > 0.0
                && rate.limit.is_finite()
        };
        share(self.false_halts)
            && share(self.refused)
            && share(self.unacked)
            && rate(self.disconnects)
            && rate(self.reconnects)
            && self.rtt_tolerated >= 1.0
            && self.rtt_tolerated.is_finite()
            && !self.rtt_limit.is_zero()
    }

    /// One finding per guard, each wrong about a harmless candidate with a chance of at most `alpha` per
    /// test.
    #[must_use]
    pub fn judge(
        &self,
        cohort: impl Iterator<Item = Standing>,
        ack_bound_passed: bool,
        evidence: &Evidence,
        alpha: f64,
    ) -> Vec<Finding> {
        let Evidence { candidate, old, .. } = evidence;
        let acks = Acks::of(cohort);
        let unacked = if ack_bound_passed {
            share(acks.missing, acks.all, self.unacked, alpha)
        } else {
            Answer::TooLittle(Need::Time)
        };
        let disconnects = |side: &Side| (side.disconnects, side.member_hours);
        let reconnects = |side: &Side| (side.reconnects, side.member_hours);
        [
            (
                Guard::Disconnects,
                self.disconnects
                    .judge(disconnects(candidate), disconnects(old), alpha),
            ),
            (
                Guard::Reconnects,
                self.reconnects
                    .judge(reconnects(candidate), reconnects(old), alpha),
            ),
            (Guard::Rtt, self.rtt(candidate, old, alpha)),
            (
                Guard::Refusals,
                share(acks.refused, acks.all, self.refused, alpha),
            ),
            (Guard::Unacked, unacked),
        ]
        .map(|(guard, answer)| Finding {
            guard,
            answer,
            against: evidence.against,
        })
        .to_vec()
    }

    fn rtt(&self, candidate: &Side, old: &Side, alpha: f64) -> Answer {
        // Each side takes half of the chance.
        let (least, most) = (
            p99_at_least(candidate, alpha / 2.0),
            p99_at_most(old, alpha / 2.0),
        );
        let limit = self.rtt_limit.as_secs_f64();
        if let Some(least) = least.filter(|least| *least > limit) {
            return Answer::OverLimit {
                candidate: least,
                limit,
            };
        }
        match (least, most) {
            (Some(least), Some(most)) if least > most * self.rtt_tolerated => Answer::Worse {
                candidate: least,
                old: most,
            },
            (Some(_), Some(_)) if p99_at_most(candidate, alpha / 2.0).is_some() => Answer::Fine,
            _ => Answer::TooLittle(Need::Members(tries(P99, alpha / 2.0))),
        }
    }
}

impl Rate {
    fn judge(&self, candidate: (u32, f64), old: (u32, f64), alpha: f64) -> Answer {
        let ((events, hours), (old_events, old_hours)) = (candidate, old);
        if hours > 0.0 && poisson_at_least(events, self.limit * hours) <= alpha {
            return Answer::OverLimit {
                candidate: f64::from(events) / hours,
                limit: self.limit,
            };
        }
        let all = events.saturating_add(old_events);
        let share = |ratio: f64| ratio * hours / (ratio * hours + old_hours);
        let comparable = hours > 0.0 && old_hours > 0.0;
        if comparable && binomial_at_least(events, all, share(self.tolerated)) <= alpha {
            return Answer::Worse {
                candidate: f64::from(events) / hours,
                old: f64::from(old_events) / old_hours,
            };
        }
        let would_show = || {
            let critical = binomial_critical(all, share(self.tolerated), alpha);
            binomial_at_least(critical, all, share(self.harm)) >= POWER
        };
        let below_limit = poisson_at_most(events, self.limit * hours) <= alpha;
        if below_limit || comparable && would_show() {
            return Answer::Fine;
        }
        Answer::TooLittle(Need::MemberHours(-alpha.ln() / self.limit))
    }
}

/// What a cohort answered.
#[derive(Default)]
struct Acks {
    all: u32,
    refused: u32,
    missing: u32,
}

impl Acks {
    fn of(cohort: impl Iterator<Item = Standing>) -> Self {
        cohort.fold(Self::default(), |mut acks, standing| {
            acks.all += 1;
            match standing {
                Standing::Applied => {}
                Standing::Refused => acks.refused += 1,
                Standing::Waiting | Standing::Left => acks.missing += 1,
            }
            acks
        })
    }
}

/// Whether `some` of `all` are more than the allowed share.
fn share(some: u32, all: u32, allowed: f64, alpha: f64) -> Answer {
    let at_least = binomial_at_least(some, all, allowed);
    if at_least <= alpha {
        return Answer::OverLimit {
            candidate: f64::from(some) / f64::from(all.max(1)),
            limit: allowed,
        };
    }
    // Too few for half of the cohort to be told from the allowed share.
    if all == 0 || binomial_at_least(all.div_ceil(2), all, allowed) > alpha {
        let enough = |n: &u32| binomial_at_least(n.div_ceil(2), *n, allowed) <= alpha;
        let members = (1..=1_000).find(enough).unwrap_or(1_000);
        return Answer::TooLittle(Need::Cohort(members));
    }
    Answer::Fine
}

/// Seconds that the true p99 is below with a chance of at most `alpha`.
fn p99_at_least(side: &Side, alpha: f64) -> Option<f64> {
    let draws = draws(side);
    // The r-th smallest is above the true p99 when fewer than r draws are below it.
    let rank = draws.checked_sub(binomial_critical(draws, 1.0 - P99, alpha).checked_sub(1)?)?;
    at_rank(side, rank, draws)
}

/// Seconds that the true p99 is above with a chance of at most `alpha`; `None` with too few members.
fn p99_at_most(side: &Side, alpha: f64) -> Option<f64> {
    let draws = draws(side);
    let rank = binomial_critical(draws, P99, alpha);
    (rank <= draws).then(|| at_rank(side, rank, draws))?
}

fn at_rank(side: &Side, rank: u32, draws: u32) -> Option<f64> {
    if rank == 0 {
        return None;
    }
    let quantile = f64::from(rank) / f64::from(draws);
    histogram::quantile(&side.rtt, quantile).map(|ns| Duration::from_nanos(ns).as_secs_f64())
}

fn draws(side: &Side) -> u32 {
    let samples: u64 = side.rtt.iter().fold(0, |sum, n| sum.saturating_add(*n));
    side.members.min(u32::try_from(samples).unwrap_or(u32::MAX))
}

/// How many draws it takes until one beyond the quantile is missing with a chance of at most `alpha`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive and far below the bound: alpha is above 1e-9"
)]
fn tries(quantile: f64, alpha: f64) -> u32 {
    (alpha.ln() / quantile.ln()).ceil() as u32
}

//! How far one push has come. Pure: every session to which it goes ends in exactly one of the counts.

use std::collections::HashMap;
use std::time::Duration;

use fleetbeat_liveness::histogram;
use fleetbeat_proto::nanos;
use uuid::Uuid;

/// Refusals that are kept word by word.
const REFUSALS: usize = 20;

/// The push of one revision. `T` is whatever the caller keeps of a target.
#[derive(Debug)]
pub(super) struct Progress<T> {
    revision: u64,
    waiting: HashMap<Uuid, T>,
    /// Every target is known.
    sealed: bool,
    targets: u64,
    applied: u64,
    refused: u64,
    lost: u64,
    superseded: u64,
    took: Box<[u64; histogram::BUCKETS]>,
    longest: Option<Duration>,
    refusals: Vec<Refusal>,
}

/// An agent that keeps what it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub agent_id: Uuid,
    pub agent_name: String,
    /// What the agent said.
    pub reason: String,
}

/// How one target ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Applied {
        took: Duration,
    },
    Refused(Refusal),
    /// The session ended before it answered.
    Lost,
    /// A newer revision was pushed before it answered.
    Superseded,
}

/// The counts of a push at one moment; `targets` is the sum of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub revision: u64,
    pub targets: u64,
    pub applied: u64,
    pub refused: u64,
    pub lost: u64,
    pub superseded: u64,
    pub waiting: u64,
    /// Of those that wait: not acknowledged in time.
    pub overdue: u64,
    /// Time from push to answer over those applied; `None` while there are none.
    pub ack_p50_ns: Option<u64>,
    pub ack_p99_ns: Option<u64>,
    pub ack_max_ns: Option<u64>,
    /// The first 20.
    pub refusals: Vec<Refusal>,
    /// Nothing will change any more.
    pub done: bool,
}

impl<T> Progress<T> {
    pub(super) fn new(revision: u64) -> Self {
        Self {
            revision,
            waiting: HashMap::new(),
            sealed: false,
            targets: 0,
            applied: 0,
            refused: 0,
            lost: 0,
            superseded: 0,
            took: Box::new([0; histogram::BUCKETS]),
            longest: None,
            refusals: Vec::new(),
        }
    }

    /// `session` is about to be sent the revision.
    pub(super) fn expect(&mut self, session: Uuid, target: T) {
        if self.waiting.insert(session, target).is_none() {
            self.targets += 1;
        }
    }

    /// `session` was not sent the revision after all.
    pub(super) fn withdraw(&mut self, session: Uuid) {
        if self.waiting.remove(&session).is_some() {
            self.targets -= 1;
        }
    }

    /// No further target comes.
    pub(super) fn seal(&mut self) {
        self.sealed = true;
    }

    /// Counts how a target ended; false when it is none, or has ended before.
    pub(super) fn settle(&mut self, session: Uuid, outcome: Outcome) -> bool {
        if self.waiting.remove(&session).is_none() {
            return false;
        }
        match outcome {
            Outcome::Applied { took } => {
                self.applied += 1;
                self.took[histogram::bucket(nanos(took))] += 1;
                self.longest = self.longest.max(Some(took));
            }
            Outcome::Refused(refusal) => {
                self.refused += 1;
                if self.refusals.len() < REFUSALS {
                    self.refusals.push(refusal);
                }
            }
            Outcome::Lost => self.lost += 1,
            Outcome::Superseded => self.superseded += 1,
        }
        true
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Targets that have not ended.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&Uuid, &T)> {
        self.waiting.iter()
    }

    pub(super) fn is_done(&self) -> bool {
        self.sealed && self.waiting.is_empty()
    }

    /// `late` once the time to acknowledge is over.
    pub(super) fn tally(&self, late: bool) -> Tally {
        let waiting = u64::try_from(self.waiting.len()).unwrap_or(u64::MAX);
        // A bucket may end above the longest time that is in it.
        let quantile = |of| {
            let told = histogram::quantile(&self.took[..], of)?;
            Some(told.min(nanos(self.longest?)))
        };
        Tally {
            revision: self.revision,
            targets: self.targets,
            applied: self.applied,
            refused: self.refused,
            lost: self.lost,
            superseded: self.superseded,
            waiting,
            overdue: if late { waiting } else { 0 },
            ack_p50_ns: quantile(0.5),
            ack_p99_ns: quantile(0.99),
            ack_max_ns: self.longest.map(nanos),
            refusals: self.refusals.clone(),
            done: self.is_done(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(n: u128) -> Outcome {
        let reason = "too fast".to_owned();
        Outcome::Refused(Refusal {
            agent_id: Uuid::from_u128(n),
            agent_name: n.to_string(),
            reason,
        })
    }

    #[test]
    fn push_without_targets_is_done_once_sealed() {
        let mut progress = Progress::<()>::new(7);
        assert!(!progress.tally(false).done);
        progress.seal();
        assert_eq!(
            progress.tally(false),
            Tally {
                revision: 7,
                done: true,
                ..Tally::default()
            }
        );
    }

    #[test]
    fn answer_before_the_last_target_does_not_end_the_push() {
        let mut progress = Progress::new(7);
        progress.expect(Uuid::from_u128(1), ());
        progress.settle(Uuid::from_u128(1), Outcome::Lost);
        assert!(!progress.tally(false).done);
        progress.expect(Uuid::from_u128(2), ());
        progress.seal();
        assert!(!progress.tally(false).done);
        progress.withdraw(Uuid::from_u128(2));
        assert!(progress.tally(false).done);
        assert_eq!(progress.tally(false).targets, 1);
    }

    #[test]
    fn who_has_not_acknowledged_in_time_is_overdue_until_it_does() {
        let mut progress = Progress::new(7);
        for n in 1..=2 {
            progress.expect(Uuid::from_u128(n), ());
        }
        progress.seal();
        let counts = |progress: &Progress<()>, late| {
            let tally = progress.tally(late);
            (tally.waiting, tally.overdue, tally.done)
        };
        assert_eq!(counts(&progress, false), (2, 0, false));
        assert_eq!(counts(&progress, true), (2, 2, false));
        let took = Duration::from_mins(1);
        progress.settle(Uuid::from_u128(1), Outcome::Applied { took });
        assert_eq!(counts(&progress, true), (1, 1, false));
        assert_eq!(progress.tally(true).applied, 1);
    }

    #[test]
    fn at_most_twenty_refusals_are_told() {
        let mut progress = Progress::new(7);
        for n in 0..30 {
            progress.expect(Uuid::from_u128(n), ());
            progress.settle(Uuid::from_u128(n), refusal(n));
        }
        let tally = progress.tally(false);
        assert_eq!((tally.refused, tally.refusals.len()), (30, 20));
        assert_eq!(tally.refusals[0].agent_name, "0");
    }

    #[test]
    fn percentiles_and_the_longest_are_of_those_applied() {
        let mut progress = Progress::new(7);
        for n in 1..=100 {
            let session = Uuid::from_u128(n);
            let took = Duration::from_millis(u64::try_from(n).unwrap());
            progress.expect(session, ());
            progress.settle(session, Outcome::Applied { took });
        }
        progress.expect(Uuid::from_u128(101), ());
        progress.settle(Uuid::from_u128(101), Outcome::Lost);
        let tally = progress.tally(false);
        let near = |ns: Option<u64>, ms: u64| {
            let ns = ns.unwrap();
            ns.abs_diff(ms * 1_000_000) < ms * 40_000
        };
        assert!(near(tally.ack_p50_ns, 50), "{tally:?}");
        assert!(near(tally.ack_p99_ns, 99), "{tally:?}");
        assert_eq!(tally.ack_max_ns, Some(100_000_000));
    }

    #[test]
    fn no_percentile_exceeds_the_longest() {
        for micros in (1_000..2_000).step_by(7) {
            let mut progress = Progress::new(7);
            progress.expect(Uuid::from_u128(1), ());
            let took = Duration::from_micros(micros);
            progress.settle(Uuid::from_u128(1), Outcome::Applied { took });
            let tally = progress.tally(false);
            assert!(tally.ack_p99_ns <= tally.ack_max_ns, "{tally:?}");
        }
    }

    proptest! {
        /// Whatever comes in whatever order, twice or never sent: each target is counted once.
        #[test]
        fn counts_always_add_up(steps in prop::collection::vec((0_u128..8, 0_u8..6), 0..60)) {
            let mut progress = Progress::new(7);
            for (n, step) in steps {
                let session = Uuid::from_u128(n);
                match step {
                    0 => progress.expect(session, ()),
                    1 => progress.withdraw(session),
                    2 => { progress.settle(session, Outcome::Applied { took: Duration::ZERO }); }
                    3 => { progress.settle(session, refusal(n)); }
                    4 => { progress.settle(session, Outcome::Lost); }
                    _ => { progress.settle(session, Outcome::Superseded); }
                }
                let t = progress.tally(false);
                prop_assert_eq!(t.targets, t.applied + t.refused + t.lost + t.superseded + t.waiting);
                prop_assert_eq!(usize::try_from(t.waiting).unwrap(), progress.waiting().count());
            }
        }
    }
}

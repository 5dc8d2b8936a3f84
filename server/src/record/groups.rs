//! What every group has counted since it was looked at last.

use std::collections::BTreeMap;

use fleetbeat_liveness::histogram;
use fleetbeat_proto::v1::CloseReason;
use uuid::Uuid;

use crate::registry::{GroupMeter, Meters};
use crate::store::metrics::{Bucket, GroupRollup, RttHistogram};

const REASONS: usize = 12;

/// Totals of one group over all lanes; they only grow.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Totals {
    beats: u64,
    opened: u64,
    /// From reason 1 on.
    closed: [u64; REASONS],
    rtt: Box<[u64; histogram::BUCKETS]>,
}

/// The totals that are recorded already.
#[derive(Debug, Default)]
pub(super) struct Groups {
    recorded: BTreeMap<String, Totals>,
}

impl Groups {
    /// The differences of one bucket. A group that was silent and has no session gets no row.
    pub(super) fn look(
        &mut self,
        meters: &Meters,
        server_id: Uuid,
        bucket: Bucket,
    ) -> (Vec<GroupRollup>, Vec<RttHistogram>) {
        self.advance(read(meters), server_id, bucket)
    }

    fn advance(
        &mut self,
        now: BTreeMap<String, Totals>,
        server_id: Uuid,
        bucket: Bucket,
    ) -> (Vec<GroupRollup>, Vec<RttHistogram>) {
        let (mut rollups, mut histograms) = (Vec::new(), Vec::new());
        for (group, totals) in &now {
            let before = self.recorded.get(group);
            let delta = before.map_or_else(|| totals.clone(), |before| totals.since(before));
            if delta != Totals::default() || totals.sessions() > 0 {
                rollups.push(GroupRollup {
                    bucket,
                    server_id,
                    group: group.clone(),
                    sessions: totals.sessions(),
                    beats: delta.beats,
                    opened: delta.opened,
                    closed: delta.closed,
                });
            }
            if let Some((first_bucket, counts)) = trimmed(&delta.rtt[..]) {
                histograms.push(RttHistogram {
                    bucket,
                    server_id,
                    group: group.clone(),
                    first_bucket,
                    counts,
                });
            }
        }
        self.recorded = now;
        (rollups, histograms)
    }
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            beats: 0,
            opened: 0,
            closed: [0; REASONS],
            rtt: Box::new([0; histogram::BUCKETS]),
        }
    }
}

impl Totals {
    fn add(&mut self, meter: &GroupMeter) {
        self.beats += meter.beats();
        // Ends first: a session that opens and ends in between must not be missing among the live.
        for (code, closed) in (1..).zip(&mut self.closed) {
            let reason = CloseReason::try_from(code).unwrap_or(CloseReason::Unspecified);
            *closed += meter.sessions_closed(reason);
        }
        self.opened += meter.sessions_opened();
        meter.add_rtt(&mut self.rtt);
    }

    fn sessions(&self) -> u64 {
        self.opened.saturating_sub(self.closed.iter().sum())
    }

    fn since(&self, before: &Self) -> Self {
        let mut delta = self.clone();
        delta.beats = delta.beats.saturating_sub(before.beats);
        delta.opened = delta.opened.saturating_sub(before.opened);
        subtract(&mut delta.closed, &before.closed);
        subtract(&mut delta.rtt[..], &before.rtt[..]);
        delta
    }
}

fn subtract(from: &mut [u64], what: &[u64]) {
    for (from, what) in from.iter_mut().zip(what) {
        *from = from.saturating_sub(*what);
    }
}

fn read(meters: &Meters) -> BTreeMap<String, Totals> {
    let mut groups: BTreeMap<String, Totals> = BTreeMap::new();
    for meter in meters.all() {
        groups
            .entry(meter.group().to_owned())
            .or_default()
            .add(&meter);
    }
    groups
}

/// Counts without the empty ends, and where they begin; `None` when all are empty.
fn trimmed(counts: &[u64]) -> Option<(u32, Vec<u64>)> {
    let first = counts.iter().position(|count| *count > 0)?;
    let last = counts.iter().rposition(|count| *count > 0)?;
    Some((u32::try_from(first).ok()?, counts[first..=last].to_vec()))
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    fn bucket() -> Bucket {
        Bucket {
            start: OffsetDateTime::UNIX_EPOCH,
            seconds: 10,
        }
    }

    fn totals(beats: u64, opened: u64, superseded: u64, rtt: &[(usize, u64)]) -> Totals {
        let mut totals = Totals {
            beats,
            opened,
            ..Totals::default()
        };
        totals.closed[4] = superseded;
        for (bucket, count) in rtt {
            totals.rtt[*bucket] = *count;
        }
        totals
    }

    fn of(totals: Totals) -> BTreeMap<String, Totals> {
        BTreeMap::from([("web".to_owned(), totals)])
    }

    #[test]
    fn each_look_yields_what_was_counted_since_the_one_before() {
        let mut groups = Groups::default();
        let first = of(totals(10, 3, 1, &[(5, 2), (8, 1)]));
        let (rollups, histograms) = groups.advance(first, Uuid::nil(), bucket());
        assert_eq!((rollups[0].sessions, rollups[0].beats), (2, 10));
        assert_eq!(rollups[0].closed[4], 1);
        assert_eq!(histograms[0].first_bucket, 5);
        assert_eq!(histograms[0].counts, [2, 0, 0, 1]);
        let second = of(totals(15, 3, 1, &[(5, 2), (8, 4)]));
        let (rollups, histograms) = groups.advance(second, Uuid::nil(), bucket());
        assert_eq!((rollups[0].sessions, rollups[0].beats), (2, 5));
        assert_eq!(rollups[0].closed, [0; REASONS]);
        assert_eq!(histograms[0].first_bucket, 8);
        assert_eq!(histograms[0].counts, [3]);
    }

    #[test]
    fn a_group_without_sessions_and_news_has_no_row() {
        let mut groups = Groups::default();
        let gone = of(totals(10, 1, 1, &[]));
        let (rollups, _) = groups.advance(gone.clone(), Uuid::nil(), bucket());
        assert_eq!(rollups.len(), 1);
        let (rollups, histograms) = groups.advance(gone, Uuid::nil(), bucket());
        assert!(rollups.is_empty() && histograms.is_empty());
    }
}

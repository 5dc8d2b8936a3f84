use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fleetbeat_liveness::histogram;
use fleetbeat_proto::nanos;
use fleetbeat_proto::v1::CloseReason;
use parking_lot::Mutex;

use super::owed::Owed;

/// Groups that have a meter of their own; the rest share [`OTHER`].
const GROUPS: usize = 1_000;
/// Name under which groups past the bound are counted.
const OTHER: &str = "other";
/// One more than the highest [`CloseReason`].
const REASONS: usize = CloseReason::ServerLost as usize + 1;

/// Counters of one group on one lane. They only grow, so that a reader takes differences and a
/// missed reading loses resolution, never facts.
#[derive(Debug)]
pub struct GroupMeter {
    group: String,
    beats: AtomicU64,
    owed: Owed,
    opened: AtomicU64,
    reopened: AtomicU64,
    closed: [AtomicU64; REASONS],
    rtt: Box<[AtomicU64; histogram::BUCKETS]>,
}

impl GroupMeter {
    fn new(group: &str) -> Self {
        Self {
            group: group.to_owned(),
            beats: AtomicU64::new(0),
            owed: Owed::default(),
            opened: AtomicU64::new(0),
            reopened: AtomicU64::new(0),
            closed: std::array::from_fn(|_| AtomicU64::new(0)),
            rtt: Box::new(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    pub(super) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn rtt(&self, rtt: Duration) {
        self.rtt[histogram::bucket(nanos(rtt))].fetch_add(1, Ordering::Relaxed);
    }

    /// `again` when the agent had a session before, on this server or as Postgres remembers.
    pub(super) fn opened(&self, again: bool) {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.reopened.fetch_add(u64::from(again), Ordering::Relaxed);
    }

    pub(super) fn closed(&self, reason: CloseReason) {
        self.closed[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// What is owed by the sessions of this group on this lane.
    #[must_use]
    pub fn owed(&self) -> &Owed {
        &self.owed
    }

    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    #[must_use]
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn sessions_opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Those of them whose agent came back.
    #[must_use]
    pub fn sessions_reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    /// Sessions ended with `reason`.
    #[must_use]
    pub fn sessions_closed(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize].load(Ordering::Relaxed)
    }

    /// Adds the round trips of each log-linear bucket to `counts`.
    pub fn add_rtt(&self, counts: &mut [u64; histogram::BUCKETS]) {
        for (sum, bucket) in counts.iter_mut().zip(self.rtt.iter()) {
            *sum += bucket.load(Ordering::Relaxed);
        }
    }
}

/// The meters of every lane and group.
#[derive(Debug)]
pub struct Meters {
    lanes: Vec<Mutex<HashMap<String, Arc<GroupMeter>>>>,
}

impl Meters {
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            lanes: (0..lanes.max(1)).map(|_| Mutex::default()).collect(),
        }
    }

    pub(super) fn meter(&self, lane: usize, group: &str) -> Arc<GroupMeter> {
        let mut meters = self.lanes[lane].lock();
        let known = meters.len() < GROUPS || meters.contains_key(group);
        let name = if known { group } else { OTHER };
        if let Some(meter) = meters.get(name) {
            return Arc::clone(meter);
        }
        let meter = Arc::new(GroupMeter::new(name));
        meters.insert(name.to_owned(), Arc::clone(&meter));
        meter
    }

    /// Every meter, one per lane and group.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<GroupMeter>> {
        let all = self
            .lanes
            .iter()
            .flat_map(|lane| lane.lock().values().cloned().collect::<Vec<_>>());
        all.collect()
    }
}

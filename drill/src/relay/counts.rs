use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use super::arrivals::Arrivals;
use super::faults::Way;

/// What a relay did.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Connections taken.
    pub accepted: u64,
    /// Flows that are open, forgotten ones included.
    pub open: u64,
    /// Connections that found nobody behind the relay.
    pub unreachable: u64,
    /// Bytes handed on from the client's side.
    pub bytes_up: u64,
    /// Bytes handed on to the client's side.
    pub bytes_down: u64,
    /// Flows ended by a reset of the relay's own.
    pub resets: u64,
    /// Flows ended in order by the relay.
    pub closes: u64,
    /// Flows forgotten without a word.
    pub forgotten: u64,
    /// Flows that were cut or forgotten for being idle; also counted above.
    pub idle: u64,
    /// Bytes of forgotten flows.
    pub swallowed: u64,
    /// Ends of a peer that were not handed on at once.
    pub ends_held: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) arrivals: Arrivals,
    accepted: AtomicU64,
    open: AtomicU64,
    pub(super) unreachable: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    pub(super) resets: AtomicU64,
    pub(super) closes: AtomicU64,
    pub(super) forgotten: AtomicU64,
    pub(super) idle: AtomicU64,
    pub(super) swallowed: AtomicU64,
    pub(super) ends_held: AtomicU64,
}

/// Counts one flow as open for as long as it lives.
pub(super) struct Open<'a>(&'a Counts);

impl Counts {
    pub(super) fn accepted(&self) {
        self.arrivals.note();
        self.accepted.fetch_add(1, Relaxed);
    }

    pub(super) fn open(&self) -> Open<'_> {
        self.open.fetch_add(1, Relaxed);
        Open(self)
    }

    pub(super) fn passed(&self, way: Way, bytes: usize) {
        let counter = match way {
            Way::Up => &self.bytes_up,
            Way::Down => &self.bytes_down,
        };
        counter.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn read(&self) -> Tally {
        Tally {
            accepted: self.accepted.load(Relaxed),
            open: self.open.load(Relaxed),
            unreachable: self.unreachable.load(Relaxed),
            bytes_up: self.bytes_up.load(Relaxed),
            bytes_down: self.bytes_down.load(Relaxed),
            resets: self.resets.load(Relaxed),
            closes: self.closes.load(Relaxed),
            forgotten: self.forgotten.load(Relaxed),
            idle: self.idle.load(Relaxed),
            swallowed: self.swallowed.load(Relaxed),
            ends_held: self.ends_held.load(Relaxed),
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

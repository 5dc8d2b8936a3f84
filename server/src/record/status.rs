use std::time::Duration;

use fleetbeat_liveness::moment::Moment;
use parking_lot::Mutex;

use super::queue::Queue;
use crate::clock::Clock;

/// Whether Postgres takes what is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    Writing,
    /// Records wait in memory; [`Status::detail`] says why.
    #[default]
    Waiting,
}

/// How recording stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub state: State,
    /// Why records wait; empty while they are written.
    pub detail: String,
    pub backlog_batches: u64,
    pub backlog_rows: u64,
    /// Age of the oldest record that waits.
    pub backlog_age: Duration,
    /// No more fits into memory: what happens meanwhile is recorded with less resolution.
    pub full: bool,
    /// Since the start: rows written, rows that Postgres refused, batches that a fail-over lost.
    pub written_rows: u64,
    pub rejected_rows: u64,
    pub lost_batches: u64,
}

/// Where the recorder's tasks note how they stand.
#[derive(Debug)]
pub(super) struct Board {
    clock: Clock,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    state: State,
    detail: String,
    full: bool,
    written_rows: u64,
    rejected_rows: u64,
    lost_batches: u64,
    /// The log says that records wait.
    told: bool,
}

impl Board {
    pub(super) fn new(clock: Clock) -> Self {
        let noted = Noted {
            detail: "has not reached Postgres yet".to_owned(),
            ..Noted::default()
        };
        Self {
            clock,
            noted: Mutex::new(noted),
        }
    }

    pub(super) fn status(&self, queue: &Queue) -> Status {
        let waiting = queue.waiting();
        let noted = self.noted.lock();
        Status {
            state: noted.state,
            detail: noted.detail.clone(),
            backlog_batches: waiting.batches,
            backlog_rows: waiting.rows,
            backlog_age: self.age(waiting.oldest),
            full: noted.full,
            written_rows: noted.written_rows,
            rejected_rows: noted.rejected_rows,
            lost_batches: noted.lost_batches,
        }
    }

    fn age(&self, oldest: Option<Moment>) -> Duration {
        oldest.map_or(Duration::ZERO, |oldest| self.clock.now().since(oldest))
    }

    /// Postgres takes what is written. A change is logged.
    pub(super) fn writing(&self) {
        let mut noted = self.noted.lock();
        if noted.state != State::Writing {
            noted.state = State::Writing;
            noted.detail.clear();
            noted.told = false;
            tracing::info!("Recording to Postgres");
        }
    }

    /// Postgres does not take it. The first reason is logged; later ones only shown.
    pub(super) fn waiting(&self, detail: String) {
        let mut noted = self.noted.lock();
        noted.state = State::Waiting;
        if !std::mem::replace(&mut noted.told, true) {
            tracing::warn!(reason = detail, "Recording waits for Postgres");
        }
        noted.detail = detail;
    }

    pub(super) fn written(&self, rows: u64, rejected: u64) {
        let mut noted = self.noted.lock();
        noted.written_rows += rows;
        noted.rejected_rows += rejected;
    }

    pub(super) fn lost(&self, batches: u64) {
        self.noted.lock().lost_batches += batches;
    }

    /// Notes whether there is room; tells changes in the log.
    pub(super) fn full(&self, full: bool) {
        let mut noted = self.noted.lock();
        if noted.full != full {
            noted.full = full;
            if full {
                tracing::warn!("The recorder's memory is full; history loses resolution");
            } else {
                tracing::info!("The recorder has room again");
            }
        }
    }
}

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fleetbeat_proto::nanos;
use serde::{Deserialize, Serialize};

use crate::clock;

/// Round trips that are kept, and tunings: 10,000 agents at T = 1 s for over three minutes, in 32 MB.
const MOST: usize = 2_000_000;

/// Times of a swarm, on the machine's monotonic clock.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// Revision of each tuning that an agent was told, and when it had it, in nanoseconds.
    pub tunings: Vec<(u64, u64)>,
    /// When each PONG arrived, and the round trip without the server's hold time, in nanoseconds.
    pub round_trips: Vec<(u64, u64)>,
    /// Times that there was no room for.
    pub left_out: u64,
}

/// Collects [`Timings`]. Agents of a swarm share one thread, so nobody waits for the lock.
#[derive(Debug, Default)]
pub(super) struct Stopwatch(Mutex<Timings>);

impl Stopwatch {
    pub(super) fn tuning_arrived(&self, revision: u64) {
        self.note(|timings| &mut timings.tunings, |at| (revision, at));
    }

    pub(super) fn answered(&self, took: Duration) {
        self.note(|timings| &mut timings.round_trips, |at| (at, nanos(took)));
    }

    pub(super) fn read(&self) -> Timings {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note(
        &self,
        list: impl FnOnce(&mut Timings) -> &mut Vec<(u64, u64)>,
        entry: impl FnOnce(u64) -> (u64, u64),
    ) {
        let at = clock::machine_ns();
        let mut timings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let list = list(&mut timings);
        if list.len() < MOST {
            list.push(entry(at));
        } else {
            timings.left_out += 1;
        }
    }
}

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::clock;

/// Connections whose times are kept.
const KEPT: usize = 1_000_000;

/// When connections came.
#[derive(Debug)]
pub(super) struct Arrivals {
    origin: Instant,
    times: Mutex<Vec<Duration>>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            origin: clock::now(),
            times: Mutex::default(),
        }
    }
}

impl Arrivals {
    pub(super) fn note(&self) {
        let since = clock::now().saturating_duration_since(self.origin);
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if times.len() < KEPT {
            times.push(since);
        }
    }

    pub(super) fn read(&self) -> Vec<Duration> {
        self.times
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The most of these times, which ascend, that lie within any `window`.
#[must_use]
pub fn busiest(times: &[Duration], window: Duration) -> usize {
    let mut first = 0;
    let mut most = 0;
    for (last, time) in times.iter().enumerate() {
        while *time >= times[first] + window {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_window_may_begin_anywhere() {
        let times: Vec<_> = [0, 900, 950, 1_000, 1_899, 1_900]
            .map(Duration::from_millis)
            .to_vec();
        assert_eq!(busiest(&times, Duration::from_secs(1)), 4);
        assert_eq!(busiest(&[], Duration::from_secs(1)), 0);
    }
}

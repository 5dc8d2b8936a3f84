//! Who can no longer be confirmed alive.
//!
//! The judge runs on a thread of its own and holds a timing wheel of agents; a heartbeat never touches
//! it. When an agent's moment comes up, one that has spoken is armed again from its last message; one
//! that has not becomes suspect, or is nominated: its session's own task convicts or spares it.

mod bench;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fleetbeat_liveness::moment::Moment;
use tracing::warn;

use crate::registry::Registry;
use bench::Bench;

/// Time between the end of one pass and the next.
const PASS: Duration = Duration::from_millis(20);

/// What the judge shows of itself.
#[derive(Debug, Default)]
pub struct Pulse {
    last_pass: AtomicU64,
    watched: AtomicU64,
    nominations: AtomicU64,
}

/// The running judge.
#[derive(Debug)]
pub struct Judge {
    pulse: Arc<Pulse>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    /// When the judge ended its last pass.
    #[must_use]
    pub fn last_pass(&self) -> Moment {
        Moment::from_nanos(self.last_pass.load(Ordering::Relaxed))
    }

    /// Agents that have a deadline.
    #[must_use]
    pub fn watched(&self) -> u64 {
        self.watched.load(Ordering::Relaxed)
    }

    /// Sessions nominated for conviction since the start.
    #[must_use]
    pub fn nominations(&self) -> u64 {
        self.nominations.load(Ordering::Relaxed)
    }
}

impl Judge {
    /// Starts judging everybody in `registry`. `lane_died` is called, on the judge's thread, when a
    /// lane has not answered for 30 s: the process can no longer do its work.
    ///
    /// # Errors
    ///
    /// When the thread cannot be made.
    pub fn start(
        registry: Arc<Registry>,
        lane_died: impl FnOnce(usize) + Send + 'static,
    ) -> io::Result<Self> {
        let (pulse, stop) = (Arc::new(Pulse::default()), Arc::new(AtomicBool::new(false)));
        let (shown, stopped) = (Arc::clone(&pulse), Arc::clone(&stop));
        let run = move || run(&registry, &shown, &stopped, lane_died);
        let thread = std::thread::Builder::new()
            .name("judge".to_owned())
            .spawn(run)?;
        Ok(Self {
            pulse,
            stop,
            thread: Some(thread),
        })
    }

    #[must_use]
    pub fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// Ends the thread and waits for it.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A judge that panicked has ended the process already.
            let _ = thread.join();
        }
    }
}

fn run(registry: &Arc<Registry>, pulse: &Pulse, stop: &AtomicBool, lane_died: impl FnOnce(usize)) {
    let clock = registry.clock();
    let mut bench = Bench::new(Arc::clone(registry));
    let mut due = clock.now();
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        if let Some(length) = registry.judged_at(now, due) {
            warn!(
                stall_ms = length.as_millis(),
                "Server was stalled, verdicts are held back"
            );
            bench.stalled(now);
        }
        let pass = bench.pass(now);
        pulse
            .last_pass
            .store(clock.now().as_nanos(), Ordering::Relaxed);
        pulse.watched.store(bench.watched(), Ordering::Relaxed);
        pulse
            .nominations
            .fetch_add(pass.nominated, Ordering::Relaxed);
        if let Some(lane) = bench.dead_lane(now) {
            return lane_died(lane);
        }
        let pause = if pass.more { Duration::ZERO } else { PASS };
        // From the beginning of this pass: one that was stopped in its middle is a stall as well.
        due = now + pause;
        std::thread::sleep(pause);
    }
}

//! Who can no longer be confirmed alive.
//!
//! The judge runs on a thread of its own and holds a timing wheel of agents; a heartbeat never touches
//! it. When an agent's moment comes up, one that has spoken is armed again from its last message; one
//! that has not becomes suspect, or is nominated: its session's own task convicts or spares it.

mod bench;
mod guilt;
mod sweep;
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
use sweep::Sweep;

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

    fn passed(&self, now: Moment, bench: &Bench, nominated: u64) {
        self.last_pass.store(now.as_nanos(), Ordering::Relaxed);
        self.watched.store(bench.watched(), Ordering::Relaxed);
        self.nominations.fetch_add(nominated, Ordering::Relaxed);
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
        let run = move || run(registry, shown, &stopped, lane_died);
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

fn run(
    registry: Arc<Registry>,
    pulse: Arc<Pulse>,
    stop: &AtomicBool,
    lane_died: impl FnOnce(usize),
) {
    let mut sitting = Sitting::new(registry, pulse);
    while !stop.load(Ordering::Relaxed) {
        match sitting.pass() {
            Next::Pause(pause) => std::thread::sleep(pause),
            Next::LaneDied(lane) => return lane_died(lane),
        }
    }
}

/// The judge at work, pass by pass, without the thread that it runs on.
#[derive(Debug)]
pub struct Sitting {
    registry: Arc<Registry>,
    bench: Bench,
    sweep: Sweep,
    pulse: Arc<Pulse>,
    /// When the next pass should begin.
    due: Moment,
}

/// What to do after a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Begin the next one so much later.
    Pause(Duration),
    /// This lane has not answered for 30 s: the process can no longer do its work.
    LaneDied(usize),
}

impl Sitting {
    #[must_use]
    pub fn new(registry: Arc<Registry>, pulse: Arc<Pulse>) -> Self {
        Self {
            bench: Bench::new(Arc::clone(&registry)),
            sweep: Sweep::default(),
            due: registry.clock().now(),
            registry,
            pulse,
        }
    }

    /// Notices whether the judge was stalled, and looks at everybody who is due.
    pub fn pass(&mut self) -> Next {
        let clock = self.registry.clock();
        let now = clock.now();
        if let Some(length) = self.registry.judged_at(now, self.due) {
            warn!(
                stall_ms = length.as_millis(),
                "Server was stalled, verdicts are held back"
            );
            self.bench.stalled(now, length);
        }
        let pass = self.bench.pass(now);
        self.sweep.pass(&self.registry, now);
        self.pulse.passed(clock.now(), &self.bench, pass.nominated);
        if let Some(lane) = self.bench.dead_lane(now) {
            return Next::LaneDied(lane);
        }
        let pause = if pass.more { Duration::ZERO } else { PASS };
        // From the beginning of this pass: one that was stopped in its middle is a stall as well.
        self.due = now + pause;
        Next::Pause(pause)
    }
}

//! Readings of parts that have no page of their own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::moment::Moment;

use crate::judge::Pulse;
use crate::record;
use crate::registry::Registry;

/// Reads how recording stands, whenever asked.
#[derive(Clone)]
pub struct Recording(Arc<dyn Fn() -> record::Status + Send + Sync>);

impl Recording {
    /// `read` must not wait.
    pub fn new(read: impl Fn() -> record::Status + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    #[must_use]
    pub fn status(&self) -> record::Status {
        (self.0)()
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status().fmt(f)
    }
}

/// How the judge keeps up, and how deaf the server was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgeFigures {
    /// Time since its last pass ended.
    pub pass_age: Duration,
    /// Agents that have a deadline.
    pub watched: u64,
    /// Sessions nominated for conviction, since the start.
    pub nominations: u64,
    /// Nobody who was live before the last stall is convicted for so long.
    pub grace_left: Duration,
    /// Stalls of over 1 s of the process or of a lane, since the start, and their sum.
    pub stalls: u64,
    pub stalled: Duration,
    /// Verdicts are held for so long because nearly nobody is heard.
    pub held: Option<Duration>,
}

/// Reads the judge and what it knows of stalls.
#[must_use]
pub fn judge_figures(registry: &Registry, pulse: &Pulse) -> JudgeFigures {
    let now = registry.clock().now();
    let process = registry.deafness();
    let mut figures = JudgeFigures {
        pass_age: now.since(pulse.last_pass()),
        watched: pulse.watched(),
        nominations: pulse.nominations(),
        grace_left: Duration::ZERO,
        stalls: process.stalls(),
        stalled: process.stalled(),
        held: registry.held_since().map(|since| now.since(since)),
    };
    let mut grace = process.grace_until();
    for lane in registry.lanes() {
        let (stalls, stalled) = lane.stalls();
        figures.stalls += stalls;
        figures.stalled += stalled;
        grace = grace.max(lane.grace_for(Moment::ZERO));
    }
    figures.grace_left = grace.map_or(Duration::ZERO, |until| until.since(now));
    figures
}

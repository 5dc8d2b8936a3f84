use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use fleetbeat_proto::nanos;
use fleetbeat_proto::v1::RevisionProgress;

use super::figures::{Spread, ms, spread};
use super::report::{Round, TARGET, Trips};
use super::{MISSES, TIMEOUT};
use crate::clock;
use crate::stage::{Operator, tuning};
use crate::swarm::Timings;

const SETTLE_WITHIN: Duration = Duration::from_mins(1);

/// One change of the tuning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) name: &'static str,
    /// Everybody when unset.
    pub(super) group: Option<&'static str>,
    pub(super) from: Duration,
    pub(super) to: Duration,
}

/// A step that was played: what the server told of it, and when it was, on the machine's clock.
#[derive(Debug)]
pub(super) struct Done {
    step: Step,
    /// Live agents of whom the change speaks.
    live: u64,
    progress: RevisionProgress,
    calm_from: u64,
    called: u64,
    returned: u64,
    settled: u64,
    /// End of what counts as during the retune: everybody answered, and 2 s have passed at least.
    until: u64,
}

impl Step {
    /// Lets the fleet beat undisturbed, changes the tuning, and follows the answers to the last one.
    pub(super) async fn play(self, operator: &Operator, calm: Duration) -> Result<Done> {
        let live = self.live(operator).await?;
        let calm_from = clock::machine_ns();
        tokio::time::sleep(calm).await;
        let called = clock::machine_ns();
        let set = operator
            .retune(
                self.group,
                tuning(self.to, MISSES, TIMEOUT),
                "the benchmark retunes",
            )
            .await?;
        let returned = clock::machine_ns();
        let revision = set.revision.context("the change made no revision")?;
        let progress = operator.settled(revision, SETTLE_WITHIN).await?;
        let settled = clock::machine_ns();
        let until = settled.max(called + nanos(TARGET));
        tokio::time::sleep(Duration::from_nanos(until - settled)).await;
        Ok(Done {
            step: self,
            live,
            progress,
            calm_from,
            called,
            returned,
            settled,
            until,
        })
    }

    async fn live(self, operator: &Operator) -> Result<u64> {
        let status = operator.status().await?;
        let groups = status.groups.iter();
        let meant = groups.filter(|told| self.group.is_none_or(|group| told.group == group));
        Ok(meant
            .filter_map(|told| Some(told.verdicts.as_ref()?.online))
            .sum())
    }
}

impl Done {
    /// How it ended, for people who wait.
    pub(super) fn account(&self) -> String {
        let progress = &self.progress;
        format!(
            "{} of {} acknowledged, {} refused, {} lost, {} replaced, {} silent",
            progress.applied,
            progress.targets,
            progress.refused,
            progress.lost,
            progress.superseded,
            progress.waiting
        )
    }

    /// With what the clients saw.
    pub(super) fn with(self, timings: &[Timings]) -> Round {
        let progress = &self.progress;
        let arrived = timings.iter().flat_map(|timings| &timings.tunings);
        let arrived = arrived.filter(|(revision, _)| *revision == progress.revision);
        let trips = |from: u64, to: u64| {
            let all = timings.iter().flat_map(|timings| &timings.round_trips);
            let within = all.filter(|(at, _)| (from..to).contains(at));
            spread(within.map(|(_, took)| *took).collect())
        };
        Round {
            name: self.step.name.to_owned(),
            group: self.step.group.map(str::to_owned),
            change: self.step.to_string(),
            revision: progress.revision,
            live: self.live,
            targets: progress.targets,
            acked: progress.applied,
            refused: progress.refused,
            lost: progress.lost,
            superseded: progress.superseded,
            waiting: progress.waiting,
            call_ms: ms(self.returned - self.called),
            settled_ms: ms(self.settled - self.called),
            ack: Spread {
                count: progress.applied,
                p50_ms: progress.ack_p50_ns.map(ms),
                p99_ms: progress.ack_p99_ns.map(ms),
                max_ms: progress.ack_max_ns.map(ms),
            },
            push: spread(
                arrived
                    .map(|(_, at)| at.saturating_sub(self.called))
                    .collect(),
            ),
            round_trips: Trips::new(
                trips(self.calm_from, self.called),
                trips(self.called, self.until),
            ),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whom = self.group.unwrap_or("everybody");
        write!(f, "T {:?} → {:?} for {whom}", self.from, self.to)
    }
}

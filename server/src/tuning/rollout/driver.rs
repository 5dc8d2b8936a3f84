use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::rollout::State;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::steps::Stepped;
use super::watch::Looked;
use super::{Course, Frozen};
use crate::registry::Registry;
use crate::store::leases::{Holder, Lease};
use crate::tuning::{Desk, Failed};

/// How often members are looked at.
const PERIOD: Duration = Duration::from_secs(1);
/// Looks further apart than this did not watch what was between them.
const WATCHED_WITHIN: Duration = Duration::from_secs(3);
/// How often what was counted is stored: a crash loses no more.
const SAVED_EVERY: Duration = Duration::from_secs(2);
/// The same for who stands where, which may be many.
const MEMBERS_SAVED_EVERY: Duration = Duration::from_secs(5);
const LEASE: &str = "rollouts";
const LEASE_LENGTH: Duration = Duration::from_secs(15);

/// Takes the running rollout on, while this server holds the lease for it.
#[derive(Debug)]
pub struct Driver {
    desk: Arc<Desk>,
    holder: Holder,
    led: Option<Led>,
    driven: Option<Driven>,
    stalls: u64,
}

#[derive(Debug)]
struct Led {
    lease: Lease,
    /// When the last renewal was asked for.
    renewed: Moment,
}

#[derive(Debug)]
struct Driven {
    course: Course,
    frozen: Frozen,
    looked: Moment,
    saved: Moment,
    members_saved: Moment,
    members_moved: bool,
}

impl Driver {
    #[must_use]
    pub fn new(desk: Arc<Desk>, holder: Holder) -> Self {
        Self {
            desk,
            holder,
            led: None,
            driven: None,
            stalls: 0,
        }
    }

    /// Drives until `stop`, and then leaves the lease to others.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = ticks.tick() => {}
            }
            let ticked = tokio::select! {
                () = stop.cancelled() => break,
                ticked = self.tick() => ticked,
            };
            match &ticked {
                Ok(()) if failing => tracing::info!("Rollouts can be driven again"),
                Err(error) => {
                    // Whether the last step was written is unknown: what is stored tells.
                    self.driven = None;
                    if !failing {
                        let error = error.sentence();
                        tracing::warn!(
                            error,
                            "Rollouts cannot be driven, everybody keeps their tuning"
                        );
                    }
                }
                Ok(()) => {}
            }
            failing = ticked.is_err();
        }
        if let Some(led) = self.led {
            // Without an answer it ends by itself.
            let _ = self.desk.store.release_lease(&led.lease).await;
        }
    }

    async fn tick(&mut self) -> Result<(), Failed> {
        let deaf = self.is_deaf();
        if !self.leads().await? {
            self.driven = None;
            return Ok(());
        }
        self.load().await?;
        let (Some(led), Some(driven)) = (&self.led, &mut self.driven) else {
            return Ok(());
        };
        let stepped = driven.go_on(&self.desk, &led.lease, deaf).await?;
        if stepped == Stepped::Overtaken || !driven.course.is_running() {
            self.driven = None;
        }
        Ok(())
    }

    /// Hard case D3: acts only while its own clock says that the lease is young, whatever Postgres said.
    async fn leads(&mut self) -> Result<bool, Failed> {
        let now = self.now();
        let young = |led: &Led, now: Moment| now.since(led.renewed) < LEASE_LENGTH / 2;
        let due = |led: &Led| now.since(led.renewed) >= LEASE_LENGTH / 3;
        if self.led.as_ref().is_none_or(due) {
            let store = &self.desk.store;
            let held = store.hold_lease(LEASE, self.holder, LEASE_LENGTH).await?;
            let first = self.led.is_none();
            self.led = held.map(|lease| Led {
                lease,
                renewed: now,
            });
            if first && let Some(led) = &self.led {
                tracing::info!(lease.epoch = led.lease.epoch, "Drives rollouts");
            }
        }
        let now = self.now();
        Ok(self.led.as_ref().is_some_and(|led| young(led, now)))
    }

    /// Reads the running rollout when somebody else wrote it.
    async fn load(&mut self) -> Result<(), Failed> {
        let running = self.desk.store.running_rollout_steps().await?;
        let known = self
            .driven
            .as_ref()
            .map(|driven| (driven.course.id, driven.course.steps));
        if running == known {
            return Ok(());
        }
        let before = self.driven.take();
        let Some(mut course) = self.desk.running().await? else {
            return Ok(());
        };
        let revision = course.rollout.progress.revision;
        if let Some(mut driven) = before
            && driven.course.id == course.id
            && driven.frozen.revision == revision
        {
            // An operator's word moves the state; what was counted since the last save stays.
            course.evidence = driven.course.evidence;
            for (agent, standing) in driven.course.rollout.progress.cohort {
                course.rollout.tell(&agent, revision, standing);
            }
            driven.course = course;
            self.driven = Some(driven);
            return Ok(());
        }
        course.rollout.skip(self.desk.since_epoch());
        let now = self.now();
        let kept = self.desk.frozen.lock().take();
        let kept = kept.filter(|frozen| frozen.revision == revision);
        let frozen = kept.unwrap_or_else(|| Frozen::new(&course, &self.desk.registry));
        self.driven = Some(Driven {
            course,
            frozen,
            looked: now,
            saved: now,
            members_saved: now,
            members_moved: false,
        });
        Ok(())
    }

    /// Whether what the members show may be this server's own doing.
    fn is_deaf(&mut self) -> bool {
        let registry = &self.desk.registry;
        let now = registry.clock().now();
        let lanes = registry.lanes();
        let stalls =
            registry.deafness().stalls() + lanes.iter().map(|lane| lane.stalls().0).sum::<u64>();
        let stalled = std::mem::replace(&mut self.stalls, stalls) != stalls;
        let deaf = lanes.iter().any(|lane| lane.is_deaf() || lane.overdue(now));
        stalled || deaf || registry.held_since().is_some()
    }

    fn now(&self) -> Moment {
        self.desk.registry.clock().now()
    }
}

impl Driven {
    async fn go_on(&mut self, desk: &Desk, lease: &Lease, deaf: bool) -> Result<Stepped, Failed> {
        let registry: &Registry = &desk.registry;
        let now = registry.clock().now();
        let soaks = self.course.rollout.progress.state == State::Soaking;
        let watched = now.since(self.looked) <= WATCHED_WITHIN && !deaf;
        self.looked = now;
        let clocks = (now.since(Moment::ZERO), registry.clock().wall());
        let course = &mut self.course;
        let looked = self
            .frozen
            .look(registry, course, clocks, soaks && watched)
            .await;
        self.members_moved |= looked.moved;
        if soaks && !(watched && hears_enough(looked)) {
            course.rollout.skip(desk.since_epoch());
        } else if soaks {
            match desk.observe(course, lease).await? {
                Stepped::Quiet => {}
                Stepped::Done => {
                    self.written(now, true);
                    self.follow(desk);
                    return Ok(Stepped::Done);
                }
                Stepped::Overtaken => return Ok(Stepped::Overtaken),
            }
        }
        self.save(desk, lease, now, soaks).await
    }

    async fn save(
        &mut self,
        desk: &Desk,
        lease: &Lease,
        now: Moment,
        soaks: bool,
    ) -> Result<Stepped, Failed> {
        let due = |since: Moment, every: Duration| now.since(since) >= every;
        let members = self.members_moved && due(self.members_saved, MEMBERS_SAVED_EVERY);
        let counts = soaks && due(self.saved, SAVED_EVERY);
        if !members && !counts {
            return Ok(Stepped::Quiet);
        }
        let saved = desk.save(&mut self.course, lease, members).await?;
        self.written(now, members);
        Ok(saved)
    }

    fn written(&mut self, now: Moment, members: bool) {
        self.saved = now;
        if members {
            self.members_saved = now;
            self.members_moved = false;
        }
    }

    /// A phase that was pushed has other members.
    fn follow(&mut self, desk: &Desk) {
        let revision = self.course.rollout.progress.revision;
        let made = desk.frozen.lock().take();
        if let Some(frozen) = made.filter(|frozen| frozen.revision == revision) {
            self.frozen = frozen;
        }
    }
}

/// A server that most members have not found again since it started, or that does not know them, has seen
/// nothing.
fn hears_enough(looked: Looked) -> bool {
    looked.unknown * 2 <= looked.members
}

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::bounds::Bounds;
use fleetbeat_liveness::policy::PolicySet;
use fleetbeat_liveness::tuning::Tuning;
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::draft::Change;
use super::push::push;
use super::rollout::{Frozen, Staging};
use super::{Failed, Ledger, policies_of};
use crate::registry::Registry;
use crate::store::Store;
use crate::telemetry::{TRACED, context_of, traceparent};

/// How often revisions made by other servers and policies whose time is over are looked for.
const POLL: Duration = Duration::from_millis(500);

/// Reads and changes the policies.
#[derive(Debug)]
pub struct Desk {
    pub(super) registry: Arc<Registry>,
    pub(super) store: Store,
    pub(super) bounds: Bounds,
    ledger: Arc<Ledger>,
    pub(super) tasks: TaskTracker,
    /// Revisions come into force one after the other.
    pub(super) turn: Mutex<()>,
    /// Members of the phase that this server pushed last, until its driver takes them.
    pub(super) frozen: parking_lot::Mutex<Option<Frozen>>,
}

/// Who makes a change, and why.
#[derive(Clone, Debug)]
pub struct Author {
    /// Name of the token.
    pub name: String,
    pub role: String,
    /// Peer address.
    pub address: String,
    pub reason: String,
    /// W3C trace context of the call; empty when untraced.
    pub traceparent: String,
}

/// What a change came to.
#[derive(Clone, Debug)]
pub struct Changed {
    /// `None` when nothing was made: a dry run, or nothing to change.
    pub revision: Option<u64>,
    /// In force, or as they would be.
    pub policies: PolicySet,
    pub before: Tuning,
    pub after: Tuning,
    /// A line per policy.
    pub changes: Vec<String>,
    /// Live agents to which a value went, or would go.
    pub targets: u64,
    /// Expected heartbeats per second of the fleet, before and after.
    pub beats_per_second: (f64, f64),
    /// Limits of the fleet that it exceeds.
    pub exceeded: Vec<String>,
    /// Of a change that reaches the fleet in phases.
    pub staged: Option<StagedTo>,
}

/// Where a staged change begins, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedTo {
    /// `None` for a dry run.
    pub rollout: Option<u64>,
    /// Connected members that its first phase reaches.
    pub cohort: u64,
    /// All connected members of whom it speaks.
    pub connected: u64,
}

/// What is asked of the policies.
#[derive(Clone, Debug)]
pub enum Wish {
    Change(Change),
    /// The policies of this revision again.
    Rollback(u64),
    /// Those whose time is over go.
    Expiry,
}

/// How a wish is to be granted.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Refuse when the newest revision is another one.
    pub expected: Option<u64>,
    /// Show only.
    pub dry_run: bool,
    /// Go beyond the fleet's limits.
    pub force: bool,
    pub way: Way,
}

/// How a change reaches the fleet.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// In phases; `None` reaches everybody at once.
    pub staging: Option<Staging>,
    /// End a rollout that is on its way, and build on the policies before it.
    pub supersede: bool,
    /// Also when a rollout of the same policies was rolled back.
    pub again: bool,
}

impl Desk {
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        store: Store,
        ledger: Arc<Ledger>,
        bounds: Bounds,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        Arc::new(Self {
            registry,
            store,
            bounds,
            ledger,
            tasks,
            turn: Mutex::default(),
            frozen: parking_lot::Mutex::default(),
        })
    }

    /// The policies in force on this server.
    #[must_use]
    pub fn policies(&self) -> Arc<PolicySet> {
        self.registry.policies()
    }

    /// What no policy may exceed without force.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Makes a revision and pushes it. Once begun it goes on even when the caller gives up, because a
    /// push that stops halfway would leave agents behind for good.
    pub async fn change(
        self: &Arc<Self>,
        wish: Wish,
        author: Author,
        terms: Terms,
    ) -> Result<Changed, Failed> {
        let desk = Arc::clone(self);
        let work = self
            .tasks
            .spawn(async move { desk.grant(&wish, &author, terms).await });
        match work.await {
            Ok(done) => done,
            Err(_) => Err(Failed::Stopped),
        }
    }

    /// Reads the newest policies and brings them into force. Returns their revision.
    pub async fn refresh(&self) -> Result<u64, Failed> {
        let _turn = self.turn.lock().await;
        let newest = self.store.newest_revision_number().await?;
        if newest > self.policies().revision() {
            let policies = self.newest().await?;
            self.bring_into_force(policies, "").await;
        }
        Ok(newest)
    }

    /// Looks for revisions made elsewhere and for policies whose time is over until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let looked = tokio::select! {
                () = stop.cancelled() => return,
                looked = self.look() => looked,
            };
            match &looked {
                Ok(()) if failing => tracing::info!("Tuning policies can be read again"),
                Err(error) if !failing => {
                    let error = error.sentence();
                    tracing::warn!(error, "Tuning policies cannot be read, those in force stay");
                }
                Ok(()) | Err(_) => {}
            }
            failing = looked.is_err();
        }
    }

    async fn look(&self) -> Result<(), Failed> {
        self.refresh().await?;
        let over = self.policies().next_expiry();
        if over.is_some_and(|at| at <= self.since_epoch()) {
            self.expire().await?;
        }
        Ok(())
    }

    /// Wall time since the Unix epoch, with the microseconds that Postgres keeps.
    pub(super) fn since_epoch(&self) -> Duration {
        let micros = self.registry.clock().wall().unix_timestamp_nanos() / 1_000;
        Duration::from_micros(u64::try_from(micros).unwrap_or_default())
    }

    /// Needs the turn. Sessions that open see the policies before live ones are visited, so that
    /// none is missed in between.
    pub(super) async fn bring_into_force(&self, policies: PolicySet, parent: &str) -> u64 {
        let revision = policies.revision();
        let span = tracing::info_span!(target: TRACED, "tuning push", tuning.revision = revision, tuning.targets = Empty);
        // An untraced change stays untraced; a traced one has the push as parent of every answer.
        let traceparent = if parent.is_empty() {
            String::new()
        } else {
            // Fails only when no collector is configured.
            let _ = span.set_parent(context_of(parent));
            traceparent(&span.context())
        };
        let policies = Arc::new(policies);
        self.registry.set_policies(Arc::clone(&policies));
        let sent = push(&self.registry, &self.ledger, &policies, &traceparent)
            .instrument(span.clone())
            .await;
        span.record("tuning.targets", sent);
        tracing::info!(
            tuning.revision = revision,
            tuning.targets = sent,
            "Tuning pushed"
        );
        sent
    }

    pub(super) async fn newest(&self) -> Result<PolicySet, Failed> {
        match self.store.newest_revision().await? {
            Some(newest) => Ok(policies_of(&newest)?),
            None => Ok(PolicySet::default()),
        }
    }

    /// Policies of `revision`; 0 is the set without any.
    pub async fn stored(&self, revision: u64) -> Result<PolicySet, Failed> {
        if revision == 0 {
            return Ok(PolicySet::default());
        }
        let found = self
            .store
            .revision(revision)
            .await?
            .ok_or(Failed::NoRevision(revision))?;
        Ok(policies_of(&found)?)
    }
}

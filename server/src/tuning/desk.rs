use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::policy::PolicySet;
use fleetbeat_liveness::tuning::Tuning;
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::draft::{Change, Draft, Wrong, check_reason};
use super::push::{push, targets};
use super::{Ledger, Unreadable, stored};
use crate::registry::Registry;
use crate::store::tuning::Appended;
use crate::store::{self, Store, audit};
use crate::telemetry::{TRACED, context_of, traceparent};

/// How often revisions made by other servers are looked for.
const POLL: Duration = Duration::from_millis(500);
/// Tries when others make revisions at the same time and the caller expects none in particular.
const TRIES: u32 = 8;

/// Reads and changes the policies.
#[derive(Debug)]
pub struct Desk {
    registry: Arc<Registry>,
    store: Store,
    ledger: Arc<Ledger>,
    tasks: TaskTracker,
    /// Revisions come into force one after the other.
    turn: Mutex<()>,
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
    /// Live agents to which a value went, or would go.
    pub targets: u64,
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error(transparent)]
    Wrong(#[from] Wrong),
    #[error("revision {newest} is the newest, not {expected}")]
    MovedOn { expected: u64, newest: u64 },
    #[error("there is no revision {0}")]
    NoRevision(u64),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("the server is stopping")]
    Stopped,
}

/// What is asked of the policies.
#[derive(Clone, Debug)]
pub enum Wish {
    Change(Change),
    /// The policies of this revision again.
    Rollback(u64),
}

/// How a wish is to be granted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// Refuse when the newest revision is another one.
    pub expected: Option<u64>,
    /// Show only.
    pub dry_run: bool,
}

impl Desk {
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        store: Store,
        ledger: Arc<Ledger>,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        Arc::new(Self {
            registry,
            store,
            ledger,
            tasks,
            turn: Mutex::default(),
        })
    }

    /// The policies in force on this server.
    #[must_use]
    pub fn policies(&self) -> Arc<PolicySet> {
        self.registry.policies()
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

    /// Looks for revisions made elsewhere until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let refreshed = tokio::select! {
                () = stop.cancelled() => return,
                refreshed = self.refresh() => refreshed,
            };
            match &refreshed {
                Ok(_) if failing => tracing::info!("Tuning policies can be read again"),
                Err(error) if !failing => {
                    let error = error.sentence();
                    tracing::warn!(error, "Tuning policies cannot be read, those in force stay");
                }
                Ok(_) | Err(_) => {}
            }
            failing = refreshed.is_err();
        }
    }

    async fn grant(&self, wish: &Wish, author: &Author, terms: Terms) -> Result<Changed, Failed> {
        let _turn = self.turn.lock().await;
        let done = self.try_to_grant(wish, author, terms).await;
        if let (Err(refusal), false) = (&done, terms.dry_run) {
            self.audit_refusal(wish, author, refusal).await;
        }
        done
    }

    async fn try_to_grant(
        &self,
        wish: &Wish,
        author: &Author,
        terms: Terms,
    ) -> Result<Changed, Failed> {
        if !terms.dry_run {
            check_reason(&author.reason)?;
        }
        let mut newest = 0;
        for _ in 0..TRIES {
            let current = self.newest().await?;
            newest = current.revision();
            refuse_unexpected(terms, newest)?;
            let draft = self.draft(wish, &current).await?;
            if draft.changes_nothing() || terms.dry_run {
                let targets = targets(&self.registry, &draft.policies);
                let policies = if draft.changes_nothing() {
                    current
                } else {
                    draft.policies
                };
                let (before, after) = (draft.before, draft.after);
                return Ok(Changed {
                    revision: None,
                    policies,
                    before,
                    after,
                    targets,
                });
            }
            if let Some(changed) = self.make(wish, author, &current, draft).await? {
                return Ok(changed);
            }
            // Another server made a revision in between: decide again on top of it.
        }
        Err(Failed::MovedOn {
            expected: terms.expected.unwrap_or(newest),
            newest,
        })
    }

    async fn draft(&self, wish: &Wish, current: &PolicySet) -> Result<Draft, Failed> {
        match wish {
            Wish::Change(change) => Ok(Draft::of(current, change)?),
            Wish::Rollback(to) => Ok(Draft::rollback(current, &self.stored(*to).await?)),
        }
    }

    /// `None` when the draft's parent is no longer the newest.
    async fn make(
        &self,
        wish: &Wish,
        author: &Author,
        current: &PolicySet,
        draft: Draft,
    ) -> Result<Option<Changed>, Failed> {
        let created_at = self.registry.clock().wall();
        let stored = store::tuning::Draft {
            parent: current.revision(),
            author: author.name.clone(),
            reason: author.reason.clone(),
            created_at,
            policies: stored::write(&draft.policies),
            changes: draft.changes.clone(),
        };
        let (before, after) = match wish {
            Wish::Change(_) => (stored::tuning(draft.before), stored::tuning(draft.after)),
            Wish::Rollback(_) => (stored::write(current), stored::write(&draft.policies)),
        };
        let entry = audit::Entry {
            before: Some(before),
            after: Some(after),
            ..self.audit_entry(wish, author, "done".to_owned())
        };
        let Appended::Made(revision) = self
            .store
            .append_revision(&stored, self.registry.newest_told(), &entry)
            .await?
        else {
            return Ok(None);
        };
        let policies = draft.policies.at_revision(revision);
        for change in &draft.changes {
            tracing::info!(
                tuning.revision = revision,
                operator = %author.name,
                reason = %author.reason,
                "Tuning changed: {change}"
            );
        }
        let targets = self
            .bring_into_force(policies.clone(), &author.traceparent)
            .await;
        let (before, after) = (draft.before, draft.after);
        Ok(Some(Changed {
            revision: Some(revision),
            policies,
            before,
            after,
            targets,
        }))
    }

    /// Needs the turn. Sessions that open see the policies before live ones are visited, so that
    /// none is missed in between.
    async fn bring_into_force(&self, policies: PolicySet, parent: &str) -> u64 {
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

    async fn newest(&self) -> Result<PolicySet, Failed> {
        match self.store.newest_revision().await? {
            Some(newest) => Ok(stored::read(newest.revision, &newest.draft.policies)?),
            None => Ok(PolicySet::default()),
        }
    }

    /// Policies of `revision`; 0 is the set without any.
    async fn stored(&self, revision: u64) -> Result<PolicySet, Failed> {
        if revision == 0 {
            return Ok(PolicySet::default());
        }
        let found = self
            .store
            .revision(revision)
            .await?
            .ok_or(Failed::NoRevision(revision))?;
        Ok(stored::read(revision, &found.draft.policies)?)
    }

    fn audit_entry(&self, wish: &Wish, author: &Author, outcome: String) -> audit::Entry {
        let (action, target) = match wish {
            Wish::Change(change) => ("SetTuning", change.selector().to_string()),
            Wish::Rollback(to) => ("RollbackTuning", format!("revision {to}")),
        };
        audit::Entry {
            at: self.registry.clock().wall(),
            actor: author.name.clone(),
            role: author.role.clone(),
            address: author.address.clone(),
            action: action.to_owned(),
            target,
            outcome,
            reason: author.reason.clone(),
            revision: None,
            before: None,
            after: None,
        }
    }

    /// A refusal is worth a line in the audit, but not an error of its own.
    async fn audit_refusal(&self, wish: &Wish, author: &Author, refusal: &Failed) {
        if matches!(refusal, Failed::Store(_)) {
            return;
        }
        let entry = self.audit_entry(wish, author, refusal.to_string());
        if let Err(error) = self.store.append_audit(&entry).await {
            tracing::warn!(
                error = error.sentence(),
                "Refused call is missing from the audit"
            );
        }
    }
}

fn refuse_unexpected(terms: Terms, newest: u64) -> Result<(), Failed> {
    match terms.expected {
        Some(expected) if expected != newest => Err(Failed::MovedOn { expected, newest }),
        Some(_) | None => Ok(()),
    }
}

impl Failed {
    /// In one line, with its cause.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Store(error) => error.sentence(),
            Self::Unreadable(error) => match std::error::Error::source(error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
            Self::Wrong(_) | Self::MovedOn { .. } | Self::NoRevision(_) | Self::Stopped => {
                self.to_string()
            }
        }
    }
}

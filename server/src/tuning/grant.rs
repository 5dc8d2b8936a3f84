//! Granting a wish: from what is wanted to a revision that is in force.

use fleetbeat_liveness::policy::PolicySet;

use super::desk::{Author, Changed, Desk, Failed, Terms, Wish};
use super::draft::{Change, Draft, Which};
use super::limits::Projection;
use super::push::targets;
use super::rules::check_reason;
use super::stored;
use crate::store::tuning::Appended;
use crate::store::{self, audit};

/// Tries when others make revisions at the same time and the caller expects none in particular.
const TRIES: u32 = 8;
/// Newer revisions that a refusal tells of.
const TOLD: u32 = 10;

impl Desk {
    pub(super) async fn grant(
        &self,
        wish: &Wish,
        author: &Author,
        terms: Terms,
    ) -> Result<Changed, Failed> {
        let _turn = self.turn.lock().await;
        let done = self.try_to_grant(wish, author, terms).await;
        if let (Err(refusal), false) = (&done, terms.dry_run) {
            self.audit_refusal(wish, author, refusal).await;
        }
        done
    }

    /// Makes a revision without the policies whose time is over.
    pub(super) async fn expire(&self) -> Result<(), Failed> {
        let now = self.since_epoch();
        let over: Vec<String> = self
            .policies()
            .policies()
            .iter()
            .filter(|policy| policy.expires_at.is_some_and(|at| at <= now))
            .take(10)
            .map(|policy| policy.name.clone())
            .collect();
        let author = Author {
            name: "expiry".to_owned(),
            role: "server".to_owned(),
            address: String::new(),
            reason: format!("the time is over of {}", over.join(", ")),
            traceparent: String::new(),
        };
        // It gives back what was in force before: no limit stands in the way.
        let terms = Terms {
            force: true,
            ..Terms::default()
        };
        self.grant(&Wish::Expiry, &author, terms).await?;
        Ok(())
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
            if let Some(expected) = terms.expected.filter(|expected| *expected != newest) {
                return Err(self.moved_on(expected, newest).await);
            }
            let draft = self.draft(wish, &current).await?;
            let projection = Projection::of(&self.registry, &current, &draft.policies);
            let exceeded = projection.exceeded(&self.bounds);
            let exceeded: Vec<String> = exceeded.iter().map(ToString::to_string).collect();
            let changed = Changed {
                revision: None,
                before: draft.before,
                after: draft.after,
                changes: draft.changes.clone(),
                targets: targets(&self.registry, &draft.policies),
                beats_per_second: projection.beats_per_second(),
                exceeded,
                policies: draft.policies,
            };
            if changed.changes.is_empty() {
                let policies = current;
                return Ok(Changed {
                    policies,
                    ..changed
                });
            }
            if terms.dry_run {
                return Ok(changed);
            }
            if !changed.exceeded.is_empty() && !terms.force {
                return Err(Failed::Exceeds(changed.exceeded));
            }
            if let Some(made) = self.make(wish, author, &current, changed).await? {
                return Ok(made);
            }
            // Another server made a revision in between: decide again on top of it.
        }
        Err(self
            .moved_on(terms.expected.unwrap_or(newest), newest)
            .await)
    }

    async fn draft(&self, wish: &Wish, current: &PolicySet) -> Result<Draft, Failed> {
        let now = self.since_epoch();
        match wish {
            Wish::Change(change) => Ok(Draft::of(current, change, now)?),
            Wish::Rollback(to) => Ok(Draft::rollback(current, &self.stored(*to).await?, now)),
            Wish::Expiry => Ok(Draft::expiry(current, now)),
        }
    }

    /// `None` when the draft's parent is no longer the newest.
    async fn make(
        &self,
        wish: &Wish,
        author: &Author,
        current: &PolicySet,
        changed: Changed,
    ) -> Result<Option<Changed>, Failed> {
        let stored = store::tuning::Draft {
            parent: current.revision(),
            author: author.name.clone(),
            reason: author.reason.clone(),
            created_at: self.registry.clock().wall(),
            policies: stored::write(&changed.policies),
            changes: changed.changes.clone(),
        };
        let (before, after) = match wish {
            Wish::Change(Change::Set { .. } | Change::Unset { .. }) => (
                stored::tuning(changed.before),
                stored::tuning(changed.after),
            ),
            Wish::Change(Change::Replace { .. }) | Wish::Rollback(_) | Wish::Expiry => {
                (stored::write(current), stored.policies.clone())
            }
        };
        let outcome = match &changed.exceeded[..] {
            [] => "done".to_owned(),
            exceeded => format!("done, forced although {}", exceeded.join("; ")),
        };
        let entry = audit::Entry {
            before: Some(before),
            after: Some(after),
            ..self.audit_entry(wish, author, outcome)
        };
        let floor = self.registry.newest_told();
        let Appended::Made(revision) = self.store.append_revision(&stored, floor, &entry).await?
        else {
            return Ok(None);
        };
        let policies = changed.policies.at_revision(revision);
        for change in &changed.changes {
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
        Ok(Some(Changed {
            revision: Some(revision),
            policies,
            targets,
            ..changed
        }))
    }

    /// Tells what was changed in between, as far as Postgres can be asked.
    async fn moved_on(&self, expected: u64, newest: u64) -> Failed {
        let newer = self.store.revisions(None, TOLD).await.unwrap_or_default();
        let newer = newer
            .into_iter()
            .rev()
            .filter(|made| made.revision > expected);
        let line = |made: store::tuning::Revision| {
            let (author, reason, changes) = (
                made.draft.author,
                made.draft.reason,
                made.draft.changes.join("; "),
            );
            format!(
                "revision {} by {author} ({reason}): {changes}",
                made.revision
            )
        };
        Failed::MovedOn {
            expected,
            newest,
            since: newer.map(line).collect(),
        }
    }

    fn audit_entry(&self, wish: &Wish, author: &Author, outcome: String) -> audit::Entry {
        let which = |which: &Which| match which {
            Which::Of(selector) => selector.usual_name(),
            Which::Named(name, _) => name.clone(),
        };
        let (action, target) = match wish {
            Wish::Change(Change::Set { which: policy, .. } | Change::Unset { which: policy }) => {
                ("SetTuning", format!("policy {}", which(policy)))
            }
            Wish::Change(Change::Replace { .. }) => ("ApplyPolicies", "all policies".to_owned()),
            Wish::Rollback(to) => ("RollbackTuning", format!("revision {to}")),
            Wish::Expiry => ("ExpirePolicies", "policies whose time is over".to_owned()),
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

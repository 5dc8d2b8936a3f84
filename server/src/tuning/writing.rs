//! What is stored of a change, and of one that was refused.

use fleetbeat_liveness::policy::PolicySet;

use super::desk::{Author, Changed, Desk, Wish};
use super::draft::{Change, Which};
use super::ground::Ground;
use super::rollout::Course;
use super::{Failed, stored};
use crate::store::rollouts::{Write, Written};
use crate::store::{self, audit};

impl Desk {
    /// Stores a revision with what begins and what ends by it; yields its number and that of the rollout
    /// that began.
    pub(super) async fn write(
        &self,
        wish: &Wish,
        author: &Author,
        ground: &Ground,
        (changed, policies, begins): (&Changed, &PolicySet, Option<&Course>),
    ) -> Result<Option<(u64, Option<u64>)>, Failed> {
        let at = self.registry.clock().wall();
        let stored = store::tuning::Draft {
            parent: ground.current.revision(),
            author: author.name.clone(),
            reason: author.reason.clone(),
            created_at: at,
            policies: stored::write(policies),
            changes: changed.changes.clone(),
        };
        let (before, after) = match wish {
            Wish::Change(Change::Set { .. } | Change::Unset { .. }) => (
                stored::tuning(changed.before),
                stored::tuning(changed.after),
            ),
            Wish::Change(Change::Replace { .. }) | Wish::Rollback(_) | Wish::Expiry => {
                (stored::write(&ground.current), stored.policies.clone())
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
        let number = self.next_number(&ground.current);
        let ended = ground.end(number, author, at)?;
        let begins = begins.map(|course| (course.begun(), course.standing(true)));
        let write = Write {
            revision: Some((&stored, number - 1)),
            moved: ended
                .as_ref()
                .map(|(id, steps, standing)| (*id, *steps, standing)),
            begun: begins.as_ref().map(|(begun, standing)| (begun, standing)),
            audit: Some(&entry),
            at: Some(at),
            ..Write::default()
        };
        let Written::Done { revision, begun } = self.store.write_rollout(write).await? else {
            return Ok(None);
        };
        for change in &changed.changes {
            tracing::info!(
                tuning.revision = number,
                operator = %author.name,
                reason = %author.reason,
                "Tuning changed: {change}"
            );
        }
        Ok(revision.map(|revision| (revision, begun)))
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

    pub(super) async fn audit_refusal(&self, wish: &Wish, author: &Author, refusal: &Failed) {
        let entry = self.audit_entry(wish, author, refusal.to_string());
        self.append_refusal(&entry, refusal).await;
    }

    /// A refusal is worth a line in the audit, but not an error of its own.
    pub(super) async fn append_refusal(&self, entry: &audit::Entry, refusal: &Failed) {
        if matches!(refusal, Failed::Store(_)) {
            return;
        }
        if let Err(error) = self.store.append_audit(entry).await {
            tracing::warn!(
                error = error.sentence(),
                "Refused call is missing from the audit"
            );
        }
    }
}

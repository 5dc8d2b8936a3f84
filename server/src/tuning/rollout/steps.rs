//! Steps of a rollout: what was decided is stored with the revision that it asks for, then comes into
//! force as every revision does.

use std::time::Duration;

use fleetbeat_liveness::policy::PolicySet;
use fleetbeat_liveness::rollout::{Change, Push};
use time::OffsetDateTime;

use super::account::{action, automatic, entry};
use super::members::Affected;
use super::{Course, Frozen};
use crate::store::leases::Lease;
use crate::store::rollouts::{Write, Written};
use crate::store::{audit, tuning};
use crate::tuning::{Author, Desk, Failed, stored};

/// Whether a step was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stepped {
    /// Nothing was to be written.
    Quiet,
    Done,
    /// Somebody else wrote first: what is stored counts.
    Overtaken,
}

/// What a step is to be stored with.
pub(super) struct Step<'a> {
    pub next: Course,
    pub change: Option<Change>,
    /// Head on which the change was decided.
    pub current: PolicySet,
    pub last_good: PolicySet,
    pub author: Author,
    pub action: &'static str,
    pub lease: Option<&'a Lease>,
}

impl Desk {
    /// The phase's members are watched from here on: to be called before its push.
    pub(in crate::tuning) fn watch_from_here(&self, course: &Course) {
        *self.frozen.lock() = Some(Frozen::new(course, &self.registry));
    }

    /// Counts soak time and, when it is due, takes a look.
    pub(super) async fn observe(
        &self,
        course: &mut Course,
        lease: &Lease,
    ) -> Result<Stepped, Failed> {
        let _turn = self.turn.lock().await;
        let now = self.since_epoch();
        let evidence = course.evidence.evidence();
        if !course.rollout.is_due(now) {
            let push = Push {
                now,
                connected: &[],
                revision: 0,
            };
            course.rollout.observe(push, &evidence);
            return Ok(Stepped::Quiet);
        }
        let current = self.newest().await?;
        let last_good = self.last_good(course, now).await?;
        let mut next = course.clone();
        next.candidate = next.candidate.without_expired(now);
        let affected = Affected::of(&self.registry, &next.candidate, &last_good).await;
        let push = self.push_of(&affected, self.next_number(&current));
        let change = next.rollout.observe(push, &evidence);
        if let Some(Change::Split(_)) = change {
            next.freeze(&affected.connected);
        }
        if change.is_some() {
            next.tell(self.registry.clock().wall(), "");
        }
        let step = Step {
            author: automatic(&next, change.as_ref()),
            action: action(change.as_ref()),
            next,
            change,
            current,
            last_good,
            lease: Some(lease),
        };
        self.commit(course, step).await
    }

    /// Stores how far it came, which decides nothing.
    pub(super) async fn save(
        &self,
        course: &mut Course,
        lease: &Lease,
        members: bool,
    ) -> Result<Stepped, Failed> {
        let standing = course.standing(members);
        let write = Write {
            lease: Some(lease),
            moved: Some((course.id, course.steps, &standing)),
            at: Some(self.registry.clock().wall()),
            ..Write::default()
        };
        match self.store.write_rollout(write).await? {
            Written::Done { .. } => {
                course.steps += 1;
                Ok(Stepped::Done)
            }
            Written::Moved(_) | Written::Overtaken | Written::Deposed => Ok(Stepped::Overtaken),
        }
    }

    /// Needs the turn.
    pub(super) async fn commit(
        &self,
        course: &mut Course,
        step: Step<'_>,
    ) -> Result<Stepped, Failed> {
        let Step {
            mut next,
            change,
            current,
            last_good,
            author,
            action,
            lease,
        } = step;
        let at = self.registry.clock().wall();
        let number = self.next_number(&current);
        let policies = policies_of(change.as_ref(), &last_good, &next, number);
        if policies.is_some() {
            next.newest = number;
        }
        let draft = policies
            .as_ref()
            .map(|policies| draft(policies, &current, &author, at));
        let entry = audit::Entry {
            target: format!("rollout {}", next.id),
            ..entry(&author, action, at)
        };
        let told = change.is_some() || lease.is_none();
        let standing = next.standing(true);
        let write = Write {
            lease,
            revision: draft.as_ref().map(|draft| (draft, number - 1)),
            moved: Some((next.id, next.steps, &standing)),
            audit: told.then_some(&entry),
            at: Some(at),
            ..Write::default()
        };
        match self.store.write_rollout(write).await? {
            Written::Done { .. } => {}
            Written::Moved(_) | Written::Overtaken | Written::Deposed => {
                return Ok(Stepped::Overtaken);
            }
        }
        next.steps += 1;
        next.updated_at = at;
        *course = next;
        // A look that finds no harm is no news.
        if told {
            tracing::info!(
                rollout.id = course.id,
                operator = %author.name,
                reason = %author.reason,
                "Rollout is in {}", course.place()
            );
        }
        if let Some(policies) = policies {
            if let Some(Change::Split(_)) = change {
                self.watch_from_here(course);
            }
            self.bring_into_force(policies, &author.traceparent).await;
        }
        Ok(Stepped::Done)
    }

    /// The rollout that runs.
    pub(in crate::tuning) async fn running(&self) -> Result<Option<Course>, Failed> {
        let stored = self.store.running_rollout().await?;
        Ok(stored.as_ref().map(Course::read).transpose()?)
    }

    /// What everybody outside a rollout has and returns to, without what expired by `now`.
    pub(in crate::tuning) async fn last_good(
        &self,
        course: &Course,
        now: Duration,
    ) -> Result<PolicySet, Failed> {
        let stored = self.stored(course.rollout.plan.last_good).await?;
        Ok(stored.unstaged().without_expired(now))
    }

    /// The number that a revision made on top of `current` gets.
    pub(in crate::tuning) fn next_number(&self, current: &PolicySet) -> u64 {
        current.revision().max(self.registry.newest_told()) + 1
    }

    pub(super) fn push_of<'a>(&self, affected: &'a Affected, revision: u64) -> Push<'a> {
        Push {
            now: self.since_epoch(),
            connected: &affected.connected,
            revision,
        }
    }
}

fn policies_of(
    change: Option<&Change>,
    last_good: &PolicySet,
    next: &Course,
    number: u64,
) -> Option<PolicySet> {
    let base = last_good.at_revision(number);
    match change? {
        Change::Split(split) => Some(base.staged_to(*split, &next.candidate)),
        Change::LastGood => Some(base),
        Change::Completed | Change::Paused => None,
    }
}

fn draft(
    policies: &PolicySet,
    current: &PolicySet,
    author: &Author,
    created_at: OffsetDateTime,
) -> tuning::Draft {
    tuning::Draft {
        parent: current.revision(),
        author: author.name.clone(),
        reason: author.reason.clone(),
        created_at,
        policies: stored::write(policies),
        changes: policies.changes(current),
    }
}

//! Granting a wish: from what is wanted to a revision that is in force.

use fleetbeat_liveness::policy::PolicySet;

use super::Failed;
use super::desk::{Author, Changed, Desk, StagedTo, Terms, Wish};
use super::draft::Draft;
use super::ground::Ground;
use super::limits::Projection;
use super::push::targets;
use super::rollout::{Staging, Start, hash};
use super::rules::check_reason;
use crate::store;

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
        let dry_run = terms.dry_run;
        let done = self.try_to_grant(wish, author, &terms).await;
        if let (Err(refusal), false) = (&done, dry_run) {
            self.audit_refusal(wish, author, refusal).await;
        }
        done
    }

    /// Makes a revision without the policies whose time is over.
    pub(super) async fn expire(&self) -> Result<(), Failed> {
        let reason = expiry_reason(&self.policies().expired(self.since_epoch()));
        let author = Author {
            name: "expiry".to_owned(),
            role: "server".to_owned(),
            address: String::new(),
            reason,
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
        terms: &Terms,
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
            // Read after the head: a rollout that begins later moves the head.
            let ground = self.ground(wish, terms, current).await?;
            let changed = self.consider(wish, terms, &ground).await?;
            if changed.changes.is_empty() {
                let policies = ground.current;
                return Ok(Changed {
                    policies,
                    ..changed
                });
            }
            if !changed.exceeded.is_empty() && !terms.force && !terms.dry_run {
                return Err(Failed::Exceeds(changed.exceeded));
            }
            let made = match &terms.way.staging {
                Some(staging) if ground.differs(&changed) => {
                    let staged = (staging, terms.dry_run);
                    self.make_staged(wish, author, &ground, changed, staged)
                        .await?
                }
                Some(_) | None if terms.dry_run => Some(changed),
                Some(_) | None => self.make(wish, author, &ground, changed).await?,
            };
            if let Some(made) = made {
                return Ok(made);
            }
            // Another server made a revision in between: decide again on top of it.
        }
        Err(self
            .moved_on(terms.expected.unwrap_or(newest), newest)
            .await)
    }

    /// What the wish comes to, if it may be made.
    async fn consider(
        &self,
        wish: &Wish,
        terms: &Terms,
        ground: &Ground,
    ) -> Result<Changed, Failed> {
        let draft = self.draft(wish, &ground.base).await?;
        let projection = Projection::of(&self.registry, &ground.current, &draft.policies).await;
        let exceeded = projection.exceeded(&self.bounds);
        let changed = Changed {
            revision: None,
            before: draft.before,
            after: draft.after,
            changes: draft.policies.changes(&ground.current),
            targets: targets(&self.registry, &draft.policies),
            beats_per_second: projection.beats_per_second(),
            exceeded: exceeded.iter().map(ToString::to_string).collect(),
            policies: draft.policies,
            staged: None,
        };
        let asked = !matches!(wish, Wish::Expiry) && !terms.way.again && ground.differs(&changed);
        if asked && let Some((rollout, outcome)) = self.failed(&changed.policies).await? {
            return Err(Failed::TriedBefore { rollout, outcome });
        }
        Ok(changed)
    }

    async fn failed(&self, candidate: &PolicySet) -> Result<Option<(u64, String)>, Failed> {
        Ok(self.store.failed_rollout(&hash(candidate)).await?)
    }

    async fn draft(&self, wish: &Wish, current: &PolicySet) -> Result<Draft, Failed> {
        let now = self.since_epoch();
        match wish {
            Wish::Change(change) => Ok(Draft::of(current, change, now)?),
            Wish::Rollback(to) => Ok(Draft::rollback(current, &self.stored(*to).await?, now)),
            Wish::Expiry => Ok(Draft::expiry(current, now)),
        }
    }

    /// `None` when the ground has moved.
    async fn make(
        &self,
        wish: &Wish,
        author: &Author,
        ground: &Ground,
        changed: Changed,
    ) -> Result<Option<Changed>, Failed> {
        let made = self
            .write(wish, author, ground, (&changed, &changed.policies, None))
            .await?;
        let Some((revision, _)) = made else {
            return Ok(None);
        };
        let policies = changed.policies.at_revision(revision);
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

    /// Begins a rollout: it and the revision of its first phase are one transaction.
    async fn make_staged(
        &self,
        wish: &Wish,
        author: &Author,
        ground: &Ground,
        changed: Changed,
        (staging, dry_run): (&Staging, bool),
    ) -> Result<Option<Changed>, Failed> {
        let start = Start {
            staging,
            candidate: changed.policies.clone(),
            base: &ground.base,
            last_good: ground.last_good,
            current: &ground.current,
            author,
        };
        let (course, policies) = self.prepare(start).await?;
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let cohort = count(course.rollout.progress.cohort.len());
        let mut staged = StagedTo {
            rollout: None,
            cohort,
            connected: cohort + count(course.rest.len()),
        };
        let changed = Changed {
            changes: policies.changes(&ground.current),
            staged: Some(staged),
            ..changed
        };
        if dry_run {
            return Ok(Some(changed));
        }
        let made = self
            .write(wish, author, ground, (&changed, &policies, Some(&course)))
            .await?;
        let Some((revision, rollout)) = made else {
            return Ok(None);
        };
        staged.rollout = rollout;
        self.watch_from_here(&course);
        let targets = self
            .bring_into_force(policies.clone(), &author.traceparent)
            .await;
        Ok(Some(Changed {
            revision: Some(revision),
            policies,
            targets,
            staged: Some(staged),
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
}

/// Names the first few: a reason has a bound, and names are long.
fn expiry_reason(over: &[&str]) -> String {
    const NAMED: usize = 5;
    let named = over
        .iter()
        .take(NAMED)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match over.len().saturating_sub(NAMED) {
        0 => format!("the time is over of {named}"),
        others => format!("the time is over of {named} and {others} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_of_an_expiry_is_a_reason_however_many_policies_end() {
        assert_eq!(expiry_reason(&["hunt"]), "the time is over of hunt");
        let name = "x".repeat(63);
        let many = vec![name.as_str(); 1_001];
        let reason = expiry_reason(&many);
        assert_eq!(check_reason(&reason), Ok(()));
        assert!(reason.ends_with(" and 996 more"), "{reason}");
    }
}

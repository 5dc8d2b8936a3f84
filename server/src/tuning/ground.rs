use fleetbeat_liveness::policy::PolicySet;
use time::OffsetDateTime;

use super::Failed;
use super::desk::{Author, Changed, Desk, Terms, Wish};
use super::rollout::Course;
use crate::store;

/// On what a change is built.
pub(super) struct Ground {
    /// The head, whose number the change states.
    pub current: PolicySet,
    /// What the change is made to: the head, or what it was before the rollout that the change ends.
    pub base: PolicySet,
    /// The revision that `base` comes from.
    pub last_good: u64,
    pub ends: Option<Course>,
}

impl Ground {
    /// Whether a change is more than the end of a rollout.
    pub(super) fn differs(&self, changed: &Changed) -> bool {
        !changed.policies.changes(&self.base).is_empty()
    }

    /// The rollout that ends with revision `number`, as it is to be stored.
    pub(super) fn end(
        &self,
        number: u64,
        author: &Author,
        at: OffsetDateTime,
    ) -> Result<Option<(u64, u64, store::rollouts::Standing)>, Failed> {
        let Some(course) = &self.ends else {
            return Ok(None);
        };
        let mut course = course.clone();
        course.rollout.supersede(number)?;
        course.tell(at, &format!("({}: {})", author.name, author.reason));
        Ok(Some((course.id, course.steps, course.standing(false))))
    }
}

impl Desk {
    /// On what a change is built: the newest policies or, when it ends a rollout, those from before that.
    pub(super) async fn ground(
        &self,
        wish: &Wish,
        terms: &Terms,
        current: PolicySet,
    ) -> Result<Ground, Failed> {
        // A time that is over ends with a rollout on its way as well, on both of its sides.
        let running = match wish {
            Wish::Expiry => None,
            Wish::Change(_) | Wish::Rollback(_) => self.running().await?,
        };
        let Some(course) = running else {
            return Ok(Ground {
                base: current.clone(),
                last_good: current.revision(),
                current,
                ends: None,
            });
        };
        if !terms.way.supersede {
            return Err(Failed::Underway {
                rollout: course.id,
                place: course.place(),
            });
        }
        let base = self.last_good(&course, self.since_epoch()).await?;
        Ok(Ground {
            base: base.at_revision(current.revision()),
            last_good: course.rollout.plan.last_good,
            current,
            ends: Some(course),
        })
    }
}

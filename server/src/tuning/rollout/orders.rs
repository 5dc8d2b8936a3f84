//! What operators tell a rollout, on whichever server they do.

use std::sync::Arc;

use fleetbeat_liveness::rollout::Change;

use super::Course;
use super::account::entry;
use super::members::Affected;
use super::steps::{Step, Stepped};
use crate::store::audit;
use crate::tuning::rules::check_reason;
use crate::tuning::{Author, Desk, Failed};

/// Tries while the rollout moves at the same time.
const TRIES: u32 = 8;

/// An operator's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Pause,
    Resume,
    Abort,
}

impl Order {
    fn call(self) -> &'static str {
        match self {
            Self::Pause => "PauseRollout",
            Self::Resume => "ResumeRollout",
            Self::Abort => "AbortRollout",
        }
    }
}

impl Desk {
    /// Carries out an order on the rollout with this id, or on the one that runs. Once begun it goes on
    /// even when the caller gives up.
    pub async fn order(
        self: &Arc<Self>,
        rollout: Option<u64>,
        order: Order,
        author: Author,
    ) -> Result<Course, Failed> {
        let desk = Arc::clone(self);
        let work = self.tasks.spawn(async move {
            let done = desk.try_order(rollout, order, &author).await;
            if let Err(refusal) = &done {
                desk.audit_refused_order(rollout, order, &author, refusal)
                    .await;
            }
            done
        });
        match work.await {
            Ok(done) => done,
            Err(_) => Err(Failed::Stopped),
        }
    }

    async fn try_order(
        &self,
        rollout: Option<u64>,
        order: Order,
        author: &Author,
    ) -> Result<Course, Failed> {
        check_reason(&author.reason)?;
        let _turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let mut course = self.ordered(rollout).await?;
            let step = self.carry_out(&course, order, author).await?;
            if self.commit(&mut course, step).await? != Stepped::Overtaken {
                return Ok(course);
            }
        }
        Err(Failed::Contended)
    }

    async fn audit_refused_order(
        &self,
        rollout: Option<u64>,
        order: Order,
        author: &Author,
        refusal: &Failed,
    ) {
        let target = rollout.map_or_else(|| "no rollout".to_owned(), |id| format!("rollout {id}"));
        let entry = entry(author, order.call(), self.registry.clock().wall());
        let entry = audit::Entry {
            target,
            outcome: refusal.to_string(),
            ..entry
        };
        self.append_refusal(&entry, refusal).await;
    }

    async fn ordered(&self, rollout: Option<u64>) -> Result<Course, Failed> {
        let running = self.running().await?;
        match (running, rollout) {
            (Some(course), None) => Ok(course),
            (Some(course), Some(id)) if course.id == id => Ok(course),
            (None, None) => Err(Failed::NoneRuns),
            (_, Some(id)) => {
                let stored = self.store.rollout(id).await?;
                let stored = stored.ok_or(Failed::NoRollout(id))?;
                Ok(Course::read(&stored)?)
            }
        }
    }

    async fn carry_out(
        &self,
        course: &Course,
        order: Order,
        author: &Author,
    ) -> Result<Step<'static>, Failed> {
        let now = self.since_epoch();
        let current = self.newest().await?;
        let last_good = self.last_good(course, now).await?;
        let mut next = course.clone();
        let change = match order {
            Order::Pause => {
                next.rollout.pause()?;
                None
            }
            Order::Abort => Some(next.rollout.abort()?),
            Order::Resume => {
                next.candidate = next.candidate.without_expired(now);
                let affected = Affected::of(&self.registry, &next.candidate, &last_good).await;
                let push = self.push_of(&affected, self.next_number(&current));
                let change = next.rollout.resume(push)?;
                if let Some(Change::Split(_)) = change {
                    next.freeze(&affected.connected);
                }
                change
            }
        };
        let by = format!("by {}: {}", author.name, author.reason);
        next.tell(self.registry.clock().wall(), &by);
        Ok(Step {
            next,
            change,
            current,
            last_good,
            author: author.clone(),
            action: order.call(),
            lease: None,
        })
    }
}

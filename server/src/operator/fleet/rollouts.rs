//! Rollouts: seen, watched and told what to do.

mod wire;

use std::time::Duration;

use fleetbeat_proto::v1;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};
use tracing::Instrument as _;

use super::super::Trouble;
use super::tuning::{accept, store_trouble, trouble};
use super::{AHEAD, Parts, Streamed, agents};
use crate::store::Store;
use crate::tuning::rollout::{Course, Order};
use crate::tuning::{Author, Failed};
pub(super) use wire::staging;
use wire::to_wire;

const PAGE: u32 = 20;
/// How often a watched rollout is read.
const PACE: Duration = Duration::from_millis(500);
const WAIT: Duration = Duration::from_hours(1);
const WAIT_MOST: Duration = Duration::from_hours(24);

pub(super) async fn get(
    parts: &Parts,
    request: &v1::GetRolloutRequest,
) -> Result<v1::Rollout, Trouble> {
    let course = read(&parts.store, request.rollout).await?;
    whole(parts, &course).await
}

pub(super) async fn list(
    parts: &Parts,
    request: &v1::ListRolloutsRequest,
) -> Result<v1::ListRolloutsResponse, Trouble> {
    let size = agents::page_size(request.page_size, PAGE)?;
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let stored = parts.store.rollouts(request.before_rollout, size).await;
    let stored = stored.map_err(|error| store_trouble("listing rollouts", &error))?;
    let courses = stored.iter().map(Course::read);
    let courses: Result<Vec<_>, _> = courses.collect();
    let courses = courses.map_err(|error| trouble(error.into()))?;
    Ok(v1::ListRolloutsResponse {
        rollouts: courses.iter().map(to_wire).collect(),
    })
}

pub(super) async fn order(
    parts: &Parts,
    request: Request<v1::OrderRolloutRequest>,
    order: Order,
) -> Result<v1::Rollout, Trouble> {
    let call = match order {
        Order::Pause => "PauseRollout",
        Order::Resume => "ResumeRollout",
        Order::Abort => "AbortRollout",
    };
    let (span, author) = accept(call, &request)?;
    let request = request.into_inner();
    let author = Author {
        reason: request.reason,
        ..author
    };
    let id = (request.rollout != 0).then_some(request.rollout);
    let done = parts.desk.order(id, order, author).instrument(span).await;
    whole(parts, &done.map_err(trouble)?).await
}

pub(super) async fn watch(
    parts: &Parts,
    request: &v1::WatchRolloutRequest,
    place: OwnedSemaphorePermit,
) -> Result<Streamed<v1::Rollout>, Trouble> {
    let wait = match request.wait_ns {
        0 => WAIT,
        nanos => Duration::from_nanos(nanos),
    };
    if wait > WAIT_MOST {
        return Err(Trouble::Wrong("`wait_ns` is at most one day".into()));
    }
    let first = read(&parts.store, request.rollout).await?;
    let changes = changes(parts, &first).await?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    let (store, stop) = (parts.store.clone(), parts.stop.clone());
    parts.tasks.spawn(async move {
        let watched = follow(first, &changes, &store, &sender);
        tokio::select! {
            () = watched => {}
            () = tokio::time::sleep(wait) => {}
            () = sender.closed() => {}
            () = stopping(&stop, &sender) => {}
        }
        drop(place);
    });
    Ok(Streamed::new(receiver))
}

async fn stopping(stop: &CancellationToken, sender: &mpsc::Sender<Result<v1::Rollout, Status>>) {
    stop.cancelled().await;
    // The reader may be gone as well.
    let _ = sender.send(Err(Trouble::Stopping.into())).await;
}

/// Sends the rollout after each step, until it is over or nobody listens.
async fn follow(
    mut course: Course,
    changes: &[String],
    store: &Store,
    sender: &mpsc::Sender<Result<v1::Rollout, Status>>,
) {
    loop {
        let told = v1::Rollout {
            changes: changes.to_vec(),
            ..to_wire(&course)
        };
        if sender.send(Ok(told)).await.is_err() || !course.is_running() {
            return;
        }
        let steps = course.steps;
        while course.steps == steps {
            tokio::time::sleep(PACE).await;
            match read(store, course.id).await {
                Ok(read) => course = read,
                Err(trouble) => {
                    // The reader may be gone as well.
                    let _ = sender.send(Err(trouble.into())).await;
                    return;
                }
            }
        }
    }
}

/// 0 is the one that runs, or else the newest.
async fn read(store: &Store, rollout: u64) -> Result<Course, Trouble> {
    let doing = "reading a rollout";
    let away = |error: &_| store_trouble(doing, error);
    let found = if rollout == 0 {
        let newest = store
            .rollouts(None, 1)
            .await
            .map_err(|error| away(&error))?;
        let newest = newest.first().map(|newest| newest.rollout_id);
        let newest = newest.ok_or_else(|| {
            Trouble::NotFound(
                "there was no rollout yet; `fleetbeat tune set --phases 5%,100% …` begins one"
                    .into(),
            )
        })?;
        store.rollout(newest).await
    } else {
        store.rollout(rollout).await
    };
    let found = found.map_err(|error| away(&error))?;
    let found = found.ok_or_else(|| trouble(Failed::NoRollout(rollout)))?;
    Course::read(&found).map_err(|error| trouble(error.into()))
}

async fn whole(parts: &Parts, course: &Course) -> Result<v1::Rollout, Trouble> {
    Ok(v1::Rollout {
        changes: changes(parts, course).await?,
        ..to_wire(course)
    })
}

async fn changes(parts: &Parts, course: &Course) -> Result<Vec<String>, Trouble> {
    let last_good = course.rollout.plan.last_good;
    let last_good = parts.desk.stored(last_good).await.map_err(trouble)?;
    Ok(course.candidate.changes(&last_good.unstaged()))
}

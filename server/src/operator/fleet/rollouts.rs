//! Rollouts: seen, watched and told what to do.

use std::time::Duration;

use fleetbeat_liveness::histogram;
use fleetbeat_liveness::rollout::guard::{Answer, Rate, Side};
use fleetbeat_liveness::rollout::{Finding, Guards, OnLittle, Size, Standing, State};
use fleetbeat_proto::{nanos, v1};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};
use tracing::Instrument as _;

use super::super::Trouble;
use super::tuning::{accept, store_trouble, trouble};
use super::{AHEAD, Parts, Streamed, agents, message};
use crate::store::Store;
use crate::tuning::rollout::{Course, Order, Staging};
use crate::tuning::{Author, Failed};

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
        rollouts: courses.iter().map(wire).collect(),
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
            ..wire(&course)
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
        ..wire(course)
    })
}

async fn changes(parts: &Parts, course: &Course) -> Result<Vec<String>, Trouble> {
    let last_good = course.rollout.plan.last_good;
    let last_good = parts.desk.stored(last_good).await.map_err(trouble)?;
    Ok(course.candidate.changes(&last_good.unstaged()))
}

fn wire(course: &Course) -> v1::Rollout {
    let (plan, progress) = (&course.rollout.plan, &course.rollout.progress);
    let evidence = course.evidence.evidence();
    let phases = plan.phases.iter().map(|phase| v1::RolloutPhase {
        size: Some(match phase.size {
            Size::Percent(percent) => v1::rollout_phase::Size::Percent(percent),
            Size::Count(count) => v1::rollout_phase::Size::Count(count),
        }),
        soak_ns: Some(nanos(phase.soak)),
    });
    v1::Rollout {
        rollout: course.id,
        state: state(&progress.state).into(),
        outcome: course.outcome.clone(),
        author: course.author.clone(),
        reason: course.reason.clone(),
        started_unix_us: message::unix_us(course.started_at),
        updated_unix_us: message::unix_us(course.updated_at),
        ended_unix_us: course.ended_at.map(message::unix_us),
        phases: phases.collect(),
        phase: u32::try_from(progress.phase).unwrap_or(u32::MAX),
        soaked_ns: nanos(progress.soaked),
        looks_taken: progress.looks,
        looks: plan.looks,
        on_little: on_little(plan.on_little).into(),
        guards: Some(guards(&plan.guards)),
        last_good: plan.last_good,
        revision: course.newest,
        changes: Vec::new(),
        cohort: Some(cohort(course)),
        candidate: Some(side(&evidence.candidate)),
        compared: Some(side(&evidence.old)),
        compared_with: evidence.against.to_string(),
        findings: progress.findings.iter().map(finding).collect(),
    }
}

fn cohort(course: &Course) -> v1::RolloutCohort {
    let standings = course.rollout.progress.cohort.values();
    let mut cohort = v1::RolloutCohort {
        rest: u64::try_from(course.rest.len()).unwrap_or(u64::MAX),
        ..v1::RolloutCohort::default()
    };
    for standing in standings {
        *match standing {
            Standing::Waiting => &mut cohort.waiting,
            Standing::Applied => &mut cohort.applied,
            Standing::Refused => &mut cohort.refused,
            Standing::Left => &mut cohort.left,
        } += 1;
    }
    cohort
}

fn side(side: &Side) -> v1::RolloutSide {
    v1::RolloutSide {
        members: side.members.into(),
        member_hours: side.member_hours,
        disconnects: side.disconnects.into(),
        reconnects: side.reconnects.into(),
        rtt_p99_ns: histogram::quantile(&side.rtt, 0.99),
    }
}

fn finding(finding: &Finding) -> v1::RolloutFinding {
    let answer = match finding.answer {
        Answer::Fine => "fine",
        Answer::Worse { .. } => "worse",
        Answer::OverLimit { .. } => "over_limit",
        Answer::TooLittle(_) => "too_little",
    };
    v1::RolloutFinding {
        guard: finding.guard.as_str().to_owned(),
        answer: answer.to_owned(),
        sentence: finding.to_string(),
    }
}

fn guards(guards: &Guards) -> v1::RolloutGuards {
    let rate = |rate: Rate| v1::RolloutRate {
        tolerated: Some(rate.tolerated),
        harm: Some(rate.harm),
        limit: Some(rate.limit),
    };
    v1::RolloutGuards {
        false_halts: Some(guards.false_halts),
        disconnects: Some(rate(guards.disconnects)),
        reconnects: Some(rate(guards.reconnects)),
        rtt_tolerated: Some(guards.rtt_tolerated),
        rtt_limit_ns: Some(nanos(guards.rtt_limit)),
        refused: Some(guards.refused),
        unacked: Some(guards.unacked),
        ack_within_ns: Some(nanos(guards.ack_within)),
    }
}

fn state(state: &State) -> v1::RolloutState {
    match state {
        State::Planned | State::Soaking => v1::RolloutState::Soaking,
        State::Paused => v1::RolloutState::Paused,
        State::Completed => v1::RolloutState::Completed,
        State::RolledBack(_) => v1::RolloutState::RolledBack,
        State::Aborted => v1::RolloutState::Aborted,
        State::Superseded { .. } => v1::RolloutState::Superseded,
    }
}

fn on_little(on_little: OnLittle) -> v1::OnLittle {
    match on_little {
        OnLittle::Advance => v1::OnLittle::Advance,
        OnLittle::Pause => v1::OnLittle::Pause,
    }
}

/// What is asked, for the desk to check.
pub(super) fn staging(wire: v1::Staging) -> Result<Staging, Trouble> {
    let on_little = match wire.on_little() {
        v1::OnLittle::Unspecified | v1::OnLittle::Advance => OnLittle::Advance,
        v1::OnLittle::Pause => OnLittle::Pause,
    };
    let asked = wire.guards.unwrap_or_default();
    let phases = wire.phases.into_iter().enumerate().map(|(at, phase)| {
        let size = match phase.size {
            Some(v1::rollout_phase::Size::Percent(percent)) => Size::Percent(percent),
            Some(v1::rollout_phase::Size::Count(count)) => Size::Count(count),
            None => {
                let number = at + 1;
                return Err(Trouble::Wrong(format!(
                    "phase {number} has no size: give it a percentage or a count"
                )));
            }
        };
        Ok((size, phase.soak_ns.map(Duration::from_nanos)))
    });
    Ok(Staging {
        phases: phases.collect::<Result<_, _>>()?,
        soak: wire.soak_ns.map(Duration::from_nanos),
        looks: wire.looks,
        ack_within: asked.ack_within_ns.map(Duration::from_nanos),
        guards: over(Guards::default(), &asked),
        on_little,
    })
}

fn over(usual: Guards, asked: &v1::RolloutGuards) -> Guards {
    let rate = |usual: Rate, asked: Option<v1::RolloutRate>| {
        let asked = asked.unwrap_or_default();
        Rate {
            tolerated: asked.tolerated.unwrap_or(usual.tolerated),
            harm: asked.harm.unwrap_or(usual.harm),
            limit: asked.limit.unwrap_or(usual.limit),
        }
    };
    Guards {
        false_halts: asked.false_halts.unwrap_or(usual.false_halts),
        disconnects: rate(usual.disconnects, asked.disconnects),
        reconnects: rate(usual.reconnects, asked.reconnects),
        rtt_tolerated: asked.rtt_tolerated.unwrap_or(usual.rtt_tolerated),
        rtt_limit: asked
            .rtt_limit_ns
            .map_or(usual.rtt_limit, Duration::from_nanos),
        refused: asked.refused.unwrap_or(usual.refused),
        unacked: asked.unacked.unwrap_or(usual.unacked),
        ack_within: usual.ack_within,
    }
}

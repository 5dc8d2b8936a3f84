//! Between a rollout and its messages.

use std::time::Duration;

use fleetbeat_liveness::histogram;
use fleetbeat_liveness::rollout::guard::{Answer, Rate, Side};
use fleetbeat_liveness::rollout::{Finding, Guards, OnLittle, Size, Standing, State};
use fleetbeat_proto::{nanos, v1};

use super::super::super::Trouble;
use super::super::message;
use crate::tuning::rollout::{Course, Staging};

pub(super) fn to_wire(course: &Course) -> v1::Rollout {
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
pub(in crate::operator::fleet) fn staging(wire: v1::Staging) -> Result<Staging, Trouble> {
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

use fleetbeat_liveness::policy::Selector;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_proto::{nanos, v1};

use super::{Parts, incidents, message};
use crate::record::State;
use crate::telemetry::{judge_figures, open_files_limit};
use crate::tuning::in_force;

pub(super) fn get(parts: &Parts) -> v1::GetStatusResponse {
    let registry = &parts.registry;
    let policies = parts.desk.policies();
    let counted = parts.census.take();
    let groups = counted
        .groups
        .iter()
        .map(|(group, verdicts)| v1::GroupStatus {
            group: group.clone(),
            verdicts: Some(message::verdicts(verdicts)),
            tuning: Some(
                Revised {
                    revision: policies.revision(),
                    tuning: in_force(&policies, &Selector::group(group.clone())),
                }
                .into(),
            ),
        });
    v1::GetStatusResponse {
        server_id: parts.server_id.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_us: message::unix_us(parts.started),
        now_unix_us: message::unix_us(registry.clock().wall()),
        verdicts: Some(message::verdicts(&counted.all)),
        sessions: registry.session_count(),
        revision: policies.revision(),
        drifting: counted.drifting,
        lanes: lanes(parts),
        recorder: Some(recorder(parts)),
        judge: Some(judge(parts)),
        groups: groups.collect(),
        open_files_limit: open_files_limit().unwrap_or_default(),
    }
}

fn lanes(parts: &Parts) -> Vec<v1::LaneStatus> {
    let numbered = parts.registry.lanes().iter().zip(0..);
    let status = numbered.map(|(lane, number)| v1::LaneStatus {
        lane: number,
        sessions: lane.sessions(),
        beats_total: lane.beats(),
        lag_ns: nanos(lane.lag()),
        deaf: lane.is_deaf(),
    });
    status.collect()
}

fn recorder(parts: &Parts) -> v1::RecorderStatus {
    let status = parts.recording.status();
    let state = match status.state {
        State::Writing => v1::recorder_status::State::Writing,
        State::Waiting => v1::recorder_status::State::Waiting,
    };
    v1::RecorderStatus {
        state: state.into(),
        detail: status.detail,
        backlog_batches: status.backlog_batches,
        backlog_rows: status.backlog_rows,
        backlog_age_ns: nanos(status.backlog_age),
        rejected_rows: status.rejected_rows,
    }
}

fn judge(parts: &Parts) -> v1::JudgeStatus {
    let figures = judge_figures(&parts.registry, &parts.pulse);
    v1::JudgeStatus {
        last_pass_age_ns: nanos(figures.pass_age),
        watched: figures.watched,
        grace_left_ns: nanos(figures.grace_left),
        stalls_total: figures.stalls,
        held_ns: figures.held.map(nanos),
        incidents: incidents::open(parts),
    }
}

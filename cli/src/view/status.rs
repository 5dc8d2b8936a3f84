use fleetbeat_proto::v1;
use fleetbeat_proto::v1::recorder_status::State;
use serde::Serialize;

use super::{Incident, Revised, Time};

/// `fleetbeat status`
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    /// Address that was asked.
    pub(crate) server: String,
    pub(crate) server_id: String,
    pub(crate) version: String,
    pub(crate) started_at: Time,
    /// The server's wall clock.
    pub(crate) now_at: Time,
    pub(crate) uptime_ns: u64,
    pub(crate) verdicts: Verdicts,
    pub(crate) sessions: u64,
    pub(crate) open_files_limit: u64,
    pub(crate) revision: u64,
    /// Live agents whose applied tuning is not the desired one.
    pub(crate) drifting: u64,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) judge: Option<Judge>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) groups: Vec<Group>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Verdicts {
    pub(crate) online: u64,
    pub(crate) suspect: u64,
    pub(crate) offline: u64,
    pub(crate) left: u64,
    pub(crate) unknown: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Lane {
    pub(crate) lane: u32,
    pub(crate) sessions: u64,
    pub(crate) beats_total: u64,
    pub(crate) lag_ns: u64,
    pub(crate) deaf: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Judge {
    pub(crate) last_pass_age_ns: u64,
    pub(crate) watched: u64,
    /// 0 when verdicts are not held back.
    pub(crate) grace_left_ns: u64,
    pub(crate) stalls_total: u64,
    /// Verdicts are held for so long because the server hears nearly nobody; null while they are not.
    pub(crate) held_ns: Option<u64>,
    /// Incidents of this server that last, oldest first.
    pub(crate) incidents: Vec<Incident>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Recorder {
    /// `writing` or `waiting`.
    pub(crate) state: String,
    pub(crate) detail: Option<String>,
    pub(crate) backlog_batches: u64,
    pub(crate) backlog_rows: u64,
    pub(crate) backlog_age_ns: u64,
    pub(crate) rejected_rows: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) group: String,
    pub(crate) verdicts: Verdicts,
    pub(crate) tuning: Option<Revised>,
}

impl Status {
    pub(crate) fn from_wire(wire: v1::GetStatusResponse, server: String) -> Self {
        let up_us = wire.now_unix_us.saturating_sub(wire.started_unix_us);
        Self {
            server,
            server_id: wire.server_id,
            version: wire.version,
            started_at: Time(wire.started_unix_us),
            now_at: Time(wire.now_unix_us),
            uptime_ns: u64::try_from(up_us).unwrap_or(0).saturating_mul(1_000),
            verdicts: Verdicts::from_wire(wire.verdicts),
            sessions: wire.sessions,
            open_files_limit: wire.open_files_limit,
            revision: wire.revision,
            drifting: wire.drifting,
            lanes: wire.lanes.iter().map(Lane::from_wire).collect(),
            judge: wire.judge.map(Judge::from_wire),
            recorder: wire.recorder.map(Recorder::from_wire),
            groups: wire.groups.into_iter().map(Group::from_wire).collect(),
        }
    }
}

impl Verdicts {
    fn from_wire(wire: Option<v1::Verdicts>) -> Self {
        let v1::Verdicts {
            online,
            suspect,
            offline,
            left,
            unknown,
        } = wire.unwrap_or_default();
        Self {
            online,
            suspect,
            offline,
            left,
            unknown,
        }
    }
}

impl Lane {
    fn from_wire(wire: &v1::LaneStatus) -> Self {
        let v1::LaneStatus {
            lane,
            sessions,
            beats_total,
            lag_ns,
            deaf,
        } = *wire;
        Self {
            lane,
            sessions,
            beats_total,
            lag_ns,
            deaf,
        }
    }
}

impl Judge {
    fn from_wire(wire: v1::JudgeStatus) -> Self {
        Self {
            last_pass_age_ns: wire.last_pass_age_ns,
            watched: wire.watched,
            grace_left_ns: wire.grace_left_ns,
            stalls_total: wire.stalls_total,
            held_ns: wire.held_ns,
            incidents: wire
                .incidents
                .into_iter()
                .map(Incident::from_wire)
                .collect(),
        }
    }
}

impl Recorder {
    fn from_wire(wire: v1::RecorderStatus) -> Self {
        let known = State::try_from(wire.state)
            .ok()
            .map(|state| state.as_str_name());
        Self {
            state: super::plain_name(known, "STATE_", wire.state),
            detail: super::told(wire.detail),
            backlog_batches: wire.backlog_batches,
            backlog_rows: wire.backlog_rows,
            backlog_age_ns: wire.backlog_age_ns,
            rejected_rows: wire.rejected_rows,
        }
    }
}

impl Group {
    fn from_wire(wire: v1::GroupStatus) -> Self {
        Self {
            group: wire.group,
            verdicts: Verdicts::from_wire(wire.verdicts),
            tuning: Revised::of(wire.tuning.as_ref()),
        }
    }
}

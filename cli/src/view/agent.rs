use std::collections::BTreeMap;

use fleetbeat_proto::v1;
use serde::Serialize;

use super::{Event, Grounds, Revised, Time};

/// `fleetbeat agents list`
#[derive(Debug, Serialize)]
pub(crate) struct AgentList {
    pub(crate) agents: Vec<Agent>,
    /// Agents that fit, shown or not.
    pub(crate) total: u64,
}

/// `fleetbeat agents show`
#[derive(Debug, Serialize)]
pub(crate) struct AgentDetails {
    #[serde(flatten)]
    pub(crate) agent: Agent,
    /// Newest first.
    pub(crate) sessions: Vec<Session>,
    /// Newest first.
    pub(crate) events: Vec<Event>,
    /// Why sessions and events could not be had.
    pub(crate) history_unavailable: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Agent {
    pub(crate) agent_id: String,
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) verdict: Option<String>,
    pub(crate) because: String,
    pub(crate) verdict_since: Time,
    pub(crate) last_seen_at: Option<Time>,
    pub(crate) last_seen_age_ns: Option<u64>,
    pub(crate) session_id: Option<String>,
    pub(crate) fence: Option<Fence>,
    pub(crate) agent_version: String,
    pub(crate) address: String,
    pub(crate) desired: Option<Revised>,
    pub(crate) applied: Option<Revised>,
    /// A live agent whose applied tuning is not the desired one.
    pub(crate) drifting: bool,
    pub(crate) refusal: Option<String>,
    pub(crate) rtt_median_ns: Option<u64>,
    pub(crate) rtt_p95_ns: Option<u64>,
    pub(crate) conditions: Vec<String>,
    pub(crate) condition_details: Vec<Condition>,
    pub(crate) deadline_ns: u64,
    /// What `because` rests on.
    pub(crate) grounds: Option<Grounds>,
}

/// What is the case beside the verdict.
#[derive(Debug, Serialize)]
pub(crate) struct Condition {
    pub(crate) name: String,
    pub(crate) since: Time,
    pub(crate) detail: String,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Fence {
    pub(crate) incarnation: u64,
    pub(crate) connection: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Session {
    pub(crate) session_id: String,
    pub(crate) fence: Option<Fence>,
    pub(crate) address: String,
    pub(crate) opened_at: Time,
    pub(crate) closed_at: Option<Time>,
    pub(crate) close_reason: Option<String>,
    pub(crate) close_detail: Option<String>,
    pub(crate) beats: u64,
    /// Why it was lost, once its agent has returned.
    pub(crate) cause: Option<String>,
}

impl AgentDetails {
    /// Nothing when the answer holds no agent.
    pub(crate) fn from_wire(wire: v1::GetAgentResponse) -> Option<Self> {
        Some(Self {
            agent: Agent::from_wire(wire.agent?),
            sessions: wire.sessions.into_iter().map(Session::from_wire).collect(),
            events: wire.events.into_iter().map(Event::from_wire).collect(),
            history_unavailable: super::told(wire.history_unavailable),
        })
    }
}

impl Agent {
    pub(crate) fn from_wire(wire: v1::Agent) -> Self {
        let (desired, applied) = (
            Revised::of(wire.desired.as_ref()),
            Revised::of(wire.applied.as_ref()),
        );
        let values = |revised: Option<Revised>| revised.map(|revised| revised.tuning);
        Self {
            drifting: wire.session_id.is_some() && values(desired) != values(applied),
            agent_id: wire.agent_id,
            name: wire.name,
            group: wire.group,
            labels: wire.labels.into_iter().collect(),
            verdict: super::verdict(wire.verdict),
            because: wire.because,
            verdict_since: Time(wire.verdict_since_unix_us),
            last_seen_at: wire.last_seen_unix_us.map(Time),
            last_seen_age_ns: wire.last_seen_age_ns,
            session_id: wire.session_id,
            fence: wire.fence.map(Fence::from_wire),
            agent_version: wire.agent_version,
            address: wire.address,
            desired,
            applied,
            refusal: super::told(wire.refusal),
            rtt_median_ns: wire.rtt_median_ns,
            rtt_p95_ns: wire.rtt_p95_ns,
            conditions: wire.conditions,
            condition_details: wire
                .condition_details
                .into_iter()
                .map(Condition::from_wire)
                .collect(),
            deadline_ns: wire.deadline_ns,
            grounds: wire.grounds.map(Grounds::from_wire),
        }
    }
}

impl Condition {
    fn from_wire(wire: v1::Condition) -> Self {
        Self {
            name: wire.name,
            since: Time(wire.since_unix_us),
            detail: wire.detail,
        }
    }
}

impl Fence {
    fn from_wire(wire: v1::Fence) -> Self {
        Self {
            incarnation: wire.incarnation,
            connection: wire.connection,
        }
    }
}

impl Session {
    fn from_wire(wire: v1::Session) -> Self {
        Self {
            session_id: wire.session_id,
            fence: wire.fence.map(Fence::from_wire),
            address: wire.address,
            opened_at: Time(wire.opened_unix_us),
            closed_at: wire.closed_unix_us.map(Time),
            close_reason: super::close_reason(wire.close_reason),
            close_detail: super::told(wire.close_detail),
            beats: wire.beats,
            cause: super::cause(wire.cause),
        }
    }
}

use fleetbeat_proto::v1;
use serde::Serialize;

use super::{Grounds, Time};

/// A line of `fleetbeat events`.
#[derive(Debug, Serialize)]
pub(crate) struct Event {
    pub(crate) event_id: u64,
    #[serde(rename = "at")]
    pub(crate) time: Time,
    pub(crate) agent_id: String,
    pub(crate) agent_name: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) session_id: Option<String>,
    pub(crate) close_reason: Option<String>,
    pub(crate) verdict: Option<String>,
    pub(crate) revision: Option<u64>,
    pub(crate) detail: String,
    pub(crate) cause: Option<String>,
    pub(crate) condition: Option<String>,
    pub(crate) grounds: Option<Grounds>,
}

impl Event {
    pub(crate) fn from_wire(wire: v1::Event) -> Self {
        Self {
            event_id: wire.event_id,
            time: Time(wire.at_unix_us),
            agent_id: wire.agent_id,
            agent_name: wire.agent_name,
            group: wire.group,
            kind: wire.kind,
            session_id: wire.session_id,
            close_reason: super::close_reason(wire.close_reason),
            verdict: super::verdict(wire.verdict),
            revision: wire.revision,
            detail: wire.detail,
            cause: super::cause(wire.cause),
            condition: super::told(wire.condition),
            grounds: wire.grounds.map(Grounds::from_wire),
        }
    }
}

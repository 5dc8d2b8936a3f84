use fleetbeat_proto::v1;
use serde::Serialize;

use super::{Time, told};

/// `fleetbeat incidents`
#[derive(Debug, Serialize)]
pub(crate) struct IncidentList {
    /// Newest first.
    pub(crate) incidents: Vec<Incident>,
    /// Why only the answering server's own are listed.
    pub(crate) history_unavailable: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Incident {
    pub(crate) incident_id: String,
    pub(crate) kind: String,
    pub(crate) group: Option<String>,
    pub(crate) began_at: Time,
    /// Null while it lasts.
    pub(crate) ended_at: Option<Time>,
    pub(crate) because: String,
    pub(crate) outcome: Option<String>,
    pub(crate) server_id: String,
}

impl IncidentList {
    pub(crate) fn from_wire(wire: v1::ListIncidentsResponse) -> Self {
        let incidents = wire.incidents.into_iter().map(Incident::from_wire);
        Self {
            incidents: incidents.collect(),
            history_unavailable: told(wire.history_unavailable),
        }
    }
}

impl Incident {
    pub(crate) fn from_wire(wire: v1::Incident) -> Self {
        Self {
            incident_id: wire.incident_id,
            kind: wire.kind,
            group: told(wire.group),
            began_at: Time(wire.began_unix_us),
            ended_at: wire.ended_unix_us.map(Time),
            because: wire.because,
            outcome: told(wire.outcome),
            server_id: wire.server_id,
        }
    }
}

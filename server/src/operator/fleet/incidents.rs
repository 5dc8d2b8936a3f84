use fleetbeat_proto::v1;

use super::super::Trouble;
use super::{Parts, agents, message};
use crate::registry;
use crate::store::incidents::Incident;

const PAGE: u32 = 50;

/// The newest incidents of all servers; those of this one alone while Postgres cannot be asked.
pub(super) async fn list(
    parts: &Parts,
    request: &v1::ListIncidentsRequest,
) -> Result<v1::ListIncidentsResponse, Trouble> {
    let size = agents::page_size(request.page_size, PAGE)?;
    let limit = u32::try_from(size).unwrap_or(u32::MAX);
    Ok(
        match parts.store.recent_incidents(limit, request.open).await {
            Ok(incidents) => v1::ListIncidentsResponse {
                incidents: incidents.into_iter().map(stored).collect(),
                history_unavailable: String::new(),
            },
            Err(error) => {
                let own = parts.registry.incidents().recent().into_iter();
                let own = own.filter(|own| !request.open || own.ended.is_none());
                v1::ListIncidentsResponse {
                    incidents: own.take(size).map(|own| live(parts, own)).collect(),
                    history_unavailable: error.to_string(),
                }
            }
        },
    )
}

/// Those of this server that last.
pub(super) fn open(parts: &Parts) -> Vec<v1::Incident> {
    let open = parts.registry.incidents().open().into_iter();
    open.map(|incident| live(parts, incident)).collect()
}

fn live(parts: &Parts, own: registry::Incident) -> v1::Incident {
    v1::Incident {
        incident_id: own.id.to_string(),
        kind: own.kind.as_str().to_owned(),
        group: own.group,
        began_unix_us: message::unix_us(own.began),
        ended_unix_us: own.ended.map(message::unix_us),
        because: own.because,
        outcome: own.outcome,
        server_id: parts.server_id.to_string(),
    }
}

fn stored(incident: Incident) -> v1::Incident {
    v1::Incident {
        incident_id: incident.incident_id.to_string(),
        kind: incident.kind,
        group: incident.group,
        began_unix_us: message::unix_us(incident.began),
        ended_unix_us: incident.ended.map(message::unix_us),
        because: incident.because,
        outcome: incident.outcome,
        server_id: incident.server_id.to_string(),
    }
}

use fleetbeat_liveness::fence::Fence;
use fleetbeat_proto::{PROTOCOL, v1};

use super::Agent;
use crate::{clock, host};

impl Agent {
    /// The first message of a connection; each takes the next fence.
    pub(super) fn hello(&mut self) -> v1::Hello {
        self.connection += 1;
        let fence = Fence {
            incarnation: self.state.incarnation(),
            connection: self.connection,
        };
        let settings = &self.settings;
        let away = |at| self.clock.now().since(at);
        v1::Hello {
            protocol: PROTOCOL,
            agent_id: self.state.agent_id().into_bytes().to_vec(),
            instance_id: self.instance.into_bytes().to_vec(),
            fence: Some(fence.into()),
            name: settings.name.clone().unwrap_or_else(host::name),
            group: settings.group.clone(),
            labels: settings.labels.clone().into_iter().collect(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: host::boot_id(),
            applied: self.acknowledged.map(Into::into),
            last_ending: match &self.last {
                Some(last) => Some(last.ending.account(away(last.at))),
                None => self.state.stuck().map(Into::into).map(stuck),
            },
            volatile_state: self.state.volatile().is_some(),
            wall_unix_us: clock::wall_unix_us(),
        }
    }
}

/// The account of a run that ended itself; what became of its session nobody noted.
fn stuck(detail: String) -> v1::LastEnding {
    v1::LastEnding {
        detail,
        ..v1::LastEnding::default()
    }
}

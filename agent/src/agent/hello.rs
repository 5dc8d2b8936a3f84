use fleetbeat_liveness::fence::Fence;
use fleetbeat_proto::{PROTOCOL, v1};

use super::Agent;
use crate::host;

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
            last_ending: self
                .last
                .as_ref()
                .map(|last| last.ending.account(away(last.at))),
            volatile_state: self.state.volatile().is_some(),
        }
    }
}

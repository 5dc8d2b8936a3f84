use std::time::Duration;

use fleetbeat_liveness::{Revised, Tuning};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use fleetbeat_proto::nanos;

/// Raised when a file changes in a way that an older agent would misread.
const FORMAT: u32 = 1;

/// Who this host is and how often its agent has started.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Identity {
    format: u32,
    pub agent_id: Uuid,
    pub incarnation: u64,
}

impl Identity {
    pub(super) fn first() -> Self {
        Self {
            format: FORMAT,
            agent_id: Uuid::new_v4(),
            incarnation: 1,
        }
    }

    /// The same identity for the next start.
    pub(super) fn raised(self) -> Self {
        Self {
            incarnation: self.incarnation.saturating_add(1),
            ..self
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let identity: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        check_format(identity.format)?;
        if identity.agent_id.is_nil() {
            return Err("agent_id is all zeros".to_owned());
        }
        // A server records 63 bits, and the next start needs one more.
        if identity.incarnation == 0 || identity.incarnation >= i64::MAX.unsigned_abs() {
            return Err(format!(
                "incarnation {} is not possible",
                identity.incarnation
            ));
        }
        Ok(identity)
    }

    pub(super) fn render(self) -> String {
        render(&self)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredTuning {
    format: u32,
    revision: u64,
    interval_ns: u64,
    misses: u32,
    timeout_ns: u64,
    pong_every: u32,
    #[serde(default)]
    adaptive: bool,
}

pub(super) fn parse_tuning(text: &str) -> Result<Revised, String> {
    let stored: StoredTuning = serde_json::from_str(text).map_err(|error| error.to_string())?;
    check_format(stored.format)?;
    let tuning = Tuning::new(
        Duration::from_nanos(stored.interval_ns),
        stored.misses,
        Duration::from_nanos(stored.timeout_ns),
        stored.pong_every,
    )
    .and_then(|tuning| tuning.with_adaptive(stored.adaptive))
    .map_err(|error| error.to_string())?;
    Ok(Revised {
        revision: stored.revision,
        tuning,
    })
}

pub(super) fn render_tuning(revised: &Revised) -> String {
    let tuning = &revised.tuning;
    render(&StoredTuning {
        format: FORMAT,
        revision: revised.revision,
        interval_ns: nanos(tuning.interval()),
        misses: tuning.misses(),
        timeout_ns: nanos(tuning.timeout()),
        pong_every: tuning.pong_every(),
        adaptive: tuning.adaptive(),
    })
}

fn check_format(format: u32) -> Result<(), String> {
    if format == FORMAT {
        return Ok(());
    }
    Err(format!(
        "it has format {format}, this agent knows format {FORMAT}"
    ))
}

fn render(document: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(document).expect("plain numbers and strings");
    text.push('\n');
    text
}

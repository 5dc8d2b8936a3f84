use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::{Revised, Tuning};
use fleetbeat_proto::v1;

/// The revised tuning of a message, or why an agent refuses it.
pub(super) fn revised(message: &v1::RevisedTuning) -> Result<Revised, String> {
    let values = message.tuning.as_ref().ok_or("tuning is missing")?;
    let interval = values.interval_ns.ok_or("interval_ns is missing")?;
    let misses = values.misses.ok_or("misses is missing")?;
    let timeout = values.timeout_ns.ok_or("timeout_ns is missing")?;
    let tuning = Tuning::new(
        Duration::from_nanos(interval),
        misses,
        Duration::from_nanos(timeout),
        values.pong_every.unwrap_or(1),
    );
    let tuning = tuning.map_err(|error| error.to_string())?;
    Ok(Revised {
        revision: message.revision,
        tuning,
    })
}

pub(super) fn revised_message(revised: &Revised) -> v1::RevisedTuning {
    let tuning = &revised.tuning;
    v1::RevisedTuning {
        revision: revised.revision,
        hash: revised.hash(),
        tuning: Some(v1::Tuning {
            interval_ns: Some(nanos(tuning.interval())),
            misses: Some(tuning.misses()),
            timeout_ns: Some(nanos(tuning.timeout())),
            pong_every: Some(tuning.pong_every()),
        }),
    }
}

pub(super) fn fence_message(fence: Fence) -> v1::Fence {
    v1::Fence {
        incarnation: fence.incarnation,
        connection: fence.connection,
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The window of a Bye, when it has one.
pub(super) fn window(bye: &v1::Bye) -> Option<(Duration, Duration)> {
    let earliest = Duration::from_nanos(bye.retry_after_min_ns?);
    let latest = Duration::from_nanos(bye.retry_after_max_ns?);
    Some((earliest, latest.max(earliest)))
}

/// `CLOSE_REASON_SERVER_DRAIN` as people and reports write it: `server_drain`.
#[must_use]
pub fn reason_name(reason: v1::CloseReason) -> String {
    reason
        .as_str_name()
        .trim_start_matches("CLOSE_REASON_")
        .to_lowercase()
}

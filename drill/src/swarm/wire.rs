use std::time::Duration;

use fleetbeat_proto::v1;

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

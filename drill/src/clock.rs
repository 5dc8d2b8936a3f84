//! The clocks of this process. A drill measures from outside, so it asks them where it acts.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fleetbeat_liveness::Moment;
use fleetbeat_proto::nanos;
use nix::time::{ClockId, clock_gettime};

static ORIGIN: LazyLock<Instant> = LazyLock::new(now);

/// Monotonic.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the one monotonic clock of the drill"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Monotonic, as the pure decisions count it.
#[must_use]
pub fn moment() -> Moment {
    let since = now().saturating_duration_since(*ORIGIN);
    Moment::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Nanoseconds of the machine's monotonic clock, which its processes share: what one of them began and
/// another one saw can be compared.
///
/// # Panics
///
/// Where there is no monotonic clock, which every Linux has.
#[must_use]
pub fn machine_ns() -> u64 {
    let since_boot = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the machine has a clock");
    nanos(since_boot.into())
}

/// When a moment comes, for timers.
#[must_use]
pub fn instant(moment: Moment) -> tokio::time::Instant {
    (*ORIGIN + Duration::from_nanos(moment.as_nanos())).into()
}

/// Microseconds since the Unix epoch, as the server and Postgres stamp events.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one wall clock of the drill")]
pub fn wall_us() -> i64 {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
}

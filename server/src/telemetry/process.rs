//! Facts about this process, under the names that Prometheus' own clients use.

use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike as _;
use opentelemetry::metrics::Meter;

use super::LostLines;

pub(super) fn register(meter: &Meter, lost: LostLines) {
    meter
        .u64_observable_gauge("process_resident_memory_bytes")
        .with_description("Resident memory")
        .with_callback(|out| observe(resident_bytes(), |value| out.observe(value, &[])))
        .build();
    meter
        .u64_observable_gauge("process_open_fds")
        .with_description("Open file descriptors")
        .with_callback(|out| observe(open_files(), |value| out.observe(value, &[])))
        .build();
    meter
        .u64_observable_gauge("process_max_fds")
        .with_description("Soft limit of open file descriptors")
        .with_callback(|out| observe(open_files_limit(), |value| out.observe(value, &[])))
        .build();
    meter
        .f64_observable_counter("process_cpu_seconds_total")
        .with_description("Processor time, user and system")
        .with_callback(|out| observe(cpu_seconds(), |value| out.observe(value, &[])))
        .build();
    meter
        .u64_observable_counter("fleetbeat_log_lines_lost_total")
        .with_description("Log lines dropped because nobody read the log")
        .with_callback(move |out| out.observe(lost.count(), &[]))
        .build();
}

fn observe<T>(value: Option<T>, observe: impl FnOnce(T)) {
    value.map(observe);
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn open_files() -> Option<u64> {
    u64::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()
}

/// Soft limit of open files of this process.
pub(crate) fn open_files_limit() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE)
        .ok()
        .map(|(soft, _)| soft)
}

fn cpu_seconds() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let micros = (usage.user_time() + usage.system_time()).num_microseconds();
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact for 285 years of processor time"
    )]
    Some(micros as f64 / 1e6)
}

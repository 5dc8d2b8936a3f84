use fleetbeat_liveness::preset;
use fleetbeat_proto::nanos;
use serde::Serialize;

/// `fleetbeat tune presets`
#[derive(Debug, Serialize)]
pub(crate) struct Presets {
    pub(crate) presets: Vec<Preset>,
}

/// A starting point for a kind of fleet.
#[derive(Debug, Serialize)]
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    pub(crate) fleet: &'static str,
    pub(crate) interval_ns: u64,
    pub(crate) misses: u32,
    pub(crate) timeout_ns: u64,
    /// D = N·T + W.
    pub(crate) deadline_ns: u64,
    /// The deadline that the essay names; `null` for presets that are no essay's.
    pub(crate) essay_deadline_ns: Option<u64>,
    /// `false_verdict` or `late_verdict`: the error that this fleet can rather afford.
    pub(crate) prefers: &'static str,
    pub(crate) remark: &'static str,
}

impl Presets {
    /// Every preset that this program knows.
    pub(crate) fn all() -> Self {
        Self {
            presets: preset::ALL.iter().map(Preset::of).collect(),
        }
    }
}

impl Preset {
    fn of(preset: &preset::Preset) -> Self {
        let tuning = preset.tuning();
        Self {
            name: preset.name,
            fleet: preset.fleet,
            interval_ns: nanos(tuning.interval()),
            misses: tuning.misses(),
            timeout_ns: nanos(tuning.timeout()),
            deadline_ns: nanos(tuning.deadline()),
            essay_deadline_ns: preset.essay_deadline().map(nanos),
            prefers: preset.prefers.as_str(),
            remark: preset.remark,
        }
    }
}

use super::grid::{Grid, optional};
use crate::format::exact;
use crate::output::Style;
use crate::view::Presets;

const HEAD: [&str; 8] = [
    "PRESET",
    "T>",
    "N>",
    "W>",
    "D>",
    "ESSAY'S D>",
    "PREFERS",
    "FOR",
];

/// `fleetbeat tune presets`
pub(crate) fn presets(presets: &Presets, style: Style) -> String {
    let mut grid = Grid::new(style, &HEAD);
    for preset in &presets.presets {
        let prefers = match preset.prefers {
            "late_verdict" => "late verdicts",
            _ => "false verdicts",
        };
        grid.row([
            preset.name.into(),
            exact(preset.interval_ns).into(),
            preset.misses.into(),
            exact(preset.timeout_ns).into(),
            exact(preset.deadline_ns).into(),
            optional(preset.essay_deadline_ns.map(exact)),
            prefers.into(),
            format!("{}: {}", preset.fleet, preset.remark).into(),
        ]);
    }
    grid.text()
}

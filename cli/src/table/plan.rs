use super::grid::{Field, Grid, Tone};
use crate::format::exact;
use crate::output::Style;
use crate::view::Plan;

/// The derivation, the tuning and its load, the checks, and what to do next.
pub(crate) fn plan(plan: &Plan, style: Style) -> String {
    let mut sections = Vec::new();
    if !plan.steps.is_empty() {
        sections.push(steps(plan, style));
    }
    sections.extend([facts(plan, style), checks(plan, style), next(plan)]);
    sections.join("\n\n")
}

fn steps(plan: &Plan, style: Style) -> String {
    let mut grid = Grid::bare(style);
    for step in &plan.steps {
        grid.row([step.of.into(), step.text.as_str().into()]);
    }
    grid.text()
}

fn facts(plan: &Plan, style: Style) -> String {
    let mut grid = Grid::bare(style);
    let mut row = |name: &str, text: String| grid.row([Field::from(name), Field::from(text)]);
    let (tuning, load) = (&plan.tuning, &plan.load);
    let parts = format!(
        "T {}, N {}, W {}",
        millis(tuning.interval_ms),
        tuning.misses,
        millis(tuning.timeout_ms)
    );
    row("tuning", parts);
    let found = format!(
        "at worst {} after an agent's end, {} on average",
        millis(plan.detection.worst_ms),
        millis(plan.detection.mean_ms)
    );
    row("found", found);
    let beats = format!(
        "{:.0} heartbeats/s of {} agents ({:.0} expected), {:.0} messages/s, {:.0} bytes/s",
        load.beats_per_second,
        plan.agents,
        load.expected_beats_per_second,
        load.messages_per_second,
        load.bytes_per_second
    );
    row("load", beats);
    let side = format!(
        "one log line, metric, span or row per heartbeat would be {:.0}/s each",
        load.side_costs.rows_per_second
    );
    row("beside", side);
    grid.text()
}

fn checks(plan: &Plan, style: Style) -> String {
    let mut grid = Grid::new(style, &["CHECK", "IS", "BECAUSE"]);
    for check in &plan.checks {
        let tone = match check.grade {
            "ok" => Tone::Good,
            "warning" => Tone::Warn,
            _ => Tone::Bad,
        };
        grid.row([
            check.name.into(),
            Field::from(check.grade).tone(tone),
            check.reason.as_str().into(),
        ]);
    }
    grid.text()
}

fn next(plan: &Plan) -> String {
    if plan.checks.iter().any(|check| !check.ok) {
        return "Mend what failed before anybody runs it".to_owned();
    }
    let tuning = &plan.tuning;
    let lease = match tuning.pong_every {
        1 => String::new(),
        every => format!(" --pong-every {every}"),
    };
    format!(
        "Next: fleetbeat tune set --group GROUP --interval {} --misses {} --timeout {}{lease} --dry-run \
         --reason WHY",
        millis(tuning.interval_ms),
        tuning.misses,
        millis(tuning.timeout_ms)
    )
}

/// `1m2s`, as it is typed.
fn millis(ms: u64) -> String {
    exact(ms.saturating_mul(1_000_000)).replace(' ', "")
}

use super::grid::{Field, Grid, Tone};
use crate::format::{NONE, clean, exact, plural, rough};
use crate::output::Style;
use crate::view::{Plan, Range, Replay};

/// The derivation, the tuning and its load, the checks, and what to do next.
pub(crate) fn plan(plan: &Plan, style: Style) -> String {
    let mut sections = Vec::new();
    if !plan.facts.is_empty() {
        sections.push(measured(plan, style));
    }
    if !plan.steps.is_empty() {
        sections.push(steps(plan, style));
    }
    sections.extend([facts(plan, style), checks(plan, style)]);
    sections.extend(replays(plan, style));
    sections.push(next(plan));
    sections.join("\n\n")
}

fn measured(plan: &Plan, style: Style) -> String {
    let mut grid = Grid::new(style, &["KNOWN", "IS>", "FROM"]);
    for fact in &plan.facts {
        let value = match fact.name.as_str() {
            "members" => format!("{:.0}", fact.value),
            "late" => format!("{:.2} %", fact.value * 100.0),
            _ => time(fact.value),
        };
        grid.row([
            fact.name.as_str().into(),
            value.into(),
            fact.source.as_str().into(),
        ]);
    }
    grid.text()
}

/// The recorded days, under the tuning and under today's.
fn replays(plan: &Plan, style: Style) -> Option<String> {
    if let Some(why) = &plan.history_unavailable {
        return Some(format!("what happened cannot be replayed: {}", clean(why)));
    }
    let (new, today) = (plan.replay.as_ref()?, plan.replay_today.as_ref()?);
    let mut grid = Grid::new(style, &["WHAT IF", "PLANNED", "TODAY"]);
    let of = |show: &dyn Fn(&Replay) -> String| [Field::from(show(new)), Field::from(show(today))];
    let mut row = |name: &str, show: &dyn Fn(&Replay) -> String| {
        let [new, today] = of(show);
        grid.row([name.into(), new, today]);
    };
    row("false disconnects a day", &false_disconnects);
    row("dead found after, p50", &|replay| {
        found(replay, replay.detection_p50_ns)
    });
    row("dead found after, p99", &|replay| {
        found(replay, replay.detection_p99_ns)
    });
    row("heartbeats/s", &|replay| {
        range(replay.beats_per_second, &|n| format!("{n:.1}"))
    });
    row("MB a day", &|replay| {
        range(replay.bytes_per_day, &|n| format!("{:.1}", n / 1e6))
    });
    let stands = format!(
        "on {} in {} and {}{} of {:.1} agent-days; {} happened",
        plural(u64::from(new.silences), "silence"),
        plural(u64::from(new.events), "event"),
        plural(u64::from(new.deaths), "death"),
        match new.open {
            0 => String::new(),
            open => format!(" ({open} not back yet, who may live)"),
        },
        new.agent_days,
        plural(u64::from(new.happened), "false disconnect"),
    );
    Some(format!("{}\n{stands}", grid.text()))
}

fn false_disconnects(replay: &Replay) -> String {
    match (&replay.unknown, replay.at_least) {
        (Some(why), _) => why.clone(),
        (None, true) => format!("at least {}", rates(replay.false_disconnects_per_day)),
        (None, false) => rates(replay.false_disconnects_per_day),
    }
}

fn rates(range_of: Option<Range>) -> String {
    range(range_of, &|n| format!("{n:.2}"))
}

fn found(replay: &Replay, after: Option<Range>) -> String {
    if replay.deaths == 0 {
        return "too little data: no death was recorded".to_owned();
    }
    range(after, &time)
}

/// `1.20 (0.40 … 3.10)`
fn range(range: Option<Range>, show: &dyn Fn(f64) -> String) -> String {
    range.map_or_else(
        || NONE.to_owned(),
        |Range {
             low,
             expected,
             high,
         }| { format!("{} ({} … {})", show(expected), show(low), show(high)) },
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a duration below centuries"
)]
fn time(ns: f64) -> String {
    rough(ns.max(0.0) as u64)
}

fn steps(plan: &Plan, style: Style) -> String {
    let mut grid = Grid::bare(style);
    for step in &plan.steps {
        grid.row([step.of.as_str().into(), step.text.as_str().into()]);
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
        let tone = match check.grade.as_str() {
            "ok" => Tone::Good,
            "warning" => Tone::Warn,
            _ => Tone::Bad,
        };
        grid.row([
            check.name.as_str().into(),
            Field::from(&check.grade).tone(tone),
            check.reason.as_str().into(),
        ]);
    }
    grid.text()
}

fn next(plan: &Plan) -> String {
    if plan.checks.iter().any(|check| !check.ok) {
        return "Mend what failed before anybody runs it".to_owned();
    }
    if let Some(limit) = plan.exceeded.first() {
        return format!("A limit of the fleet is exceeded: {}", clean(limit));
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

use super::grid::{Field, Grid, Tone, optional};
use crate::format::{clean, exact, plural, rough, second};
use crate::output::Style;
use crate::view::{Finding, Report, Side};

/// What a revision changed: rates with what can be said of them, then what else there is beside.
pub(crate) fn report(report: &Report, style: Style) -> String {
    let mut sections = vec![head(report), findings(report, style), sides(report, style)];
    if let Some(why) = &report.rtt_unknown {
        sections.push(clean(why));
    }
    sections.join("\n\n")
}

fn head(report: &Report) -> String {
    let Report {
        revision,
        author,
        reason,
        ..
    } = report;
    let mut lines = vec![format!(
        "revision {revision} of {} by {}: {}",
        second(report.made_at.0),
        clean(author),
        clean(reason)
    )];
    lines.extend(
        report
            .changes
            .iter()
            .map(|line| format!("  {}", clean(line))),
    );
    let bounded = report
        .bounded_by
        .as_ref()
        .map(|why| format!(" ({})", clean(why)));
    lines.push(format!(
        "{} changed; {} before are compared with as much after{}",
        plural(report.agents, "known agent"),
        exact(report.window_ns / 1_000_000_000 * 1_000_000_000),
        bounded.unwrap_or_default()
    ));
    lines.join("\n")
}

fn findings(report: &Report, style: Style) -> String {
    let header = [
        "PER AGENT-DAY",
        "BEFORE>",
        "AFTER>",
        "EVENTS>",
        "TOGETHER>",
        "IS",
        "BY CHANCE>",
    ];
    let mut grid = Grid::new(style, &header);
    let rate = |rate: Option<f64>| optional(rate.map(|rate| format!("{rate:.3}")));
    for finding in &report.findings {
        grid.row([
            finding.name.replace('_', " ").into(),
            rate(finding.before),
            rate(finding.after),
            format!("{} → {}", finding.events_before, finding.events_after).into(),
            format!("{:.1}", finding.together).into(),
            Field::from(&finding.finding).tone(tone(finding)),
            optional(finding.chance.map(chance)),
        ]);
    }
    format!(
        "{}\nas many events as came together count as one",
        grid.text()
    )
}

fn chance(chance: f64) -> String {
    if chance < 0.001 {
        "below 0.001".to_owned()
    } else {
        format!("{chance:.3}")
    }
}

fn tone(finding: &Finding) -> Tone {
    match finding.finding.as_str() {
        "fewer" => Tone::Good,
        "more" => Tone::Bad,
        _ => Tone::Plain,
    }
}

fn sides(report: &Report, style: Style) -> String {
    let mut grid = Grid::new(style, &["BESIDE", "BEFORE>", "AFTER>"]);
    let mut row = |name: &str, show: &dyn Fn(&Side) -> Field| {
        grid.row([name.into(), show(&report.before), show(&report.after)]);
    };
    row("agent-days watched", &|side| {
        format!("{:.2}", side.agent_days).into()
    });
    row("false disconnects", &|side| side.false_disconnects.into());
    row("deaths", &|side| side.deaths.into());
    row("not back yet", &|side| side.open.into());
    row("dead found", &|side| side.dead.into());
    row("dead found after, p50", &|side| {
        optional(side.dead_after_p50_ns.map(rough))
    });
    row("dead found after, p99", &|side| {
        optional(side.dead_after_p99_ns.map(rough))
    });
    row("silences that ended", &|side| side.silences.into());
    row("called offline", &|side| side.offline.into());
    row("called offline after, p50", &|side| {
        optional(side.offline_after_p50_ns.map(rough))
    });
    row("called offline after, p99", &|side| {
        optional(side.offline_after_p99_ns.map(rough))
    });
    row("rtt p50", &|side| optional(side.rtt_p50_ns.map(rough)));
    row("rtt p99", &|side| optional(side.rtt_p99_ns.map(rough)));
    row("rtt samples", &|side| side.rtt_samples.into());
    row("heartbeats/s", &|side| {
        format!("{:.1}", side.beats_per_second).into()
    });
    row("sessions opened", &|side| side.opened.into());
    let reasons = report.before.ended.keys().chain(report.after.ended.keys());
    let reasons: std::collections::BTreeSet<&String> = reasons.collect();
    for reason in reasons {
        let count = |side: &Side| side.ended.get(reason).copied().unwrap_or_default();
        row(&format!("ended: {reason}"), &|side| count(side).into());
    }
    grid.text()
}

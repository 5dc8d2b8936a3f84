use super::grid::{Field, Grid, Tone, optional};
use crate::format::{NONE, clean, exact, plural, rough, second};
use crate::output::Style;
use crate::view::{Rollout, RolloutFinding, RolloutList, RolloutPhase, RolloutSide};

/// Cells of a phase's bar.
const BAR: u64 = 20;

/// One row each, newest first.
pub(crate) fn rollouts(list: &RolloutList, style: Style) -> String {
    if list.rollouts.is_empty() {
        return "no rollouts".to_owned();
    }
    let header = [
        "ROLLOUT>",
        "STATE",
        "PHASE",
        "STARTED",
        "BY",
        "WHY",
        "HOW IT ENDED",
    ];
    let mut grid = Grid::new(style, &header);
    for rollout in &list.rollouts {
        grid.row([
            rollout.rollout.into(),
            state(rollout),
            place(rollout).into(),
            second(rollout.started_at.0).into(),
            rollout.author.as_str().into(),
            rollout.reason.as_str().into(),
            optional(rollout.outcome.as_deref()),
        ]);
    }
    grid.text()
}

/// The page of one rollout.
pub(crate) fn rollout(rollout: &Rollout, style: Style) -> String {
    let mut sections = vec![head(rollout), phases(rollout, style), members(rollout)];
    sections.push(guards(rollout, style));
    sections.retain(|section| !section.is_empty());
    sections.join("\n\n")
}

/// What moved, in one line.
pub(crate) fn rollout_line(rollout: &Rollout) -> String {
    let state = rollout.state.replace('_', " ");
    let line = format!(
        "rollout {}: {}, {state}, look {} of {}",
        rollout.rollout,
        place(rollout),
        rollout.looks_taken,
        rollout.looks
    );
    match &rollout.outcome {
        Some(outcome) => format!("{line}: {}", clean(outcome)),
        None => line,
    }
}

fn head(rollout: &Rollout) -> String {
    let mut lines = vec![
        format!(
            "rollout {}: {}, {}",
            rollout.rollout,
            place(rollout),
            rollout.state.replace('_', " ")
        ),
        format!(
            "by:       {} at {}, {}",
            clean(&rollout.author),
            second(rollout.started_at.0),
            clean(&rollout.reason)
        ),
    ];
    let changes = rollout.changes.iter();
    lines.extend(changes.map(|line| format!("changes:  {}", clean(line))));
    lines.push(format!(
        "revision: {}, over the last good one {}",
        rollout.revision, rollout.last_good
    ));
    if let Some(outcome) = &rollout.outcome {
        lines.push(format!("outcome:  {}", clean(outcome)));
    }
    lines.join("\n")
}

/// `phase 2 of 3`
fn place(rollout: &Rollout) -> String {
    format!("phase {} of {}", rollout.phase, rollout.phases.len())
}

fn state(rollout: &Rollout) -> Field {
    let tone = match rollout.state.as_str() {
        "completed" => Tone::Good,
        "rolled_back" => Tone::Bad,
        "paused" | "aborted" => Tone::Warn,
        _ => Tone::Plain,
    };
    Field::from(rollout.state.replace('_', " ")).tone(tone)
}

fn phases(rollout: &Rollout, style: Style) -> String {
    let mut grid = Grid::new(style, &["PHASE>", "MEMBERS", "SOAK", "", "LOOKS"]);
    for (at, phase) in (1..).zip(&rollout.phases) {
        let soak = phase.soak_ns.unwrap_or_default();
        let completed = rollout.state == "completed";
        let (soaked, looks) = match at.cmp(&rollout.phase) {
            std::cmp::Ordering::Less => (soak, rollout.looks),
            std::cmp::Ordering::Equal if completed => (soak, rollout.looks),
            std::cmp::Ordering::Equal => (rollout.soaked_ns.min(soak), rollout.looks_taken),
            std::cmp::Ordering::Greater => (0, 0),
        };
        grid.row([
            at.into(),
            size(phase).into(),
            bar(soaked, soak).into(),
            format!("{} of {}", rough(soaked), exact(soak)).into(),
            format!("{looks} of {}", rollout.looks).into(),
        ]);
    }
    grid.text()
}

fn size(phase: &RolloutPhase) -> String {
    match (phase.percent, phase.count) {
        (Some(percent), _) => format!("{percent}%"),
        (None, Some(count)) => count.to_string(),
        (None, None) => NONE.to_owned(),
    }
}

fn bar(done: u64, all: u64) -> String {
    let share = u128::from(done) * u128::from(BAR) / u128::from(all.max(1));
    let full = usize::try_from(share.min(u128::from(BAR))).unwrap_or_default();
    let cells = usize::try_from(BAR).unwrap_or_default();
    format!("[{}{}]", "#".repeat(full), ".".repeat(cells - full))
}

fn members(rollout: &Rollout) -> String {
    let cohort = &rollout.cohort;
    let parts = [
        (cohort.applied, "applied"),
        (cohort.waiting, "waiting"),
        (cohort.refused, "refused"),
        (cohort.left, "left"),
    ];
    let parts = parts.into_iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, word)| format!("{n} {word}")).collect();
    let members = plural(cohort.members(), "member");
    let cohort_line = match &parts[..] {
        [] => format!("cohort:   {members}"),
        parts => format!("cohort:   {members}: {}", parts.join(", ")),
    };
    let rest = plural(cohort.rest, "member");
    format!("{cohort_line}\nrest:     {rest} on the last good revision, by the push of this phase")
}

/// Each guard with the numbers of both sides.
fn guards(rollout: &Rollout, style: Style) -> String {
    let mut grid = Grid::new(style, &["GUARD", "CANDIDATE>", "COMPARED>", "LAST LOOK"]);
    let (candidate, compared) = (&rollout.candidate, &rollout.compared);
    let cohort = &rollout.cohort;
    let share = |n: u64| format!("{n} of {}", cohort.members());
    let rows = [
        (
            "disconnects",
            rate(candidate.disconnects, candidate),
            rate(compared.disconnects, compared),
        ),
        (
            "reconnects",
            rate(candidate.reconnects, candidate),
            rate(compared.reconnects, compared),
        ),
        ("rtt", p99(candidate), p99(compared)),
        ("refusals", share(cohort.refused), NONE.to_owned()),
        (
            "unacked",
            share(cohort.waiting + cohort.left),
            NONE.to_owned(),
        ),
    ];
    for (guard, candidate, compared) in rows {
        let found = rollout.findings.iter().find(|found| found.guard == guard);
        grid.row([
            guard.into(),
            candidate.into(),
            compared.into(),
            found.map_or_else(|| "not yet".into(), finding),
        ]);
    }
    let with = clean(&rollout.compared_with);
    format!("{}\ncompared with those {with}", grid.text())
}

fn finding(finding: &RolloutFinding) -> Field {
    let tone = match finding.answer.as_str() {
        "fine" => Tone::Good,
        "too_little" => Tone::Warn,
        _ => Tone::Bad,
    };
    Field::from(finding.sentence.as_str()).tone(tone)
}

/// `3 in 1.25 h (2.40/h)`: of all members together.
fn rate(events: u64, side: &RolloutSide) -> String {
    let hours = side.member_hours;
    if hours <= 0.0 {
        return format!("{events} in 0 h");
    }
    #[expect(clippy::cast_precision_loss, reason = "shown to two digits")]
    let per_hour = events as f64 / hours;
    format!("{events} in {hours:.2} h ({per_hour:.2}/h)")
}

/// `p99 21ms of 8 members`
fn p99(side: &RolloutSide) -> String {
    match side.rtt_p99_ns {
        Some(ns) => format!("p99 {} of {}", rough(ns), plural(side.members, "member")),
        None => NONE.to_owned(),
    }
}

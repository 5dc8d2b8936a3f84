use super::grid::{Field, Grid, Tone, optional};
use crate::format::{NONE, clean, exact, plural, rough, second};
use crate::output::Style;
use crate::view::{Change, Outcome, Policies, Policy, Progress, Revisions, Tuning};

/// Name of the selector without a group.
const FLEET: &str = "(fleet)";

/// T, N, W and D as cells.
pub(super) fn parts(tuning: Option<Tuning>) -> [Field; 4] {
    [
        optional(tuning.map(|tuning| exact(tuning.interval_ns))),
        optional(tuning.map(|tuning| tuning.misses)),
        optional(tuning.map(|tuning| exact(tuning.timeout_ns))),
        optional(tuning.and_then(deadline)),
    ]
}

/// `1m2s`, in adaptive mode with the most that it may become: `1m2s…2m4s`.
fn deadline(tuning: Tuning) -> Option<String> {
    let least = exact(tuning.deadline_ns?);
    Some(match tuning.deadline_at_most_ns {
        Some(most) if tuning.adaptive => format!("{least}…{}", exact(most)),
        _ => least,
    })
}

/// What is beside T, N and W: `fixed`, `adaptive`, or `lease, pong every 5`.
fn mode(tuning: Tuning) -> String {
    match (tuning.adaptive, tuning.pong_every) {
        (true, _) => "adaptive".to_owned(),
        (false, 1) => "fixed".to_owned(),
        (false, k) => format!("lease, pong every {k}"),
    }
}

/// `T 20s, N 3, W 2s, D 1m2s`
pub(super) fn sentence(tuning: &Tuning) -> String {
    let deadline = deadline(*tuning).unwrap_or_else(|| NONE.to_owned());
    let mode = match (tuning.adaptive, tuning.pong_every) {
        (true, _) => ", adaptive".to_owned(),
        (false, 1) => String::new(),
        (false, k) => format!(", a pong for every {k} pings"),
    };
    let (t, w) = (exact(tuning.interval_ns), exact(tuning.timeout_ns));
    format!("T {t}, N {}, W {w}, D {deadline}{mode}", tuning.misses)
}

/// `fleetbeat tune show`
pub(crate) fn policies(policies: &Policies, style: Style) -> String {
    let mut grid = Grid::new(style, &["POLICY", "T>", "N>", "W>", "D>", "MODE"]);
    let mut row = |name: &str, tuning| {
        let [t, n, w, d] = parts(tuning);
        grid.row([name.into(), t, n, w, d, optional(tuning.map(mode))]);
    };
    let fleet_has_one = policies
        .policies
        .iter()
        .any(|policy| policy.group.is_none());
    if !fleet_has_one {
        row("(default)", policies.defaults);
    }
    for Policy { group, tuning } in &policies.policies {
        row(group.as_deref().unwrap_or(FLEET), Some(*tuning));
    }
    let mut sections = vec![format!("revision {}", policies.revision), grid.text()];
    if let Some(effective) = &policies.effective {
        let because = policies
            .effective_because
            .as_deref()
            .unwrap_or("the server does not say why");
        sections.push(format!(
            "in force: {} (revision {})\nbecause:  {}",
            sentence(&effective.tuning),
            effective.revision,
            clean(because),
        ));
    }
    sections.join("\n\n")
}

/// One line per selector, with an arrow where a part moves.
pub(crate) fn changes(changes: &[Change]) -> String {
    let line = |change: &Change| {
        let name = change
            .group
            .as_deref()
            .map_or_else(|| FLEET.to_owned(), clean);
        format!("{name}: {}", moved(change.before, change.after))
    };
    changes.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn moved(before: Option<Tuning>, after: Option<Tuning>) -> String {
    let part = |name: &str, value: &dyn Fn(Tuning) -> String| {
        let (before, after) = (before.map(value), after.map(value));
        let dash = || NONE.to_owned();
        if before == after {
            format!("{name} {}", after.unwrap_or_else(dash))
        } else {
            format!(
                "{name} {} → {}",
                before.unwrap_or_else(dash),
                after.unwrap_or_else(dash)
            )
        }
    };
    let mut parts = vec![
        part("T", &|tuning| exact(tuning.interval_ns)),
        part("N", &|tuning| tuning.misses.to_string()),
        part("W", &|tuning| exact(tuning.timeout_ns)),
        part("D", &|tuning| {
            deadline(tuning).unwrap_or_else(|| NONE.to_owned())
        }),
    ];
    let any = |special: &dyn Fn(Tuning) -> bool| [before, after].into_iter().flatten().any(special);
    if any(&|tuning| tuning.pong_every != 1) {
        parts.push(part("pong every", &|tuning| tuning.pong_every.to_string()));
    }
    if any(&|tuning| tuning.adaptive) {
        parts.push(part("adaptive", &|tuning| {
            if tuning.adaptive { "on" } else { "off" }.to_owned()
        }));
    }
    parts.join(", ")
}

/// What became of a request to change, before anything is waited for.
pub(crate) fn outcome(outcome: &Outcome) -> String {
    let targets = plural(outcome.targets, "live agent");
    match (outcome.revision, outcome.dry_run) {
        (None, true) => format!("dry run: nothing is changed, it would go to {targets}"),
        (None, false) => "no revision made: that is already in force".to_owned(),
        (Some(revision), _) => format!("revision {revision} made, it goes to {targets}"),
    }
}

/// How far a push is, on one line.
pub(crate) fn progress_line(progress: &Progress) -> String {
    let Progress {
        targets,
        applied,
        refused,
        lost,
        superseded,
        waiting,
        ..
    } = progress;
    format!(
        "{applied} of {targets} applied, {refused} refused, {lost} lost, {superseded} superseded, \
         {waiting} waiting"
    )
}

/// The same where there is little room: only what is not zero.
pub(crate) fn progress_brief(progress: &Progress) -> String {
    let mut text = format!("{} of {} applied", progress.applied, progress.targets);
    let others = [
        (progress.refused, "refused"),
        (progress.lost, "lost"),
        (progress.superseded, "superseded"),
        (progress.waiting, "waiting"),
    ];
    for (count, word) in others.into_iter().filter(|(count, _)| *count > 0) {
        text = format!("{text}, {count} {word}");
    }
    text
}

/// Where a push ended.
pub(crate) fn progress(progress: &Progress, style: Style) -> String {
    let times = match (progress.ack_p50_ns, progress.ack_p99_ns) {
        (Some(p50), Some(p99)) => format!("; ack p50 {}, p99 {}", rough(p50), rough(p99)),
        _ => String::new(),
    };
    let mut text = format!(
        "revision {}: {}{times}",
        progress.revision,
        progress_line(progress)
    );
    if !progress.refusals.is_empty() {
        let mut grid = Grid::new(style, &["REFUSED BY", "ID", "REASON"]);
        for refusal in &progress.refusals {
            grid.row([
                refusal.agent_name.as_str().into(),
                refusal.agent_id.as_str().into(),
                Field::from(&refusal.reason).tone(Tone::Bad),
            ]);
        }
        text = format!("{text}\n\n{}", grid.text());
        let untold = progress
            .refused
            .saturating_sub(progress.refusals.len() as u64);
        if untold > 0 {
            text = format!("{text}\nand {untold} more");
        }
    }
    text
}

/// `fleetbeat tune history`
pub(crate) fn revisions(revisions: &Revisions, style: Style) -> String {
    if revisions.revisions.is_empty() {
        return "no revision yet: every agent has the default".to_owned();
    }
    let mut grid = Grid::new(style, &["REV>", "MADE", "BY", "LIVE>", "REASON", "CHANGES"]);
    for revision in &revisions.revisions {
        grid.row([
            revision.revision.into(),
            second(revision.created_at.0).into(),
            revision.author.as_str().into(),
            revision.applied_now.into(),
            revision.reason.as_str().into(),
            Field::lines(&revision.changes),
        ]);
    }
    grid.text()
}

#[cfg(test)]
mod tests {
    use fleetbeat_proto::v1;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn tuning(interval_ns: u64, timeout_ns: u64) -> Tuning {
        let deadline_ns = Some(3 * interval_ns + timeout_ns);
        Tuning {
            interval_ns,
            misses: 3,
            timeout_ns,
            pong_every: 1,
            adaptive: false,
            deadline_ns,
            deadline_at_most_ns: deadline_ns,
        }
    }

    #[test]
    fn only_what_moves_has_an_arrow() {
        let change = Change {
            group: Some("edge".to_owned()),
            before: Some(tuning(20 * S, 2 * S)),
            after: Some(tuning(5 * S, 2 * S)),
        };
        assert_eq!(
            changes(&[change]),
            "edge: T 20s → 5s, N 3, W 2s, D 1m2s → 17s"
        );
    }

    #[test]
    fn a_selector_without_a_group_is_the_fleet() {
        let change = Change {
            group: None,
            before: None,
            after: Some(tuning(S, S)),
        };
        assert_eq!(
            changes(&[change]),
            "(fleet): T - → 1s, N - → 3, W - → 1s, D - → 4s"
        );
    }

    #[test]
    fn lease_mode_is_shown_when_it_is_on() {
        let lease = Tuning {
            pong_every: 5,
            ..tuning(S, S)
        };
        let change = Change {
            group: None,
            before: Some(tuning(S, S)),
            after: Some(lease),
        };
        assert!(changes(&[change]).ends_with("pong every 1 → 5"));
        assert!(sentence(&lease).ends_with("a pong for every 5 pings"));
    }

    #[test]
    fn adaptive_mode_shows_how_long_patience_may_last() {
        let adaptive = Tuning {
            adaptive: true,
            deadline_at_most_ns: Some(8 * S),
            ..tuning(S, S)
        };
        let change = Change {
            group: None,
            before: Some(tuning(S, S)),
            after: Some(adaptive),
        };
        assert!(changes(&[change]).ends_with("D 4s → 4s…8s, adaptive off → on"));
        assert_eq!(sentence(&adaptive), "T 1s, N 3, W 1s, D 4s…8s, adaptive");
    }

    #[test]
    fn refusals_are_listed_and_the_rest_is_counted() {
        let refusal = v1::Refusal {
            agent_id: "0198".to_owned(),
            agent_name: "web-3".to_owned(),
            reason: "too fast".to_owned(),
        };
        let end = Progress::from_wire(v1::RevisionProgress {
            revision: 8,
            targets: 30,
            applied: 5,
            refused: 25,
            refusals: vec![refusal],
            ack_p50_ns: Some(12_000_000),
            ack_p99_ns: Some(80_000_000),
            ..v1::RevisionProgress::default()
        });
        assert_eq!(
            progress(&end, Style::PLAIN),
            "revision 8: 5 of 30 applied, 25 refused, 0 lost, 0 superseded, 0 waiting; \
             ack p50 12ms, p99 80ms\n\n\
             REFUSED BY  ID    REASON\nweb-3       0198  too fast\nand 24 more"
        );
    }
}

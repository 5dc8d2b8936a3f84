use super::grid::{Field, Grid, Tone, optional};
use crate::format::{NONE, clean, exact, plural, rough, second};
use crate::output::Style;
use crate::view::{Outcome, Policies, Policy, Progress, Revisions, Tuning};

/// What applies where no policy speaks.
const BUILT_IN: &str = "(built-in)";

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
    patience(tuning.deadline_ns, tuning.deadline_at_most_ns)
}

fn patience(least: Option<u64>, most: Option<u64>) -> Option<String> {
    let least = least?;
    Some(match most {
        Some(most) if most > least => format!("{}…{}", exact(least), exact(most)),
        Some(_) | None => exact(least),
    })
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
    let mut sections = vec![
        format!("revision {}", policies.revision),
        list(&policies.policies, policies.defaults, style),
    ];
    if let Some(staged) = &policies.staged {
        sections.push(format!(
            "candidate, which {:.2} % of the agents have instead",
            staged.share * 100.0
        ));
        sections.push(list(&staged.policies, policies.defaults, style));
    }
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

/// Policies in order, under what applies without them.
fn list(policies: &[Policy], defaults: Option<Tuning>, style: Style) -> String {
    let header = [
        "POLICY",
        "FOR",
        "T>",
        "N>",
        "W>",
        "D>",
        "PONG EVERY>",
        "ADAPTIVE",
        "UNTIL",
    ];
    let mut grid = Grid::new(style, &header);
    let switch = |on: bool| if on { "on" } else { "off" };
    let [t, n, w, d] = parts(defaults);
    grid.row([
        BUILT_IN.into(),
        "everybody".into(),
        t,
        n,
        w,
        d,
        optional(defaults.map(|tuning| tuning.pong_every)),
        optional(defaults.map(|tuning| switch(tuning.adaptive))),
        optional(None::<u8>),
    ]);
    for policy in policies {
        grid.row([
            policy.name.as_str().into(),
            whom(policy).into(),
            optional(policy.interval_ns.map(exact)),
            optional(policy.misses),
            optional(policy.timeout_ns.map(exact)),
            optional(patience(policy.deadline_ns, policy.deadline_at_most_ns)),
            optional(policy.pong_every),
            optional(policy.adaptive.map(switch)),
            optional(policy.expires_at.map(|at| second(at.0))),
        ]);
    }
    grid.text()
}

/// `group edge, zone=b1|b2, 3 agents`
fn whom(policy: &Policy) -> String {
    let group = policy.group.iter().map(|group| format!("group {group}"));
    let labels = policy
        .labels
        .iter()
        .map(|(key, values)| format!("{key}={}", values.join("|")));
    let agents = match policy.agent_ids.len() {
        0 => None,
        n => Some(plural(n as u64, "agent")),
    };
    let parts: Vec<String> = group.chain(labels).chain(agents).collect();
    if parts.is_empty() {
        return "everybody".to_owned();
    }
    parts.join(", ")
}

/// What became of a request to change, before anything is waited for.
pub(crate) fn outcome(outcome: &Outcome) -> String {
    let mut lines: Vec<String> = outcome.changes.iter().map(|line| clean(line)).collect();
    if outcome.before != outcome.after {
        lines.push(format!(
            "in force: {}",
            moved(outcome.before, outcome.after)
        ));
    }
    let (before, after) = (
        outcome.beats_per_second_before,
        outcome.beats_per_second_after,
    );
    if (after - before).abs() > 0.005 * before.max(after) {
        lines.push(format!(
            "load: {before:.1} → {after:.1} heartbeats/s expected of all known agents"
        ));
    }
    let exceeded = outcome.exceeded.iter().map(|limit| {
        let how = if outcome.dry_run {
            "needs --force"
        } else {
            "forced"
        };
        format!("{how}: {}", clean(limit))
    });
    lines.extend(exceeded);
    if let Some(staged) = &outcome.staged_to {
        let members = plural(staged.connected, "connected member");
        lines.push(match staged.rollout {
            0 => format!("its first phase would reach {} of {members}", staged.cohort),
            id => format!(
                "rollout {id} begins: its first phase reaches {} of {members}",
                staged.cohort
            ),
        });
    }
    let targets = plural(outcome.targets, "live agent");
    lines.push(
        match (
            outcome.revision,
            outcome.dry_run,
            outcome.changes.is_empty(),
        ) {
            (None, _, true) => "no revision made: that is already in force".to_owned(),
            (None, true, false) => format!("dry run: nothing is changed, it would go to {targets}"),
            (None, false, false) => "no revision made".to_owned(),
            (Some(revision), _, _) => format!("revision {revision} made, it goes to {targets}"),
        },
    );
    lines.join("\n")
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
    let overdue = match progress.overdue {
        0 => String::new(),
        overdue => format!(" ({overdue} have not acknowledged in time)"),
    };
    format!(
        "{applied} of {targets} applied, {refused} refused, {lost} lost, {superseded} superseded, \
         {waiting} waiting{overdue}"
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
    let mut grid = Grid::new(
        style,
        &["REV>", "MADE", "BY", "LIVE>", "DRIFT>", "REASON", "CHANGES"],
    );
    for revision in &revisions.revisions {
        grid.row([
            revision.revision.into(),
            second(revision.created_at.0).into(),
            revision.author.as_str().into(),
            revision.applied_now.into(),
            revision.drifting_now.into(),
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
        assert_eq!(
            moved(Some(tuning(20 * S, 2 * S)), Some(tuning(5 * S, 2 * S))),
            "T 20s → 5s, N 3, W 2s, D 1m2s → 17s"
        );
        assert_eq!(
            moved(None, Some(tuning(S, S))),
            "T - → 1s, N - → 3, W - → 1s, D - → 4s"
        );
    }

    #[test]
    fn lease_mode_is_shown_when_it_is_on() {
        let lease = Tuning {
            pong_every: 5,
            ..tuning(S, S)
        };
        assert!(moved(Some(tuning(S, S)), Some(lease)).ends_with("pong every 1 → 5"));
        assert!(sentence(&lease).ends_with("a pong for every 5 pings"));
    }

    #[test]
    fn adaptive_mode_shows_how_long_patience_may_last() {
        let adaptive = Tuning {
            adaptive: true,
            deadline_at_most_ns: Some(8 * S),
            ..tuning(S, S)
        };
        let moved = moved(Some(tuning(S, S)), Some(adaptive));
        assert!(moved.ends_with("D 4s → 4s…8s, adaptive off → on"));
        assert_eq!(sentence(&adaptive), "T 1s, N 3, W 1s, D 4s…8s, adaptive");
    }

    #[test]
    fn limits_that_a_change_exceeds_are_told() {
        let mut dry = Outcome {
            revision: None,
            dry_run: true,
            changes: vec!["fleet: set to T=1s N=3 W=1s".to_owned()],
            before: None,
            after: None,
            targets: 2,
            beats_per_second_before: 100.0,
            beats_per_second_after: 2_000.0,
            exceeded: vec!["interval 1s is below the fleet's floor of 5s".to_owned()],
            staged_to: None,
            progress: None,
        };
        assert_eq!(
            outcome(&dry),
            "fleet: set to T=1s N=3 W=1s\n\
             load: 100.0 → 2000.0 heartbeats/s expected of all known agents\n\
             needs --force: interval 1s is below the fleet's floor of 5s\n\
             dry run: nothing is changed, it would go to 2 live agents"
        );
        dry.dry_run = false;
        dry.revision = Some(4);
        assert!(outcome(&dry).contains("\nforced: interval 1s is below"));
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

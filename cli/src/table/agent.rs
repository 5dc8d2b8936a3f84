use super::grid::{Field, Grid, Tone, optional};
use super::{event, tuning};
use crate::format::{NONE, clean, exact, plural, rough, second};
use crate::output::Style;
use crate::view::{Agent, AgentDetails, AgentList, Event, Revised, Session};

/// `fleetbeat agents list`
pub(crate) fn agents(list: &AgentList, style: Style) -> String {
    if list.agents.is_empty() {
        return "no agent fits".to_owned();
    }
    let header = [
        "NAME", "GROUP", "VERDICT", "SINCE", "SEEN>", "T/N/W", "D>", "RTT>", "FLAGS", "ID",
    ];
    let mut grid = Grid::new(style, &header);
    for agent in &list.agents {
        grid.row([
            agent.name.as_str().into(),
            agent.group.as_str().into(),
            verdict(agent),
            second(agent.verdict_since.0).into(),
            optional(agent.last_seen_age_ns.map(rough)),
            optional(agent.applied.or(agent.desired).as_ref().map(short)),
            deadline(agent),
            optional(agent.rtt_median_ns.map(rough)),
            flags(agent),
            agent.agent_id.as_str().into(),
        ]);
    }
    let shown = list.agents.len() as u64;
    let rest = match list.total.saturating_sub(shown) {
        0 => String::new(),
        _ => format!(
            "\n\n{shown} of {} shown; raise --limit for more",
            plural(list.total, "agent")
        ),
    };
    format!("{}{rest}", grid.text())
}

fn verdict(agent: &Agent) -> Field {
    let name = agent.verdict.as_deref().unwrap_or(NONE);
    Field::from(name).tone(match name {
        "online" => Tone::Good,
        "suspect" | "unknown" => Tone::Warn,
        "offline" => Tone::Bad,
        _ => Tone::Plain,
    })
}

/// `20s/3/2s`
fn short(revised: &Revised) -> String {
    let tuning = &revised.tuning;
    format!(
        "{}/{}/{}",
        exact(tuning.interval_ns),
        tuning.misses,
        exact(tuning.timeout_ns)
    )
}

fn deadline(agent: &Agent) -> Field {
    optional((agent.deadline_ns > 0).then(|| exact(agent.deadline_ns)))
}

/// Conditions, and the drift from the desired tuning.
fn flags(agent: &Agent) -> Field {
    let mut flags = agent.conditions.clone();
    if agent.refusal.is_some() {
        flags.push("refused".to_owned());
    } else if agent.drifting {
        flags.push("drifting".to_owned());
    }
    let tone = if flags.is_empty() {
        Tone::Plain
    } else {
        Tone::Warn
    };
    Field::from(flags.join(",")).tone(tone)
}

/// `fleetbeat agents show`
pub(crate) fn agent(details: &AgentDetails, style: Style) -> String {
    let mut sections = vec![headline(&details.agent), facts(&details.agent, style)];
    if let Some(why) = &details.history_unavailable {
        sections.push(format!("sessions and events cannot be had: {}", clean(why)));
    } else {
        sections.push(sessions(&details.sessions, style));
        sections.push(events(&details.events));
    }
    sections.join("\n\n")
}

/// The verdict as a sentence: what a person wants to know first.
fn headline(agent: &Agent) -> String {
    let name = clean(&agent.name);
    let verdict = agent.verdict.as_deref().unwrap_or("in no known state");
    let since = second(agent.verdict_since.0);
    let because = clean(&agent.because);
    let mut lines = vec![format!("{name} is {verdict} since {since}: {because}")];
    lines.extend(agent.condition_details.iter().map(|condition| {
        let (name, detail) = (clean(&condition.name), clean(&condition.detail));
        format!("{name} since {}: {detail}", second(condition.since.0))
    }));
    lines.join("\n")
}

fn facts(agent: &Agent, style: Style) -> String {
    let mut grid = Grid::bare(style);
    let mut row = |name: &str, value: Field| grid.row([name.into(), value]);
    row("agent", agent.name.as_str().into());
    row("id", agent.agent_id.as_str().into());
    row("group", agent.group.as_str().into());
    row("verdict", verdict(agent));
    row("last seen", last_seen(agent));
    row("deadline D", deadline(agent));
    row("desired", optional(agent.desired.as_ref().map(revised)));
    row("applied", applied(agent));
    row("rtt", rtt(agent).into());
    row("flags", flags(agent));
    row("session", optional(agent.session_id.as_deref()));
    row(
        "fence",
        optional(
            agent
                .fence
                .map(|f| format!("{}.{}", f.incarnation, f.connection)),
        ),
    );
    row("address", agent.address.as_str().into());
    row("version", agent.agent_version.as_str().into());
    let labels: Vec<String> = agent
        .labels
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    row("labels", labels.join(" ").into());
    grid.text()
}

fn last_seen(agent: &Agent) -> Field {
    match (agent.last_seen_age_ns, agent.last_seen_at) {
        (Some(age), Some(at)) => format!("{} ago ({})", rough(age), second(at.0)).into(),
        (Some(age), None) => format!("{} ago", rough(age)).into(),
        (None, Some(at)) => second(at.0).into(),
        (None, None) => "never by this server".into(),
    }
}

fn revised(revised: &Revised) -> String {
    format!(
        "{} (revision {})",
        tuning::sentence(&revised.tuning),
        revised.revision
    )
}

fn applied(agent: &Agent) -> Field {
    let value = agent
        .applied
        .as_ref()
        .map_or_else(|| "never".to_owned(), revised);
    match &agent.refusal {
        Some(why) => {
            Field::from(format!("{value}; refused the desired one: {why}")).tone(Tone::Bad)
        }
        None if agent.drifting => Field::from(format!("{value}; drifting")).tone(Tone::Warn),
        None => value.into(),
    }
}

fn rtt(agent: &Agent) -> String {
    match (agent.rtt_median_ns, agent.rtt_p95_ns) {
        (Some(median), Some(p95)) => format!("median {}, p95 {}", rough(median), rough(p95)),
        (Some(median), None) => format!("median {}", rough(median)),
        (None, _) => NONE.to_owned(),
    }
}

fn sessions(sessions: &[Session], style: Style) -> String {
    if sessions.is_empty() {
        return "no session on record".to_owned();
    }
    let header = [
        "OPENED",
        "LASTED>",
        "BEATS>",
        "FENCE>",
        "CLOSED BY",
        "CAUSE",
        "DETAIL",
        "ADDRESS",
    ];
    let mut grid = Grid::new(style, &header);
    for session in sessions {
        let lasted = session.closed_at.map(|closed| {
            let us = closed.0.saturating_sub(session.opened_at.0);
            rough(u64::try_from(us).unwrap_or(0).saturating_mul(1_000))
        });
        let reason = match (&session.close_reason, session.closed_at) {
            (Some(reason), _) => reason.as_str().into(),
            (None, None) => Field::from("(live)").tone(Tone::Good),
            (None, Some(_)) => NONE.into(),
        };
        grid.row([
            second(session.opened_at.0).into(),
            optional(lasted),
            session.beats.into(),
            optional(
                session
                    .fence
                    .map(|f| format!("{}.{}", f.incarnation, f.connection)),
            ),
            reason,
            optional(session.cause.as_deref()),
            optional(session.close_detail.as_deref()),
            session.address.as_str().into(),
        ]);
    }
    grid.text()
}

fn events(events: &[Event]) -> String {
    if events.is_empty() {
        return "no event on record".to_owned();
    }
    let line = |view: &Event| {
        let (at, kind) = (second(view.time.0), clean(&view.kind));
        format!("{at}  {kind:<15}  {}", event::sentence(view))
            .trim_end()
            .to_owned()
    };
    events.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use fleetbeat_proto::v1;

    use super::*;

    fn tuned(interval_s: u64) -> v1::RevisedTuning {
        let tuning = v1::Tuning {
            interval_ns: Some(interval_s * 1_000_000_000),
            misses: Some(3),
            timeout_ns: Some(2_000_000_000),
            pong_every: Some(1),
            adaptive: None,
        };
        v1::RevisedTuning {
            revision: interval_s,
            hash: interval_s,
            tuning: Some(tuning),
        }
    }

    fn live(applied_s: u64) -> v1::Agent {
        v1::Agent {
            name: "web-1".to_owned(),
            verdict: v1::Verdict::Online.into(),
            session_id: Some("s".to_owned()),
            desired: Some(tuned(20)),
            applied: Some(tuned(applied_s)),
            ..v1::Agent::default()
        }
    }

    fn flags_of(wire: v1::Agent) -> String {
        let mut grid = Grid::bare(Style::PLAIN);
        grid.row([flags(&Agent::from_wire(wire))]);
        grid.text()
    }

    #[test]
    fn only_a_live_agent_drifts() {
        assert_eq!(flags_of(live(20)), "-");
        assert_eq!(flags_of(live(5)), "drifting");
        assert_eq!(
            flags_of(v1::Agent {
                session_id: None,
                ..live(5)
            }),
            "-"
        );
    }

    #[test]
    fn a_refusal_is_named_instead_of_the_drift() {
        let refused = v1::Agent {
            refusal: "too fast".to_owned(),
            ..live(5)
        };
        assert_eq!(flags_of(refused.clone()), "refused");
        let mut grid = Grid::bare(Style::PLAIN);
        grid.row([applied(&Agent::from_wire(refused))]);
        assert_eq!(
            grid.text(),
            "T 5s, N 3, W 2s, D 17s (revision 5); refused the desired one: too fast"
        );
    }

    #[test]
    fn the_list_says_when_it_is_not_everything() {
        let list = AgentList {
            agents: vec![Agent::from_wire(live(20))],
            total: 3,
        };
        assert!(
            agents(&list, Style::PLAIN).ends_with("1 of 3 agents shown; raise --limit for more")
        );
    }

    #[test]
    fn an_empty_list_says_so() {
        assert_eq!(
            agents(
                &AgentList {
                    agents: vec![],
                    total: 0
                },
                Style::PLAIN
            ),
            "no agent fits"
        );
    }
}

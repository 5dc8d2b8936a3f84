use crate::format::{NONE, clean, millisecond};
use crate::output::Style;
use crate::view::Event;

/// One line per event, readable while more arrive, so the columns have fixed widths.
pub(crate) fn event(event: &Event, _: Style) -> String {
    let agent = if event.agent_name.is_empty() {
        &event.agent_id
    } else {
        &event.agent_name
    };
    format!(
        "{}  {:<15}  {:<16}  {:<12}  {}",
        millisecond(event.time.0),
        clean(&event.kind),
        or_dash(agent),
        or_dash(&event.group),
        sentence(event),
    )
    .trim_end()
    .to_owned()
}

/// What happened: the facts, then the server's sentence.
pub(super) fn sentence(event: &Event) -> String {
    let revision = event
        .revision
        .map(|revision| format!("revision {revision}"));
    let facts = [event.verdict.clone(), event.close_reason.clone(), revision];
    let facts = facts.into_iter().flatten().collect::<Vec<_>>().join(" ");
    match (facts.is_empty(), event.detail.is_empty()) {
        (_, true) => facts,
        (true, false) => clean(&event.detail),
        (false, false) => format!("{facts}: {}", clean(&event.detail)),
    }
}

fn or_dash(text: &str) -> String {
    if text.is_empty() {
        NONE.to_owned()
    } else {
        clean(text)
    }
}

#[cfg(test)]
mod tests {
    use fleetbeat_proto::v1;

    use super::*;

    fn wire() -> v1::Event {
        v1::Event {
            event_id: 7,
            at_unix_us: 1_796_053_355_123_456,
            agent_id: "0198".to_owned(),
            agent_name: "web-1".to_owned(),
            group: "edge".to_owned(),
            kind: "session_closed".to_owned(),
            close_reason: v1::CloseReason::MissedHeartbeats.into(),
            ..v1::Event::default()
        }
    }

    #[test]
    fn an_event_is_one_line_with_its_facts() {
        assert_eq!(
            event(&Event::from_wire(wire()), Style::PLAIN),
            "2026-11-30 15:42:35.123Z  session_closed   web-1             edge          missed_heartbeats"
        );
    }

    #[test]
    fn the_servers_sentence_follows_the_facts() {
        let told = v1::Event {
            detail: "nothing for 62s".to_owned(),
            ..wire()
        };
        assert!(
            event(&Event::from_wire(told), Style::PLAIN)
                .ends_with("  missed_heartbeats: nothing for 62s")
        );
    }

    #[test]
    fn a_nameless_agent_shows_its_id() {
        let nameless = v1::Event {
            agent_name: String::new(),
            ..wire()
        };
        assert!(event(&Event::from_wire(nameless), Style::PLAIN).contains("  0198  "));
    }
}

use super::grid::{Field, Grid, Tone, optional};
use super::tuning::parts;
use crate::format::{count, plural, rough};
use crate::output::Style;
use crate::view::{Judge, Recorder, Status};

/// Facts first, then lanes, then groups.
pub(crate) fn status(status: &Status, style: Style) -> String {
    let mut sections = vec![facts(status, style), lanes(status, style)];
    if !status.groups.is_empty() {
        sections.push(groups(status, style));
    }
    sections.join("\n\n")
}

fn facts(status: &Status, style: Style) -> String {
    let mut grid = Grid::bare(style);
    let v = &status.verdicts;
    let server = format!(
        "{} ({}) at {}",
        status.server_id, status.version, status.server
    );
    grid.row([Field::from("server"), Field::from(server)]);
    grid.row([Field::from("uptime"), Field::from(rough(status.uptime_ns))]);
    grid.row([
        Field::from("agents"),
        Field::from(format!(
            "{} online, {} suspect, {} offline, {} left, {} unknown",
            v.online, v.suspect, v.offline, v.left, v.unknown
        )),
    ]);
    let sessions = format!(
        "{} (open files: at most {})",
        status.sessions, status.open_files_limit
    );
    grid.row([Field::from("sessions"), Field::from(sessions)]);
    grid.row([Field::from("tuning"), tuning(status)]);
    grid.row([
        Field::from("judge"),
        status.judge.as_ref().map_or_else(unsaid, judge),
    ]);
    for incident in status.judge.iter().flat_map(|judge| &judge.incidents) {
        let group = incident
            .group
            .as_ref()
            .map_or(String::new(), |group| format!(" of {group}"));
        let text = format!("{}{group}: {}", incident.kind, incident.because);
        grid.row([Field::from("incident"), Field::from(text).tone(Tone::Bad)]);
    }
    grid.row([
        Field::from("recorder"),
        status.recorder.as_ref().map_or_else(unsaid, recorder),
    ]);
    grid.text()
}

fn unsaid() -> Field {
    Field::from("the server does not say").tone(Tone::Warn)
}

fn tuning(status: &Status) -> Field {
    let revision = format!("revision {}", status.revision);
    match status.drifting {
        0 => Field::from(format!("{revision}, applied by all live agents")),
        n => Field::from(format!(
            "{revision}, not yet applied by {}",
            plural(n, "live agent")
        ))
        .tone(Tone::Warn),
    }
}

fn judge(judge: &Judge) -> Field {
    let text = format!(
        "last pass {} ago, {} watched, {}",
        rough(judge.last_pass_age_ns),
        judge.watched,
        plural(judge.stalls_total, "stall"),
    );
    if let Some(held) = judge.held_ns {
        return Field::from(format!(
            "{text}; nearly nobody is heard, verdicts held for {}",
            rough(held)
        ))
        .tone(Tone::Bad);
    }
    match judge.grace_left_ns {
        0 => Field::from(text),
        left => Field::from(format!(
            "{text}; verdicts held back for {} more",
            rough(left)
        ))
        .tone(Tone::Warn),
    }
}

fn recorder(recorder: &Recorder) -> Field {
    let detail = recorder
        .detail
        .as_ref()
        .map(|detail| format!(" ({detail})"))
        .unwrap_or_default();
    let backlog = match (recorder.backlog_batches, recorder.backlog_rows) {
        (0, 0) => "nothing waits".to_owned(),
        (batches, rows) => format!(
            "{batches} batches with {} wait, the oldest for {}",
            plural(rows, "row"),
            rough(recorder.backlog_age_ns)
        ),
    };
    let rejected = match recorder.rejected_rows {
        0 => String::new(),
        n => format!(", {} rejected", plural(n, "row")),
    };
    let tone = match (recorder.state.as_str(), recorder.rejected_rows) {
        ("writing", 0) => Tone::Good,
        ("writing", _) => Tone::Warn,
        _ => Tone::Bad,
    };
    Field::from(format!("{}{detail}, {backlog}{rejected}", recorder.state)).tone(tone)
}

fn lanes(status: &Status, style: Style) -> String {
    let mut grid = Grid::new(style, &["LANE>", "SESSIONS>", "BEATS>", "LAG>", "STATE"]);
    for lane in &status.lanes {
        let state = if lane.deaf {
            Field::from("deaf").tone(Tone::Bad)
        } else {
            Field::from("hears")
        };
        grid.row([
            lane.lane.into(),
            lane.sessions.into(),
            count(lane.beats_total).into(),
            rough(lane.lag_ns).into(),
            state,
        ]);
    }
    grid.text()
}

fn groups(status: &Status, style: Style) -> String {
    let header = [
        "GROUP", "ONLINE>", "SUSPECT>", "OFFLINE>", "LEFT>", "UNKNOWN>", "T>", "N>", "W>", "D>",
        "REV>",
    ];
    let mut grid = Grid::new(style, &header);
    for group in &status.groups {
        let verdicts = &group.verdicts;
        let toned =
            |count: u64, tone| Field::from(count).tone(if count == 0 { Tone::Plain } else { tone });
        let [interval, misses, timeout, deadline] =
            parts(group.tuning.map(|revised| revised.tuning));
        grid.row([
            group.group.as_str().into(),
            verdicts.online.into(),
            toned(verdicts.suspect, Tone::Warn),
            toned(verdicts.offline, Tone::Bad),
            verdicts.left.into(),
            toned(verdicts.unknown, Tone::Warn),
            interval,
            misses,
            timeout,
            deadline,
            optional(group.tuning.map(|revised| revised.revision)),
        ]);
    }
    grid.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder_text(state: &str, batches: u64, rejected: u64) -> (String, Tone) {
        let view = Recorder {
            state: state.to_owned(),
            detail: (state == "waiting").then(|| "connection refused".to_owned()),
            backlog_batches: batches,
            backlog_rows: batches * 10,
            backlog_age_ns: 42_000_000_000,
            rejected_rows: rejected,
        };
        let field = recorder(&view);
        let mut grid = Grid::bare(Style::PLAIN);
        let tone = field.tone;
        grid.row([field]);
        (grid.text(), tone)
    }

    #[test]
    fn a_backlog_says_how_much_and_how_old() {
        assert_eq!(
            recorder_text("writing", 0, 0),
            ("writing, nothing waits".to_owned(), Tone::Good)
        );
        let (text, tone) = recorder_text("waiting", 3, 1);
        assert_eq!(
            text,
            "waiting (connection refused), 3 batches with 30 rows wait, the oldest for 42s, 1 row rejected"
        );
        assert_eq!(tone, Tone::Bad);
    }
}

use super::grid::{Field, Grid, Tone};
use crate::format::{NONE, millisecond, rough};
use crate::output::Style;
use crate::view::{Incident, IncidentList};

/// One row each, newest first.
pub(crate) fn incidents(list: &IncidentList, style: Style) -> String {
    if list.incidents.is_empty() {
        return "no incidents".to_owned();
    }
    let mut grid = Grid::new(
        style,
        &["BEGAN", "LASTED>", "KIND", "GROUP", "WHAT HAPPENED"],
    );
    for incident in &list.incidents {
        grid.row([
            millisecond(incident.began_at.0).into(),
            lasted(incident),
            incident.kind.as_str().into(),
            incident.group.as_deref().unwrap_or(NONE).into(),
            sentence(incident),
        ]);
    }
    grid.text()
}

fn lasted(incident: &Incident) -> Field {
    let Some(ended) = incident.ended_at else {
        return Field::from("open").tone(Tone::Bad);
    };
    let micros = ended.0.saturating_sub(incident.began_at.0);
    let nanos = u64::try_from(micros).unwrap_or(0).saturating_mul(1_000);
    rough(nanos).into()
}

fn sentence(incident: &Incident) -> Field {
    let mut lines = vec![incident.because.clone()];
    lines.extend(incident.outcome.clone());
    Field::lines(&lines)
}

use std::time::Duration;

use fleetbeat_proto::{nanos, v1};

use super::parts;
use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::Output;
use crate::settings::Settings;
use crate::{table, view};

const WINDOW_LEAST: Duration = Duration::from_mins(1);
const WINDOW_MOST: Duration = Duration::from_hours(24 * 30);

/// Compare the time before and after a revision, for the agents whose tuning it changed
///
/// On what was recorded: false disconnects, other disconnects, silences, deaths and how soon they were found,
/// round trips and load. A difference is told only where the counts carry it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune report 12
  fleetbeat tune report 12 --window 7d
  fleetbeat tune report 12 --output json | jq '.findings[] | select(.finding == \"more\")'")]
pub(crate) struct Args {
    /// Revision, as `fleetbeat tune history` lists it
    revision: u64,
    /// As much before as after (1m … 30d); less when less has passed
    #[arg(long, value_name = "TIME", value_parser = window, default_value = "1d")]
    window: Duration,
}

fn window(text: &str) -> Result<Duration, String> {
    let window = parts::duration(text)?;
    if (WINDOW_LEAST..=WINDOW_MOST).contains(&window) {
        Ok(window)
    } else {
        Err("say something between 1m and 30d".to_owned())
    }
}

pub(super) async fn run(
    args: &Args,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let request = v1::ReportRevisionRequest {
        revision: args.revision,
        window_ns: nanos(args.window),
    };
    let answer = Fleet::connect(settings).await?.report(request).await?;
    output.show(&view::Report::from_wire(answer), table::report)?;
    Ok(Exit::Done)
}

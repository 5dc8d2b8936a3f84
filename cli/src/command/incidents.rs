use fleetbeat_proto::v1;

use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::{Output, tell};
use crate::settings::Settings;
use crate::{table, view};

/// List what happened to many agents at once or to a server, newest first
///
/// A mass silence: a server hears nearly nobody and holds its verdicts until it can tell whether that is its
/// own fault. A partial or a group silence: much of the fleet, or nearly all of a group, is silent. A stall or
/// a deaf lane: a server did not run, or did not read. Late verdicts: it could not judge for over 10 % of a
/// minute.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat incidents
  fleetbeat incidents --open
  fleetbeat incidents --output json | jq -r '.incidents[] | select(.kind == \"mass_silence\") | .because'")]
pub(crate) struct Args {
    /// Only those that last
    #[arg(long)]
    open: bool,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
}

pub(crate) async fn run(
    args: &Args,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let request = v1::ListIncidentsRequest {
        page_size: args.limit,
        open: args.open,
    };
    let answer = Fleet::connect(settings).await?.incidents(request).await?;
    let list = view::IncidentList::from_wire(answer);
    if let Some(why) = &list.history_unavailable {
        tell(&format!(
            "only what the server itself remembers, its history cannot be asked: {why}"
        ));
    }
    output.show(&list, table::incidents)?;
    Ok(Exit::Done)
}
